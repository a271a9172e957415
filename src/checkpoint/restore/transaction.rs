//! Moving staged files into the tree so that a crash at any moment leaves all of the change or nothing of it.
//!
//! Each file is in one of three places (`new/`, the tree, `old/`), and every move is a rename. So the steps can be repeated from
//! the start, forward or back, by this process or by the one that recovers from its death. What another process puts in the way
//! moves to quarantine ([`super::concurrent_writes`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::attributes::GivenAttributes;
use super::journal::{Journal, RestoreAction, RestoreStep};
use super::report::{FinishedRestore, RecoveredRestore, RestoreLog, RestoreReport};
use super::transaction_dir::{TransactionDir, content_of, exists};
use crate::checkpoint::attributes::{AttributeChange, Attributes};
use crate::checkpoint::entry::{FileMode, Node, describe};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::{PathKind, Root, is_absent};
use crate::checkpoint::unlocked_dirs::{UnlockedDirs, agrees};
use crate::error::{Error, IoContext, Result};
use crate::{humanize, interrupt};

/// A restore that is prepared, in progress, or was interrupted.
pub struct Transaction<'r> {
    pub(super) root: &'r Root,
    pub(super) dir: TransactionDir,
    pub(super) journal: Journal,
    /// What other processes put in the way, and where it is now.
    pub(super) intruders: RefCell<Vec<(TreePath, PathBuf)>>,
    /// The metadata of each saved file, by step, just before its content was last found to be as expected.
    pub(super) checked_saves: RefCell<BTreeMap<usize, Metadata>>,
    /// Replaced files that other processes have open for writing, and these processes.
    pub(super) still_open: RefCell<Vec<(TreePath, String)>>,
    /// Files and directories in the tree that could not get all of their attributes.
    pub(super) incomplete: RefCell<BTreeMap<TreePath, GivenAttributes>>,
}

/// A path that is not what it should be after a restore.
struct PathMismatch {
    line: String,
    /// Not only the mode differs: another process changed the path.
    foreign: bool,
}

/// Whether a killed process left a restore in the scratch directory.
pub fn is_recovery_needed(scratch: &Path) -> bool {
    let Ok(entries) = fs::read_dir(scratch) else { return false };
    entries.flatten().any(|entry| Journal::path(&entry.path()).exists())
}

/// Finishes or undoes every restore that a killed process left, and removes those that never began.
pub fn recover(root: &Root, scratch: &Path, log: &dyn RestoreLog) -> Result<Vec<RecoveredRestore>> {
    let mut recovered = Vec::new();
    let Some(entries) = fs::read_dir(scratch).if_exists().at("read", scratch)? else { return Ok(recovered) };
    for entry in entries {
        let dir = entry.at("read", scratch)?.path();
        // A journal that cannot be looked at is not a journal that is not there.
        if dir.is_dir() && Journal::path(&dir).try_exists().at("read", &dir)? {
            let journal = Journal::read(&dir)?;
            recovered.push(Transaction::new(root, TransactionDir::existing(dir), journal).recover(log)?);
        } else if dir.is_dir() {
            fs::remove_dir_all(&dir).at("remove", &dir)?;
        } else {
            fs::remove_file(&dir).at("remove", &dir)?;
        }
    }
    Ok(recovered)
}

impl<'r> Transaction<'r> {
    /// A restore whose files are staged in `dir`.
    pub fn new(root: &'r Root, dir: TransactionDir, journal: Journal) -> Self {
        Transaction {
            root,
            dir,
            journal,
            intruders: RefCell::default(),
            checked_saves: RefCell::default(),
            still_open: RefCell::default(),
            incomplete: RefCell::default(),
        }
    }

