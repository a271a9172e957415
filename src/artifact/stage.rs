//! Exports run directories and reports to a new directory, without secrets.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::binary::decode_line;
use crate::checkpoint::store::Store;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::history::RunDir;
use crate::interrupt;
use crate::message::MessageId;
use crate::process::redact::Redactor;
use crate::project::Layout;
use crate::report::{Report, html, junit, markdown};

/// The files that decree itself writes into a run; they have no size limit.
const OWN: [&str; 9] = [
    CheckpointDir::DIFF,
    RunDir::FAILURE_CONTEXT,
    CheckpointDir::MANIFEST,
    RunDir::MESSAGE,
    RunDir::OUTPUT_NOTEBOOK,
    RunDir::PAPERMILL_LOG,
    CheckpointDir::RESULT,
    RunDir::ROUTINE_LOG,
    RunDir::USAGE,
];
const HOLDS_SECRET: &str = "it holds a secret of the environment, or text that looks like one";
/// The largest exported file among those that a routine wrote.
const LARGEST: u64 = 32 << 20;
/// More than the largest value of an extended attribute, 64 KiB, takes in base64 with its name.
const LARGEST_ATTRIBUTE: usize = 128 << 10;
/// The deepest nesting of directories in a run.
const DEEPEST: usize = 16;
/// Characters that make `actions/upload-artifact` reject the whole upload.
const FORBIDDEN: [char; 10] = ['"', ':', '<', '>', '|', '*', '?', '\r', '\n', '\\'];

#[derive(Debug, Default)]
pub struct StageReport {
    pub runs: usize,
    pub files: usize,
    pub left_out: Vec<OmittedFile>,
}

/// A file that is not in the artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedFile {
    /// The path in the artifact: `runs/<id>/…`.
    pub path: String,
    pub why: &'static str,
}

/// Exports the runs and reports of a summary to `target`, which has to be empty or missing. `runs` contains the run directories, `store`
/// the entries of manifests that have them there.
pub fn stage(
    report: &Report,
    runs: &Path,
    store: &Store,
    target: &Path,
    secrets: &Redactor,
) -> Result<StageReport> {
    create_empty(target)?;
    let mut stage = Stage { target, store, secrets, report: StageReport::default() };
    let ids = report.summary.messages.iter().filter_map(|message| MessageId::parse(message.id.as_deref()?));
    for id in ids {
        let (from, name) = (runs.join(id.to_string()), format!("{}/{id}", Layout::RUNS));
        if is_directory(&from) {
            stage.report.runs += 1;
            stage.directory(&from, &name, 0)?;
        }
    }
    stage.text(Layout::SUMMARY, &report.summary.to_json())?;
    stage.text("report.html", &html::render(report))?;
    stage.text("report.md", &markdown::render(report, markdown::BUDGET))?;
    stage.text("junit.xml", &junit::render(report))?;
    if !stage.report.left_out.is_empty() {
        let lines = stage.report.left_out.iter().map(|left| format!("{}: {}\n", left.path, left.why));
        stage.text("left-out.txt", &lines.collect::<String>())?;
    }
    Ok(stage.report)
}

fn create_empty(target: &Path) -> Result<()> {
    fs::create_dir_all(target).at("create", target)?;
    if fs::read_dir(target).at("read", target)?.next().is_some() {
        return Err(Error::failed(format!("{} is not empty", target.display()))
            .hint("name a new directory: everything in it becomes part of the artifact"));
    }
    Ok(())
}

