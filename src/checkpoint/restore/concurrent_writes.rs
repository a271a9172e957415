//! What other processes do to the tree while a restore moves files: a daemon that logs, a user who saves a file.
//!
//! decree cannot stop them, so a restore may find something where it is about to put a file, and something else than the journal
//! says in a file that it has just moved out. Nothing of that is deleted or overwritten: it moves to the quarantine directory that
//! the journal names, as `<path>`, or `~2/<path>`, `~3/<path>` and so on if that is taken, and the restore goes on. The
//! verification at the end decides whether the result is right.
//!
//! Each check comes *after* the move that it is about. A check before the move would leave a moment in which another process can
//! write between the two; a file that has moved out of the tree has no path by which others reach it. A process that had it open
//! before goes on writing to it, so every saved file is checked once more before it is dropped, and one that is still open for writing
//! is not dropped at all.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::CWD;

use super::journal::RestoreStep;
use super::transaction::{StepEnd, Transaction};
use super::transaction_dir::{content_of, exists};
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::PathKind;
use crate::error::{Error, IoContext, Result};
use crate::fs::quarantine::take_free_name;
use crate::fs::transfer::move_new;
use crate::process::file_users;

/// A file system's clock may stand still for this long: a file that was written so recently may be written again and keep its time.
const RACY: Duration = Duration::from_secs(2);
/// How many times an intruder at one path is moved away before the restore gives up.
const MAX_TRIES: u32 = 50;