    /// Carries the restore out. After an error the tree is as it was, except for what the error names.
    pub fn run(mut self, log: &dyn RestoreLog) -> Result<RestoreReport> {
        self.journal.write(self.dir.path())?;
        let error = match self.roll_forward().and_then(|()| self.verify(StepEnd::To)) {
            Ok(wrong) if wrong.is_empty() => {
                let log_failure = self.finish(log, false)?;
                let mut set_aside = self.quarantine_moves();
                let intruders: Vec<TreePath> =
                    self.intruders.get_mut().iter().map(|(path, _)| path.clone()).collect();
                set_aside.append(self.intruders.get_mut());
                let lost = self.lost_attributes();
                let paths: Vec<TreePath> = self.journal.steps.drain(..).map(|step| step.path).collect();
                return Ok(RestoreReport {
                    verified: paths.len(),
                    paths,
                    set_aside,
                    lost,
                    still_open: self.still_open.take(),
                    intruders,
                    broken_links: Vec::new(),
                    separated: Vec::new(),
                    log_failure,
                    shield: Some(interrupt::shield()),
                });
            }
            // Undoing it would not help: every other path is as it should be.
            Ok(wrong) if wrong.iter().all(|wrong| wrong.foreign) => {
                let log_failure = self.finish(log, false)?;
                let error = self.still_written_to("done", &wrong);
                return Err(log_failure
                    .into_iter()
                    .fold(error, |error, more| error.detail(more.to_string())));
            }
            Ok(wrong) => self.not_verified(&wrong),
            Err(error) => error,
        };
        match self.roll_back() {
            Ok(wrong) if wrong.is_empty() && self.intruders.borrow().is_empty() => {
                Err(error.detail("nothing was touched"))
            }
            Ok(wrong) if wrong.is_empty() => Err(self.name_intruders(error.detail("it was undone"))),
            Ok(wrong) => Err(self.still_written_to("undone", &wrong).detail(format!("first: {error}"))),
            Err(worse) => Err(self.name_intruders(
                Error::integrity(format!("{error}; and it could not be undone"))
                    .detail(format!("undo: {worse}"))
                    .detail(self.where_files_are())
                    .hint("stop other processes that write here, or remove the cause; then run any decree command that changes the project: it continues from here"),
            )),
        }
    }

    /// Finishes what an earlier process began, or undoes it if that is not possible.
    fn recover(self, log: &dyn RestoreLog) -> Result<RecoveredRestore> {
        let name = self.journal.name();
        // What was changed after the restore was done is not its business.
        let finished = self.dir.is_done() || {
            self.quarantine_foreign_saves()?;
            !self.dir.is_undone()
                && self.are_staged_files_whole()
                && self.roll_forward().is_ok()
                && self.verify(StepEnd::To).is_ok_and(|wrong| wrong.is_empty())
        };
        let mut log_failure = None;
        if finished {
            log_failure = self.finish(log, true)?;
        } else {
            let wrong = self.roll_back().map_err(|error| {
                Error::integrity(format!(
                    "{name} was interrupted, and can be neither finished nor undone: {error}"
                ))
                .details(error.detail_lines().to_vec(), 20)
                .detail(self.where_files_are())
                .hint("move what is in the way to another place, then run the same command again")
            })?;
            if !wrong.is_empty() {
                return Err(self.still_written_to("interrupted and is undone", &wrong));
            }
        }
        let set_aside = if finished { self.quarantine_moves() } else { Vec::new() };
        let intruders = self.intruders.into_inner();
        Ok(RecoveredRestore { name, finished, set_aside, intruders, log_failure })
    }

    /// After a power cut a staged file may lack its content; then the restore can only be undone.
    fn are_staged_files_whole(&self) -> bool {
        self.journal.steps.iter().enumerate().all(|(n, step)| {
            let path = self.dir.staged(n);
            !step.is_staged()
                || !exists(&path)
                || content_of(&path).ok().flatten() == step.to.and_then(|to| to.content())
        })
    }

    fn roll_forward(&self) -> Result<()> {
        self.unlock_dirs()?;
        for (path, to) in self.quarantine_moves() {
            self.quarantine_planned(&path, &to)?;
        }
        self.move_old_files_out()?;
        for path in self.removable_dirs() {
            self.root.remove_dir(&path).at("remove", &path)?;
        }
        self.move_new_files_in()?;
        self.set_dir_modes(StepEnd::To)
    }

    fn move_old_files_out(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate().rev() {
            let path = &step.path;
            let moved = exists(&self.dir.saved(n))
                || self.dir.is_lost(n)
                || (step.is_staged() && !exists(&self.dir.staged(n)));
            if !step.is_saved() || moved {
                continue;
            }
            match self.root.find(path).at("read", path)? {
                None => continue,
                // The steps below it made that, before they were interrupted.
                Some(found) if found.kind == PathKind::Dir && step.to.is_none() => continue,
                Some(_) => {}
            }
            self.root.move_out(path, &self.dir.saved(n)).at("move", path)?;
            // Only what was expected may be replaced. A check before the move would leave a gap between the two.
            self.quarantine_foreign_save(n, step)?;
        }
        Ok(())
    }

