//! A run's directory: what is in it and how it is filled. `docs/format.md` has the whole list.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::result::RunResult;
use super::verdict::Verdict;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::history::own_files::{OwnFiles, ProtectedDir};
use crate::message::{IdStatus, MessageId};
use crate::project::Layout;

/// Earlier runs of the same message, put back from `dead/` or interrupted.
const PREVIOUS: &str = "previous";

/// Files of an attempt that also stand in the run's directory, as those of the last attempt.
pub(super) const PUBLISHED: [&str; 4] = ["changes.diff", "routine.log", "output.ipynb", "papermill.log"];

/// The directory of one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    id: MessageId,
    path: PathBuf,
}

impl RunDir {
    /// Of a message; nothing is made yet.
    pub fn of(layout: &Layout, id: &MessageId) -> Self {
        RunDir { id: id.clone(), path: layout.runs().join(id.to_string()) }
    }

    /// Makes it; what an earlier run of the same message left in it moves to `previous/<k>/`.
    pub fn begin(&self) -> Result<()> {
        fs::create_dir_all(&self.path).at("create", &self.path)?;
        let left = self.contents()?;
        // A message that was copied here and never begun is in the inbox still.
        if left.iter().all(|name| name == "message.md") {
            return Ok(());
        }
        let previous = self.path.join(PREVIOUS);
        let numbers = self.previous_numbers()?;
        let place = previous.join((numbers.last().copied().unwrap_or(0) + 1).to_string());
        fs::create_dir_all(&place).at("create", &place)?;
        for name in left {
            let from = self.path.join(&name);
            fs::rename(&from, place.join(&name)).at("move", &from)?;
        }
        atomic::sync_dir(&self.path)
    }