impl Transaction<'_> {
    /// Moves a staged, saved or quarantined file into the tree; what is at the path moves to quarantine.
    pub(super) fn move_in(&self, from: &Path, path: &TreePath) -> Result<()> {
        self.retry_without_intruders("restore", path, || self.root.move_in(from, path))
    }

    /// Makes a directory, unless it is there; what else is at the path moves to quarantine.
    pub(super) fn make_dir(&self, path: &TreePath, end: StepEnd) -> Result<()> {
        let steps = &self.journal.steps;
        let step = steps.binary_search_by(|step| step.path.cmp(path)).ok().map(|at| &steps[at]);
        // A file that this restore itself puts here is no intruder. Only a forged diff has a path below a file: that fails.
        if step.and_then(|step| end.of(step)).is_some_and(|node| !node.is_dir()) {
            return self.root.make_dir(path).at("create", path);
        }
        self.retry_without_intruders("create", path, || self.root.make_dir(path))
    }

    /// Moves what is at a path to quarantine, unless it is a directory: that may be there because of what is in it.
    pub(super) fn clear(&self, path: &TreePath) -> Result<()> {
        match self.root.find(path).at("read", path)? {
            Some(found) if found.kind != PathKind::Dir => self.quarantine_intruder(path),
            _ => Ok(()),
        }
    }

    /// Repeats `act` until nothing is in its way: a process that writes to a path may do so again.
    fn retry_without_intruders(
        &self,
        verb: &str,
        path: &TreePath,
        act: impl Fn() -> io::Result<()>,
    ) -> Result<()> {
        for _ in 0..MAX_TRIES {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.quarantine_intruder(path)?
                }
                result => return result.at(verb, path.as_path()),
            }
        }
        Err(Error::failed(format!("cannot {verb} {path}: another process keeps writing to it"))
            .hint("stop that process, then run the same command again"))
    }

    /// Moves what is at a path of the tree to quarantine.
    fn quarantine_intruder(&self, path: &TreePath) -> Result<()> {
        match self.quarantine(path, |to| self.root.move_out(path, to)) {
            // The process that made it has removed it.
            Err(_) if self.root.find(path).at("read", path)?.is_none() => Ok(()),
            result => result,
        }
    }

    /// Moves what came from `path`, by `act`, to a path in quarantine that is free, and that the journal plans nothing else for.
    fn quarantine(&self, path: &TreePath, act: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
        let dir = self.journal.quarantine_dir(self.dir.decree_dir());
        let dir = dir.ok_or_else(|| Error::failed(format!("set-aside/ has no free name for {path}")))?;
        fs::create_dir_all(&dir).at("create", &dir)?;
        let reserved = self.quarantine_moves();
        let candidate = |number| match number {
            1 => dir.join(path.as_path()),
            _ => dir.join(format!("~{number}")).join(path.as_path()),
        };
        let to = take_free_name(candidate, |to| {
            let is_reserved =
                reserved.iter().any(|(_, planned)| to.starts_with(planned) || planned.starts_with(to));
            // An earlier intruder is a file where a directory would have to be: the next number has another one.
            let mut above = to.ancestors().skip(1).take_while(|above| *above != dir);
            if is_reserved || above.any(|above| exists(above) && !above.is_dir()) {
                return Ok(false);
            }
            let parent = to.parent().unwrap_or(&dir);
            fs::create_dir_all(parent).at("create", parent)?;
            act(to).unless_exists().at("set aside", path)
        })?;
        self.intruders.borrow_mut().push((path.clone(), to));
        Ok(())
    }

    /// Moves what step `n` took out of the tree to quarantine, if it is not what the journal says: another process changed it.
    pub(super) fn quarantine_foreign_save(&self, n: usize, step: &RestoreStep) -> Result<()> {
        let saved = self.dir.saved(n);
        let checked = saved.symlink_metadata().at("read", &saved)?;
        if content_of(&saved).at("read", &saved)? == step.from.and_then(|from| from.content()) {
            self.checked_saves.borrow_mut().insert(n, checked);
            return Ok(());
        }
        self.dir.mark_lost(n)?;
        self.quarantine(&step.path, |to| move_new((CWD, saved.as_os_str()), (CWD, to.as_os_str())))
    }

    /// Moves saved files that another process has open, or mapped, for writing to quarantine, where what it goes on writing is not lost. This comes
    /// before the last check of the others: nobody can open a file any more that has left the tree.
    pub(super) fn quarantine_open_saves(&self) -> Result<()> {
        let is_saved_file = |(n, step): (usize, &RestoreStep)| {
            matches!(step.from, Some(Node::File { .. })) && exists(&self.dir.saved(n))
        };
        if !self.journal.steps.iter().enumerate().any(is_saved_file) {
            return Ok(());
        }
        for (name, users) in file_users::writers_in(&self.dir.saved_dir()) {
            let Some(n) = name.to_str().and_then(|name| name.parse::<usize>().ok()) else { continue };
            let (saved, Some(step)) = (self.dir.saved(n), self.journal.steps.get(n)) else { continue };
            self.dir.mark_lost(n)?;
            self.quarantine(&step.path, |to| move_new((CWD, saved.as_os_str()), (CWD, to.as_os_str())))?;
            self.still_open.borrow_mut().push((step.path.clone(), users.join(", ")));
        }
        Ok(())
    }

    /// Moves saved files that a process has written to since they were checked to quarantine, before the rest is dropped. That process
    /// had the file open when it moved out of the tree, and goes on writing to it in quarantine.
    pub(super) fn quarantine_late_writes(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            let saved = self.dir.saved(n);
            let Ok(now) = saved.symlink_metadata() else { continue };
            let is_same = self.checked_saves.borrow().get(&n).is_some_and(|then| is_unwritten(then, &now));
            if !is_same {
                self.quarantine_foreign_save(n, step)?;
            }
        }
        Ok(())
    }

    /// Looks which processes have what moved to quarantine open for writing, or mapped: they go on writing to it there.
    pub(super) fn find_writers_of_intruders(&self) {
        let Some(dir) = self.journal.quarantine_dir(self.dir.decree_dir()) else { return };
        let intruders = self.intruders.borrow();
        if intruders.is_empty() {
            return;
        }
        let writers = file_users::writers_in(&dir);
        let mut still_open = self.still_open.borrow_mut();
        for (path, to) in intruders.iter() {
            let users = to.strip_prefix(&dir).ok().and_then(|inside| writers.get(inside));
            if let Some(users) = users.filter(|_| !still_open.iter().any(|(known, _)| known == path)) {
                still_open.push((path.clone(), users.join(", ")));
            }
        }
    }

    /// Checks every saved file: a killed process may have moved one out and not checked it.
    pub(super) fn quarantine_foreign_saves(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            if exists(&self.dir.saved(n)) {
                self.quarantine_foreign_save(n, step)?;
            }
        }
        Ok(())
    }

    /// Moves new files that were in the tree, and that another process has written to there, to quarantine.
    pub(super) fn quarantine_foreign_staged(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            let staged = self.dir.staged(n);
            if !exists(&staged) {
                continue;
            }
            let found = content_of(&staged).at("read", &staged)?;
            // A power cut leaves a file that was just written empty. Nothing is lost with it.
            let is_empty = found.is_some_and(|(_, size)| size == 0);
            if !is_empty && found != step.to.and_then(|to| to.content()) {
                self.quarantine(&step.path, |to| move_new((CWD, staged.as_os_str()), (CWD, to.as_os_str())))?;
            }
        }
        Ok(())
    }

    /// Adds to an error what is in quarantine.
    pub(super) fn name_intruders(&self, error: Error) -> Error {
        let intruders = self.intruders.borrow();
        let line =
            |(path, to): &(TreePath, PathBuf)| format!("{path} was in the way; moved to {}", to.display());
        error.details(intruders.iter().map(line).collect(), 20)
    }
}

/// Whether the metadata of a file prove that its content is the same at both moments.
fn is_unwritten(then: &Metadata, now: &Metadata) -> bool {
    let stat =
        |file: &Metadata| (file.len(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec());
    let is_racy = now
        .modified()
        .is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|age| age < RACY));
    stat(then) == stat(now) && !is_racy
}