struct Stage<'s> {
    target: &'s Path,
    store: &'s Store,
    secrets: &'s Redactor,
    report: StageReport,
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
                let shown = format!("{name}/{}", path.to_string_lossy().escape_debug());
                self.leave_out(shown, "its name is not UTF-8");
                continue;
            };
            // Not exported: quarantined files may be anything, likely secrets included, and earlier runs have their own artifacts. An
            // attempt that was reverted has a quarantine of its own.
            let is_local = file_name.starts_with(CheckpointDir::SET_ASIDE)
                || (depth == 0 && file_name == CheckpointDir::PREVIOUS);
            if is_local || atomic::is_unfinished(file_name.as_ref()) {
                continue;
            }
            let name = format!("{name}/{file_name}");
            match file_name {
                _ if file_name.contains(FORBIDDEN) => {
                    self.leave_out(name.escape_debug().to_string(), "its name is not allowed in an artifact");
                }
                _ if is_directory(&path) && depth == DEEPEST => self.leave_out(name, "nested too deeply"),
                _ if is_directory(&path) => self.directory(&path, &name, depth + 1)?,
                CheckpointDir::MANIFEST if depth == 0 && !Manifest::has_entries(&path) => {
                    self.manifest(&path, &name)?
                }
                _ => self.file(&path, &name, OWN.contains(&file_name))?,
            }
        }
        Ok(())
    }

    /// Copies a file unless it contains a secret. It is omitted instead of redacted, because a redacted diff would not match its hashes.
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
            self.leave_out(name.to_owned(), HOLDS_SECRET);
            return Ok(());
        }
        let to = self.place(name)?;
        file.seek(SeekFrom::Start(0)).at("read", from)?;
        let mut copy = atomic::create_public(&to).at("create", &to)?;
        io::copy(&mut file, &mut copy).at("write", &to)?;
        self.report.files += 1;
        Ok(())
    }

    /// Exports a manifest whose entries are in the store, as a whole: an artifact has no store.
    fn manifest(&mut self, from: &Path, name: &str) -> Result<()> {
        let Ok(manifest) = Manifest::read(from, self.store) else {
            self.leave_out(name.to_owned(), "it is damaged, or its entries are not in the store");
            return Ok(());
        };
        let to = self.place(name)?;
        let mut whole = BufWriter::new(atomic::create_public(&to).at("create", &to)?);
        manifest.write_text(&mut whole).and_then(|()| whole.flush()).at("write", &to)?;
        let mut whole = File::open(&to).at("read", &to)?;
        if self.holds_secret(&mut whole, name).at("read", &to)? {
            fs::remove_file(&to).at("remove", &to)?;
            self.leave_out(name.to_owned(), HOLDS_SECRET);
            return Ok(());
        }
        self.report.files += 1;
        Ok(())
    }

    fn holds_secret(&self, file: &mut File, name: &str) -> io::Result<bool> {
        if self.secrets.is_in(name.as_bytes())? || self.secrets.is_in(&mut *file)? {
            return Ok(true);
        }
        let is_one_of = |names: &[&str]| names.iter().any(|own| name.ends_with(own));
        file.seek(SeekFrom::Start(0))?;
        if is_one_of(&[CheckpointDir::DIFF])
            && self.secrets.is_in(BinaryBlockReader::new(BufReader::new(&mut *file)))?
        {
            return Ok(true);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(is_one_of(&[CheckpointDir::DIFF, CheckpointDir::RESULT, CheckpointDir::MANIFEST])
            && self.secrets.is_in(AttributeReader::new(BufReader::new(file)))?)
    }

    /// Writes a rendered report, which is redacted already. It is not checked again: a word of decree's own that happens to equal a
    /// secret has to stay for the file to be valid.
    fn text(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.place(name)?;
        atomic::write_public(&path, text.as_bytes())?;
        self.report.files += 1;
        Ok(())
    }

    fn place(&self, name: &str) -> Result<PathBuf> {
        let path = self.target.join(name);
        let parent = path.parent().expect("it is below the target");
        fs::create_dir_all(parent).at("create", parent)?;
        Ok(path)
    }

    fn leave_out(&mut self, path: String, why: &'static str) {
        self.report.left_out.push(OmittedFile { path: self.secrets.redact(&path).into_owned(), why });
    }
}

/// Whether the path is a directory and not a link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Opens a regular file without following links. Does not block on a FIFO that a routine left.
pub(super) fn open(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    file.metadata().ok().filter(|metadata| metadata.is_file()).map(|_| file)
}