    /// Everything in it but the earlier runs. The manifest is last: what begins without one never began.
    fn contents(&self) -> Result<Vec<std::ffi::OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).at("read", &self.path)? {
            let name = entry.at("read", &self.path)?.file_name();
            if name != PREVIOUS {
                names.push(name);
            }
        }
        names.sort_by_key(|name| (name == "manifest.json", name.clone()));
        Ok(names)
    }

    fn previous_numbers(&self) -> Result<Vec<u32>> {
        let dir = self.path.join(PREVIOUS);
        let mut numbers: Vec<u32> = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).at("read", &dir),
            Ok(entries) => {
                entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
            }
        };
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// How many of the last runs of this message were cut off, one after the other.
    pub fn interruptions_in_a_row(&self) -> Result<usize> {
        let numbers = self.previous_numbers()?;
        let was_interrupted = |number: &&u32| {
            let run = CheckpointDir::new("", self.path.join(PREVIOUS).join(number.to_string()));
            // One without a checkpoint was given up for this very reason; whoever puts it back wants it tried.
            run.manifest_path().exists()
                && matches!(RunResult::read(&run.result_path()), Ok(Some(result)) if result.story.status == Verdict::Interrupted)
        };
        Ok(numbers.iter().rev().take_while(was_interrupted).count())
    }

    /// Holds decree's own files while an attempt's routine runs; `message` is the name of the run's message in the inbox.
    pub fn hold_own_files(&self, layout: &Layout, attempt: u32, message: &OsStr) -> Result<OwnFiles> {
        let (attempt, message) = (self.attempt_dir(attempt), layout.inbox().join(message));
        let own = [self.message(), self.saved().manifest_path(), self.failure_context()];
        let attempts = self.path.join("attempts");
        let mut reserved: Vec<PathBuf> = vec![attempt.join("usage.json"), self.failure_context()];
        for dir in [&self.path, &attempt] {
            reserved.extend(["changes.diff", "result.json"].map(|name| dir.join(name)));
        }
        let protected = ProtectedDir {
            dir: &self.path,
            set_aside: self.saved().quarantine_dir(),
            records: own.iter().cloned().chain([layout.running(), layout.audit()]).collect(),
            is_record: &|path| {
                path == message || own.iter().any(|own| own == path) || path.starts_with(&attempts)
            },
            reserved,
            reserved_unless_file: PUBLISHED.iter().map(|name| self.path.join(name)).collect(),
        };
        OwnFiles::hold(layout, protected)
    }

    /// What there is of a run in it.
    pub fn standing(&self) -> IdStatus {
        match RunResult::read(&self.saved().result_path()) {
            Ok(Some(result)) if result.story.kept => IdStatus::Kept,
            Ok(None) if !self.saved().manifest_path().exists() && !self.message().exists() => IdStatus::Free,
            _ => IdStatus::Begun,
        }
    }

    /// The message it is of.
    pub fn id(&self) -> &MessageId {
        &self.id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is, for people: relative to the project.
    pub fn shown(&self) -> String {
        format!(".decree/runs/{}", self.id)
    }

    /// The engine's view of it.
    pub fn saved(&self) -> CheckpointDir {
        CheckpointDir::new(self.id.to_string(), &self.path)
    }

    /// The engine's view of one attempt: the tree after it, against the manifest of the run.
    pub fn attempt(&self, number: u32) -> CheckpointDir {
        CheckpointDir::new(self.id.to_string(), self.attempt_dir(number))
    }

    /// An attempt's own directory.
    pub fn attempt_dir(&self, number: u32) -> PathBuf {
        self.path.join("attempts").join(number.to_string())
    }

    /// The number of the last attempt that began.
    pub fn last_attempt(&self) -> Option<u32> {
        let entries = fs::read_dir(self.path.join("attempts")).ok()?;
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max()
    }

    /// The normalised message.
    pub fn message(&self) -> PathBuf {
        self.path.join("message.md")
    }

    /// What was learned.
    pub fn failure_context(&self) -> PathBuf {
        self.path.join("failure-context.md")
    }

    /// What the routine says it used.
    pub fn usage(&self) -> PathBuf {
        self.path.join("usage.json")
    }

    /// Gives files of an attempt their names in the run's own directory: those of the last attempt stand there.
    pub fn publish(&self, number: u32, names: &[&str]) -> Result<()> {
        for name in names {
            let (from, to) = (self.attempt_dir(number).join(name), self.path.join(name));
            if !from.exists() {
                match fs::remove_file(&to) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    result => result.at("remove", &to)?,
                }
                continue;
            }
            let temporary = self.path.join(format!("{}{name}", atomic::TEMPORARY));
            let _ = fs::remove_file(&temporary);
            // A second name for the same file; where the file system has none, a copy.
            if fs::hard_link(&from, &temporary).is_err() {
                fs::copy(&from, &temporary).at("copy", &from)?;
                fs::File::open(&temporary).and_then(|file| file.sync_all()).at("write", &temporary)?;
            }
            fs::rename(&temporary, &to).at("write", &to)?;
            // A rename between two names of one file does nothing and leaves both.
            let _ = fs::remove_file(&temporary);
        }
        atomic::sync_dir(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let id = MessageId::parse("2025022514320000-0").unwrap();
        let run = RunDir::of(&Layout::new(dir.path().to_owned()), &id);
        run.begin().unwrap();
        (dir, run)
    }

    #[test]
    fn what_an_earlier_run_left_is_kept_in_previous() {
        let (_dir, run) = sample();
        for round in 1..=3 {
            fs::write(run.message(), format!("{round}")).unwrap();
            fs::write(run.saved().manifest_path(), "{}").unwrap();
            run.begin().unwrap();
            assert!(!run.message().exists());
            let kept = run.path().join(format!("previous/{round}/message.md"));
            assert_eq!(fs::read_to_string(kept).unwrap(), round.to_string());
        }
        run.begin().unwrap();
        assert!(!run.path().join("previous/4").exists(), "nothing to keep, nothing kept");
    }

    #[test]
    fn the_last_attempts_files_stand_in_the_run_and_those_it_lacks_do_not() {
        let (_dir, run) = sample();
        for number in 1..=2 {
            fs::create_dir_all(run.attempt_dir(number)).unwrap();
            fs::write(run.attempt_dir(number).join("changes.diff"), number.to_string()).unwrap();
        }
        fs::write(run.attempt_dir(1).join("routine.log"), "log").unwrap();
        for number in [1, 1, 2] {
            run.publish(number, &["changes.diff", "routine.log"]).unwrap();
            assert_eq!(fs::read_to_string(run.path().join("changes.diff")).unwrap(), number.to_string());
        }
        assert!(!run.path().join("routine.log").exists());
        assert_eq!(run.last_attempt(), Some(2));
    }
}
