//! A run's directory: the names in it, and how it is filled. `docs/format.md` has the whole list.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::git_restore::OPERATIONS_DIR;
use super::own_files::{LastingFiles, OwnFiles, ProtectedDir};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::DECREE_DIR;
use crate::error::{Error, IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::fs::{atomic, untrusted};
use crate::message::{Document, MessageId};
use crate::project::Layout;

/// The directory of one run, `.decree/runs/<id>/`. Every name in it that is not a [`CheckpointDir`]'s is spelled here.
#[derive(Clone, Debug)]
pub struct RunDir {
    id: MessageId,
    path: PathBuf,
}

impl RunDir {
    pub const MESSAGE: &str = "message.md";
    pub const FAILURE_CONTEXT: &str = "failure-context.md";
    pub const USAGE: &str = "usage.json";
    pub const ATTEMPTS: &str = "attempts";
    pub const ROUTINE_LOG: &str = "routine.log";
    pub const PAPERMILL_LOG: &str = "papermill.log";
    pub const OUTPUT_NOTEBOOK: &str = "output.ipynb";
    /// A run has one of these logs: a script's or a notebook's.
    pub const LOGS: [&str; 2] = [Self::ROUTINE_LOG, Self::PAPERMILL_LOG];
    /// What reverting a run, or applying it again, needs.
    pub const RECORDS: [&str; 4] =
        [Self::MESSAGE, CheckpointDir::MANIFEST, CheckpointDir::DIFF, CheckpointDir::RESULT];
    /// Files of the last attempt, which are also in the run's directory.
    pub const PUBLISHED: [&str; 4] =
        [CheckpointDir::DIFF, Self::ROUTINE_LOG, Self::OUTPUT_NOTEBOOK, Self::PAPERMILL_LOG];

    /// The directory of the run of message `id`. Creates nothing.
    pub fn of(layout: &Layout, id: &MessageId) -> Self {
        RunDir { id: id.clone(), path: layout.runs().join(id.to_string()) }
    }

    /// Creates the directory. What an earlier run of the same message left in it moves to `previous/<k>/`.
    pub fn begin(&self) -> Result<()> {
        if self.path.is_symlink() {
            let what =
                format!("{} is a symbolic link, and decree writes only to a directory there", self.shown());
            return Err(Error::integrity(what)
                .hint("look at what it is, then remove it and run the same command again"));
        }
        fs::create_dir_all(&self.path).at("create", &self.path)?;
        let left = self.contents()?;
        // A message that was copied here and never begun is in the inbox still.
        if left.iter().all(|name| name == Self::MESSAGE) {
            return Ok(());
        }
        let target = self.checkpoint().create_previous()?;
        for name in left {
            let from = self.path.join(&name);
            fs::rename(&from, target.join(&name)).at("move", &from)?;
        }
        atomic::sync_dir(&self.path)
    }

    /// Whether nothing is there: no directory, or one that only reserves the id.
    pub fn is_empty(&self) -> bool {
        untrusted::names_in(&self.path).is_ok_and(|names| names.is_empty())
    }

    /// Everything in the directory but the earlier runs. The manifest is last: a run without one never began.
    fn contents(&self) -> Result<Vec<OsString>> {
        let mut names = untrusted::names_in(&self.path).at("read", &self.path)?;
        names.retain(|name| name != CheckpointDir::PREVIOUS);
        names.sort_by_key(|name| name == CheckpointDir::MANIFEST);
        Ok(names)
    }

    /// The earlier runs of this message, the latest first.
    pub fn previous(&self) -> Result<Vec<CheckpointDir>> {
        let dir = self.path.join(CheckpointDir::PREVIOUS);
        let numbers = self.checkpoint().previous_numbers()?;
        Ok(numbers.iter().rev().map(|number| CheckpointDir::new("", dir.join(number.to_string()))).collect())
    }

    /// Holds decree's own files while an attempt's routine runs; `message` is the name of the run's message in the inbox, and `lasting` is
    /// what was held for an earlier routine.
    pub fn hold_own_files(
        &self,
        layout: &Layout,
        attempt: u32,
        message: &OsStr,
        lasting: Option<LastingFiles>,
    ) -> Result<OwnFiles> {
        let (checkpoint, message) = (self.checkpoint(), layout.inbox().join(message));
        let own = [self.message(), checkpoint.manifest_path(), self.failure_context()];
        let attempts = self.path.join(Self::ATTEMPTS);
        let orders = [
            layout.audit(),
            layout.pending(),
            layout.guarding(),
            layout.guard_failed(),
            layout.git_pending(),
            layout.held(),
        ];
        let mut reserved: Vec<PathBuf> = vec![self.attempt_usage(attempt), self.failure_context()];
        reserved.extend(orders.iter().cloned());
        reserved.push(layout.run_ended());
        for dir in [&checkpoint, &self.attempt(attempt)] {
            reserved.extend([dir.diff_path(), dir.result_path()]);
        }
        let mut later_dirs = vec![
            self.tree_at_revert().dir().to_owned(),
            self.follow_ups(None),
            self.path.join(OPERATIONS_DIR),
            self.path.join(CheckpointDir::PREVIOUS),
        ];
        for number in 1..=attempt {
            later_dirs.extend([self.attempt(number).quarantine_dir(), self.follow_ups(Some(number))]);
        }
        let protected = ProtectedDir {
            dir: &self.path,
            set_aside: checkpoint.quarantine_dir(),
            records: own.iter().cloned().chain([message, layout.running()]).chain(orders).collect(),
            is_record: &|path| own.iter().any(|own| own == path) || path.starts_with(&attempts),
            reserved,
            reserved_unless_file: Self::PUBLISHED.iter().map(|name| self.path.join(name)).collect(),
            later_dirs,
        };
        let lasting = lasting.unwrap_or_else(|| LastingFiles::new(layout, &Self::RECORDS));
        OwnFiles::hold(layout, protected, lasting)
    }

    pub fn id(&self) -> &MessageId {
        &self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path relative to the project, for messages.
    pub fn shown(&self) -> String {
        format!("{}/{}/{}", DECREE_DIR, Layout::RUNS, self.id)
    }

    /// The run as the engine sees it: a checkpoint, and what changed since.
    pub fn checkpoint(&self) -> CheckpointDir {
        CheckpointDir::new(self.id.to_string(), &self.path)
    }

    /// One attempt as the engine sees it: what changed since the run's manifest.
    pub fn attempt(&self, number: u32) -> CheckpointDir {
        CheckpointDir::new(self.id.to_string(), self.attempt_dir(number))
    }

    pub fn attempt_dir(&self, number: u32) -> PathBuf {
        self.path.join(Self::ATTEMPTS).join(number.to_string())
    }

    /// Creates the directory of an attempt that is about to begin. What an earlier attempt's routine put there is set aside.
    pub fn create_attempt(&self, number: u32) -> Result<PathBuf> {
        let dir = self.attempt_dir(number);
        let aside = self.checkpoint().quarantine_dir().join(format!("attempt-{number}"));
        move_to_free_name(&dir, |count| numbered(&aside, ".", count))?;
        fs::create_dir_all(&dir).at("create", &dir)?;
        Ok(dir)
    }

    /// The same directory relative to the project, for messages.
    pub fn attempt_shown(&self, number: u32) -> String {
        format!("{}/{}/{number}", self.shown(), Self::ATTEMPTS)
    }

    /// The number of the last attempt that began.
    pub fn last_attempt(&self) -> Option<u32> {
        let entries = fs::read_dir(self.path.join(Self::ATTEMPTS)).ok()?;
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).max()
    }

    /// The log of an attempt, or of the last one.
    pub fn log(&self, attempt: Option<u32>) -> Option<PathBuf> {
        let dir = attempt.map_or(self.path.clone(), |number| self.attempt_dir(number));
        Self::LOGS.iter().map(|name| dir.join(name)).find(|path| path.exists())
    }

    /// The message as the run took it.
    pub fn message(&self) -> PathBuf {
        self.path.join(Self::MESSAGE)
    }

    /// The message, as far as it can be read.
    pub fn read_message(&self) -> Document {
        let text = crate::message::read_text(&self.message()).unwrap_or_default();
        Document::parse(&text).unwrap_or_default()
    }

    /// What the failed attempts showed, for the last one.
    pub fn failure_context(&self) -> PathBuf {
        self.path.join(Self::FAILURE_CONTEXT)
    }

    /// The end of a failed attempt's log, as plain text and short enough for a prompt.
    pub fn log_tail(&self, number: u32) -> PathBuf {
        self.attempt_dir(number).join("log-tail.txt")
    }

    /// What the routine says it used.
    pub fn usage(&self) -> PathBuf {
        self.path.join(Self::USAGE)
    }

    /// What a routine said it used in one attempt, once the attempt is over.
    pub fn attempt_usage(&self, number: u32) -> PathBuf {
        self.attempt_dir(number).join(Self::USAGE)
    }

    /// Follow-up messages of an attempt that was reverted. An attempt that never began leaves them to the run.
    pub fn follow_ups(&self, attempt: Option<u32>) -> PathBuf {
        attempt.map_or(self.path.clone(), |number| self.attempt_dir(number)).join("follow-ups")
    }

    /// The dead letter of this message, once its spec is tried again.
    pub fn dead_letter(&self) -> PathBuf {
        self.path.join("dead-letter.md")
    }

    /// A `result.json` that the routine wrote.
    pub fn routine_result(&self) -> PathBuf {
        self.path.join("routine-result.json")
    }

    /// What the tree was while it was reverted, if another process had changed it.
    pub fn tree_at_revert(&self) -> CheckpointDir {
        CheckpointDir::new(self.id.to_string(), self.path.join("put-back"))
    }

    /// Gives files of an attempt a second name in the run's own directory, and removes what the attempt has not.
    pub fn publish(&self, number: u32, names: &[&str]) -> Result<()> {
        for name in names {
            let (from, to) = (self.attempt_dir(number).join(name), self.path.join(name));
            if !from.exists() {
                fs::remove_file(&to).if_exists().at("remove", &to)?;
                continue;
            }
            let temporary = self.path.join(format!("{}{name}", atomic::TEMPORARY));
            let _ = fs::remove_file(&temporary);
            // A hard link; a copy where the file system has none.
            if fs::hard_link(&from, &temporary).is_err() {
                fs::copy(&from, &temporary).at("copy", &from)?;
                fs::File::open(&temporary).and_then(|file| file.sync_all()).at("write", &temporary)?;
            }
            fs::rename(&temporary, &to).at("write", &to)?;
            // A rename between two hard links of one file does nothing and leaves both.
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
            fs::write(run.checkpoint().manifest_path(), "{}").unwrap();
            run.begin().unwrap();
            assert!(!run.message().exists());
            let kept = run.path().join(format!("previous/{round}/message.md"));
            assert_eq!(fs::read_to_string(kept).unwrap(), round.to_string());
        }
        run.begin().unwrap();
        assert!(!run.path().join("previous/4").exists(), "nothing to keep, nothing kept");
        fs::remove_dir_all(run.path().join("previous/1")).unwrap();
        assert!(run.checkpoint().create_previous().unwrap().ends_with("previous/4"), "after the latest");
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