/// Reads the decoded content of all binary blocks of a diff in sequence, so that a secret in a binary file is found too. Every other line reads as a newline, which separates
/// the blocks.
struct BinaryBlockReader<R> {
    diff: R,
    line: Vec<u8>,
    decoded: Cursor<Vec<u8>>,
}

impl<R: BufRead> BinaryBlockReader<R> {
    fn new(diff: R) -> Self {
        BinaryBlockReader { diff, line: Vec::new(), decoded: Cursor::default() }
    }

    /// Decodes the next line. False at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        // Lines of a binary block are short; longer ones are read in pieces.
        let read = (&mut self.diff).take(1 << 16).read_until(b'\n', &mut self.line)?;
        if read > 0 {
            let line = decode_line(self.line.trim_ascii_end()).unwrap_or_else(|| b"\n".to_vec());
            self.decoded = Cursor::new(line);
        }
        Ok(read > 0)
    }
}

impl<R: BufRead> Read for BinaryBlockReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoded.fill_buf()?.is_empty() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        self.decoded.read(buffer)
    }
}

/// Reads the decoded values of all extended attributes in a diff, a result or a manifest, each with a newline behind it. In these files an
/// attribute is a word `name:<base64>`; every other word that looks like that is decoded, too.
struct AttributeReader<R> {
    text: R,
    word: Vec<u8>,
    decoded: Cursor<Vec<u8>>,
}

impl<R: BufRead> AttributeReader<R> {
    fn new(text: R) -> Self {
        AttributeReader { text, word: Vec::new(), decoded: Cursor::default() }
    }

    /// Decodes the next word. False at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.word.clear();
        loop {
            let buffer = self.text.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| b"\n\r \",".contains(byte));
            // A longer word is no attribute: the kernel allows none with so large a value.
            let space = LARGEST_ATTRIBUTE.saturating_sub(self.word.len());
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            self.word.extend_from_slice(&piece[..piece.len().min(space)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.text.consume(used);
            if end.is_some() {
                self.decode();
                return Ok(true);
            }
        }
        self.decode();
        Ok(!self.word.is_empty())
    }

    fn decode(&mut self) {
        let colon = memchr::memrchr(b':', &self.word);
        let value = colon.and_then(|colon| STANDARD.decode(&self.word[colon + 1..]).ok());
        let value = value.filter(|value| !value.is_empty());
        self.decoded = Cursor::new(value.map_or_else(Vec::new, |value| [&value[..], b"\n"].concat()));
    }
}

impl<R: BufRead> Read for AttributeReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoded.fill_buf()?.is_empty() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        self.decoded.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_decoded_wherever_a_buffer_ends() {
        let (one, two) = (STANDARD.encode("the first value"), STANDARD.encode([0, 1, 2, 255]));
        let text = format!(
            "# decree-attributes \"a b\" old=user.a:{one},user.b:{two} new=-\n{{\"after\": \"owner:1:2,user.c:{one}\"}}"
        );
        for size in 1..40 {
            let mut out = Vec::new();
            let mut decoded = AttributeReader::new(BufReader::with_capacity(size, text.as_bytes()));
            decoded.read_to_end(&mut out).unwrap();
            assert_eq!(decoded.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
            assert_eq!(out, b"the first value\n\x00\x01\x02\xff\nthe first value\n", "{size}");
        }
    }

    #[test]
    fn content_is_decoded_across_lines() {
        let content: Vec<u8> = (0..=255).cycle().take(500).collect();
        let lines: String = STANDARD
            .encode(&content)
            .as_bytes()
            .chunks(76)
            .map(|line| format!("# {}\n", String::from_utf8_lossy(line)))
            .collect();
        let diff = format!(
            "# decree-diff 1\n# decree-binary \"a\" old=- new=x\n{lines}# end\n+# abcd\n@@ -1 +1 @@\n"
        );
        let mut out = Vec::new();
        let mut decoded = BinaryBlockReader::new(diff.as_bytes());
        decoded.read_to_end(&mut out).unwrap();
        assert_eq!(decoded.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
        assert!(out.windows(content.len()).any(|window| window == content));
    }
}
