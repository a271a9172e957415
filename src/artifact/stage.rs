//! What is handed on: run directories and reports in a directory of their own, without secrets.

use std::fs::{self, File};
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::binary_blocks::BinaryBlockReader;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::interrupt;
use crate::message::MessageId;
use crate::process::redact::Redactor;
use crate::report::{Report, html, json, junit, markdown};

/// What decree itself writes into a run, however large it is.
const OWN: [&str; 9] = [
    CheckpointDir::DIFF,
    "failure-context.md",
    CheckpointDir::MANIFEST,
    "message.md",
    "output.ipynb",
    "papermill.log",
    CheckpointDir::RESULT,
    "routine.log",
    "usage.json",
];
/// The largest file of a routine's own that is handed on.
const LARGEST: u64 = 32 << 20;
/// So deep may a routine nest directories in its run.
const DEEPEST: usize = 16;
/// An upload with such a name in it fails as a whole.
const FORBIDDEN: [char; 10] = ['"', ':', '<', '>', '|', '*', '?', '\r', '\n', '\\'];

/// What was handed on.
#[derive(Debug, Default)]
pub struct StageReport {
    /// How many runs there are.
    pub runs: usize,
    /// How many files.
    pub files: usize,
    /// Files that are not there.
    pub left_out: Vec<OmittedFile>,
}

/// A file that is not handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedFile {
    /// Where it is: `runs/<id>/…`.
    pub path: String,
    /// Why.
    pub why: &'static str,
}

/// Puts everything that the report tells of into `target`, which is empty or not there yet. `runs` is where the runs are.
pub fn stage(report: &Report, runs: &Path, target: &Path, secrets: &Redactor) -> Result<StageReport> {
    begin(target)?;
    let mut stage = Stage { target, secrets, staged: StageReport::default() };
    let ids = report.summary.messages.iter().filter_map(|message| MessageId::parse(message.id.as_deref()?));
    for id in ids {
        let (from, name) = (runs.join(id.to_string()), format!("runs/{id}"));
        if is_directory(&from) {
            stage.staged.runs += 1;
            stage.directory(&from, &name, 0)?;
        }
    }
    stage.text("summary.json", &json::render(report))?;
    stage.text("report.html", &html::render(report))?;
    stage.text("report.md", &markdown::render(report, markdown::BUDGET))?;
    stage.text("junit.xml", &junit::render(report))?;
    if !stage.staged.left_out.is_empty() {
        let lines = stage.staged.left_out.iter().map(|left| format!("{}: {}\n", left.path, left.why));
        stage.text("left-out.txt", &lines.collect::<String>())?;
    }
    Ok(stage.staged)
}

fn begin(target: &Path) -> Result<()> {
    fs::create_dir_all(target).at("create", target)?;
    if fs::read_dir(target).at("read", target)?.next().is_some() {
        return Err(Error::failed(format!("{} is not empty", target.display()))
            .hint("name a directory that is not there yet: what is in it is handed on as a whole"));
    }
    Ok(())
}

struct Stage<'s> {
    target: &'s Path,
    secrets: &'s Redactor,
    staged: StageReport,
}

impl Stage<'_> {
    fn directory(&mut self, from: &Path, name: &str, depth: usize) -> Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(from).at("read", from)? {
            entries.push(entry.at("read", from)?.path());
        }
        entries.sort();
        for path in entries {
            interrupt::check()?;
            let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else {
                self.leave_out(
                    format!("{name}/{}", path.to_string_lossy().escape_debug()),
                    "its name is not UTF-8",
                );
                continue;
            };
            // What a restore quarantined may be anything, and earlier runs have their own artifacts.
            let stays =
                file_name == CheckpointDir::PREVIOUS || file_name.starts_with(CheckpointDir::SET_ASIDE);
            if depth == 0 && stays || atomic::is_unfinished(file_name.as_ref()) {
                continue;
            }
            let name = format!("{name}/{file_name}");
            match file_name {
                _ if file_name.contains(FORBIDDEN) => {
                    self.leave_out(name.escape_debug().to_string(), "an artifact takes no such name");
                }
                _ if is_directory(&path) && depth == DEEPEST => self.leave_out(name, "nested too deeply"),
                _ if is_directory(&path) => self.directory(&path, &name, depth + 1)?,
                _ => self.file(&path, &name, OWN.contains(&file_name))?,
            }
        }
        Ok(())
    }

    /// Copies a file, unless there is a secret in it: it is not rewritten, as a diff that was would prove nothing.
    fn file(&mut self, from: &Path, name: &str, own: bool) -> Result<()> {
        let Some(mut file) = open(from) else {
            self.leave_out(name.to_owned(), "it is not a regular file, or cannot be read");
            return Ok(());
        };
        let size = file.metadata().at("read", from)?.len();
        if !own && size > LARGEST {
            self.leave_out(name.to_owned(), "it is larger than 32 MiB");
            return Ok(());
        }
        if self.holds_secret(&mut file, name).at("read", from)? {
            self.leave_out(name.to_owned(), "it holds a secret of the environment, or looked like it");
            return Ok(());
        }
        let to = self.place(name)?;
        file.seek(SeekFrom::Start(0)).at("read", from)?;
        let mut copy = atomic::create_new(&to).at("create", &to)?;
        io::copy(&mut file, &mut copy).at("write", &to)?;
        self.staged.files += 1;
        Ok(())
    }

    fn holds_secret(&self, file: &mut File, name: &str) -> io::Result<bool> {
        if self.secrets.is_in(name.as_bytes())? || self.secrets.is_in(&mut *file)? {
            return Ok(true);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(name.ends_with(CheckpointDir::DIFF)
            && self.secrets.is_in(BinaryBlockReader::new(BufReader::new(file)))?)
    }

    /// Writes what was made of a report, which has no secrets in it any more. A word of ours that is one by chance stays, or it
    /// would be no summary.
    fn text(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.place(name)?;
        atomic::write(&path, text.as_bytes())?;
        self.staged.files += 1;
        Ok(())
    }

    fn place(&self, name: &str) -> Result<PathBuf> {
        let path = self.target.join(name);
        let parent = path.parent().expect("it is below the target");
        fs::create_dir_all(parent).at("create", parent)?;
        Ok(path)
    }

    fn leave_out(&mut self, path: String, why: &'static str) {
        self.staged.left_out.push(OmittedFile { path: self.secrets.redact(&path).into_owned(), why });
    }
}

/// A directory itself, not a link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// A regular file itself. Whatever else a routine left there is not waited for.
pub(super) fn open(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    file.metadata().ok().filter(|metadata| metadata.is_file()).map(|_| file)
}