    fn move_new_files_in(&self) -> Result<()> {
        let mut made: Option<TreePath> = None;
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = &step.path;
            let Some(to) = &step.to else {
                self.clear(path)?;
                continue;
            };
            let parent = path.ancestors().last();
            if parent != made {
                for dir in path.ancestors() {
                    self.make_dir(&dir, StepEnd::To)?;
                }
                made = parent;
            }
            if to.is_dir() {
                self.make_dir(path, StepEnd::To)?;
            } else if step.keeps_content() {
                self.set_in_place(step, StepEnd::To)?;
            } else if exists(&self.dir.staged(n)) {
                self.move_in(&self.dir.staged(n), path)?;
            }
        }
        Ok(())
    }

    /// Undoes the restore and ends the transaction. Returns the paths that are not as they were because another process
    /// writes to them.
    fn roll_back(&self) -> Result<Vec<PathMismatch>> {
        if self.dir.is_undone() {
            self.restore_modes()?;
        } else {
            self.move_back()?;
            self.dir.mark_undone()?;
        }
        // The user may have edited a new file while it was in the tree. decree does not delete that.
        self.quarantine_foreign_staged()?;
        let wrong = self.verify(StepEnd::From)?;
        if wrong.iter().any(|wrong| !wrong.foreign) {
            return Err(self.not_verified(&wrong));
        }
        self.dir.remove()?;
        Ok(wrong)
    }

    fn move_back(&self) -> Result<()> {
        self.unlock_dirs()?;
        for (n, step) in self.journal.steps.iter().enumerate().rev() {
            let path = &step.path;
            let new = self.dir.staged(n);
            if step.is_staged() && !exists(&new) && self.root.find(path).at("read", path)?.is_some() {
                self.root.move_out(path, &new).at("move", path)?;
            }
        }
        let known = self.known_dirs();
        for path in self.touched_dirs() {
            if !known.contains_key(&path) && self.root.find(&path).at("read", &path)?.is_some() {
                self.root.remove_dir(&path).at("remove", &path)?;
            }
        }
        for dir in &self.journal.dirs {
            self.make_dir(&dir.path, StepEnd::From)?;
        }
        let moves = self.quarantine_moves();
        // The restore did not get as far as moving these away.
        let unmoved: BTreeSet<&TreePath> =
            moves.iter().filter(|(_, to)| !exists(to)).map(|(path, _)| path).collect();
        for (n, step) in self.journal.steps.iter().enumerate() {
            let path = &step.path;
            if exists(&self.dir.saved(n)) {
                self.move_in(&self.dir.saved(n), path)?;
            } else if step.from.is_some_and(|from| from.is_dir()) {
                self.make_dir(path, StepEnd::From)?;
            } else if step.from.is_none() && !unmoved.contains(path) {
                self.clear(path)?;
            }
        }
        for (path, to) in &moves {
            if exists(to) {
                self.move_in(to, path)?;
            }
        }
        self.restore_modes()
    }

    fn restore_modes(&self) -> Result<()> {
        let only_mode = |step: &&RestoreStep| step.keeps_content() && !step.to.is_some_and(|to| to.is_dir());
        for step in self.journal.steps.iter().filter(only_mode) {
            self.set_in_place(step, StepEnd::From)?;
        }
        self.set_dir_modes(StepEnd::From)
    }

    /// Makes the verified result durable, logs it, and ends the transaction. The restore is done even if it cannot be logged:
    /// then the reason is returned.
    fn finish(&self, log: &dyn RestoreLog, recovered: bool) -> Result<Option<Error>> {
        self.root.sync().at("sync", self.root.path())?;
        self.dir.mark_done()?;
        let Journal { id, action, subject, steps, .. } = &self.journal;
        let mut set_aside = self.quarantine_moves();
        set_aside.extend(self.intruders.borrow().iter().cloned());
        let paths: Vec<TreePath> = steps.iter().map(|step| step.path.clone()).collect();
        let (action, paths, set_aside) = (*action, &paths[..], &set_aside[..]);
        let restore = FinishedRestore { id, action, subject, paths, set_aside, recovered };
        log.settle(&restore).map_err(|error| {
            error
                .detail(format!("{} is done and verified, but not recorded yet", self.journal.name()))
                .hint("remove the cause; the next decree command that changes the project records it")
        })?;
        let log_failure = log.record(&restore).err();
        self.quarantine_open_saves()?;
        self.quarantine_late_writes()?;
        self.find_writers_of_intruders();
        // A runner that cancels a job waits only seconds, and to remove many files takes about as long as to restore them. Only this
        // revert is the last restore of its process, so that no other needs the room.
        if action == RestoreAction::PutBack && interrupt::requested().is_some() {
            self.dir.remove_journal()?;
        } else {
            self.dir.remove()?;
        }
        Ok(log_failure)
    }

    /// Reads every path back, and returns those that are not what that end of their step says.
    fn verify(&self, end: StepEnd) -> Result<Vec<PathMismatch>> {
        let mut wrong = Vec::new();
        let unlocked = UnlockedDirs::above(self.root, self.journal.steps.iter().map(|step| &step.path))
            .at("read", self.root.path())?;
        let moves: BTreeSet<TreePath> = match end {
            StepEnd::From => self.quarantine_moves().into_iter().map(|(path, _)| path).collect(),
            StepEnd::To => BTreeSet::new(),
        };
        let steps: Vec<&RestoreStep> =
            self.journal.steps.iter().filter(|step| !moves.contains(&step.path)).collect();
        let present: Vec<io::Result<Option<Node>>> =
            steps.par_iter().map(|step| unlocked.present(&step.path)).collect();
        for (step, found) in steps.into_iter().zip(present) {
            let path = &step.path;
            let incomplete = self.incomplete.borrow().get(path).map(|given| given.mode);
            let expected = end.of(step).map(|node| incomplete.map_or(*node, |mode| node.with_mode(mode)));
            let expected = expected.as_ref();
            let found = found.at("read", path)?;
            if !agrees(self.root, path, found.as_ref(), expected)? {
                let content = |node: &Node| (node.type_name(), node.content());
                let foreign = found.as_ref().map(content) != expected.map(content);
                let line =
                    format!("{path}: expected {}, found {}", describe(expected), describe(found.as_ref()));
                wrong.push(PathMismatch { line, foreign });
            } else if let Some(line) = self.attribute_mismatch(step, end)? {
                wrong.push(PathMismatch { line, foreign: false });
            }
        }
        Ok(wrong)
    }

    fn not_verified(&self, wrong: &[PathMismatch]) -> Error {
        let count = humanize::count(wrong.len(), "path");
        Error::integrity(format!("{}: {count} did not verify", self.journal.name()))
            .details(wrong.iter().map(|wrong| wrong.line.clone()).collect(), 20)
            .detail(format!("what was replaced is in {}", self.dir.path().display()))
    }

    /// The restore is over, except for some paths.
    fn still_written_to(&self, how: &str, wrong: &[PathMismatch]) -> Error {
        let count = humanize::count(wrong.len(), "path");
        let name = self.journal.name();
        let error =
            Error::integrity(format!("{name} was {how}, except for {count} that another process writes to"))
                .details(wrong.iter().map(|wrong| wrong.line.clone()).collect(), 20)
                .detail("every other path is verified");
        self.name_intruders(error).hint("stop the process that writes there, then run the same command again")
    }

    fn where_files_are(&self) -> String {
        format!("every file is in the tree or in {}", self.dir.path().display())
    }

    pub(super) fn set_mode(&self, path: &TreePath, mode: FileMode) -> Result<()> {
        match self.root.set_mode(path, mode) {
            // Another process removed it; the verification at the end reports that.
            Err(error) if is_absent(&error) => Ok(()),
            result => result.at("set the mode of", path),
        }
    }

    pub(super) fn quarantine_moves(&self) -> Vec<(TreePath, PathBuf)> {
        self.journal.quarantine_moves(self.dir.decree_dir())
    }

    fn quarantine_planned(&self, path: &TreePath, to: &Path) -> Result<()> {
        if exists(to) || self.root.find(path).at("read", path)?.is_none() {
            return Ok(());
        }
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).at("create", parent)?;
        self.root.move_out(path, to).at("set aside", path)
    }
}

/// The two ends of a step: what is there before the restore, and what is there after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepEnd {
    From,
    To,
}

impl StepEnd {
    pub(super) fn of(self, step: &RestoreStep) -> Option<&Node> {
        match self {
            StepEnd::From => step.from.as_ref(),
            StepEnd::To => step.to.as_ref(),
        }
    }

    pub(super) fn attributes(self, change: &AttributeChange) -> &Attributes {
        match self {
            StepEnd::From => &change.before,
            StepEnd::To => &change.after,
        }
    }
}
