//! What something else puts in the way while files move: a log that is written all the time, a person who saves.
//!
//! Nothing of it is deleted or written over. It moves to where the journal says that things go which have to make way, to
//! `<path>` there, or `~2/<path>`, `~3/<path>` if that is taken; and the move goes on. Whoever reads the tree back
//! at the end tells whether that was enough.
//!
//! Two marks keep where files are telling how far the move has got. `lost/<n>`: what step `n` replaces was changed at the last
//! moment, and is set aside; there is no old file to put back. `undone`: every old file is back, and only what others
//! wrote into new ones is still to be set aside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::journal::RestoreStep;
use super::transaction::{StepEnd, Transaction, content_of, exists, saved, staged};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::{PathKind, is_absent};
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, transfer};

/// How often what turns up at one path is set aside before it is called hopeless.
const TRIES: u32 = 50;
/// How many things of one name are set aside.
const MOST: u32 = 10_000;

impl Transaction<'_> {
    /// Moves a staged or saved file into the tree.
    pub(super) fn put(&self, from: &Path, path: &TreePath) -> Result<()> {
        self.make_way("put back", path, || self.root.move_in(from, path))
    }

    /// Makes a directory, if it is not there. What this very move puts there is no stranger: a diff that has something inside
    /// a file was not written by decree.
    pub(super) fn make_dir(&self, path: &TreePath, side: StepEnd) -> Result<()> {
        let steps = &self.journal.steps;
        let step = steps.binary_search_by(|step| step.path.0.cmp(path)).ok().map(|at| &steps[at]);
        if step.and_then(|step| side.of(step)).is_some_and(|node| !node.is_dir()) {
            return self.root.make_dir(path).at("create", path.as_path());
        }
        self.make_way("create", path, || self.root.make_dir(path))
    }

    /// Sees to it that nothing is at a path, but for a directory: that may be there because of what is in it.
    pub(super) fn clear(&self, path: &TreePath) -> Result<()> {
        match self.root.find(path).at("read", path.as_path())? {
            Some(found) if found.kind != PathKind::Dir => self.set_stranger_aside(path),
            _ => Ok(()),
        }
    }

    /// Does something that nothing may be in the way of. Whoever put it there may do so again.
    fn make_way(&self, doing: &str, path: &TreePath, act: impl Fn() -> io::Result<()>) -> Result<()> {
        for _ in 0..TRIES {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.set_stranger_aside(path)?
                }
                result => return result.at(doing, path.as_path()),
            }
        }
        Err(Error::failed(format!(
            "cannot {doing} {path}: something else writes there, as often as that is moved away"
        )))
    }

    fn set_stranger_aside(&self, path: &TreePath) -> Result<()> {
        let to = self.free_place(path)?;
        match self.root.move_out(path, &to) {
            // Gone as it had come.
            Err(error) if is_absent(&error) => return Ok(()),
            result => result.at("set aside", path.as_path())?,
        }
        self.strangers.borrow_mut().push((path.clone(), to));
        Ok(())
    }

    /// The same for what is in the transaction's own directory.
    fn set_own_aside(&self, from: &Path, path: &TreePath) -> Result<()> {
        let to = self.free_place(path)?;
        let moved = match fs::rename(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                transfer::move_across((CWD, from.as_os_str()), &to)
            }
            result => result,
        };
        moved.at("set aside", from)?;
        self.strangers.borrow_mut().push((path.clone(), to));
        Ok(())
    }

    /// Where something from `path` can go: nothing is there, and nothing of the journal's goes there.
    fn free_place(&self, path: &TreePath) -> Result<PathBuf> {
        let full = || Error::failed(format!("there is no place to set {path} aside"));
        let aside = self.journal.aside_dir(self.decree_dir()).ok_or_else(full)?;
        let reserved = self.set_aside_moves();
        let mut failure = None;
        for number in 1..MOST {
            let to = match number {
                1 => aside.join(path.as_path()),
                _ => aside.join(format!("~{number}")).join(path.as_path()),
            };
            if exists(&to)
                || reserved.iter().any(|(_, place)| to.starts_with(place) || place.starts_with(&to))
            {
                continue;
            }
            let parent = to.parent().unwrap_or(&aside);
            match fs::create_dir_all(parent).at("create", parent) {
                Ok(()) => return Ok(to),
                // An earlier file is where a directory would have to be.
                Err(error) if parent.ancestors().any(|dir| exists(dir) && !dir.is_dir()) => {
                    failure = Some(error)
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(full))
    }

    /// What moved out of the tree for a step has to be what the journal says: else it is somebody's, and is set aside.
    pub(super) fn set_save_aside_if_foreign(&self, n: usize, step: &RestoreStep) -> Result<()> {
        let from = saved(&self.dir, n);
        if content_of(&from).at("read", &from)? == step.from.and_then(|from| from.content()) {
            return Ok(());
        }
        self.mark("lost", &n.to_string())?;
        self.set_own_aside(&from, &step.path.0)
    }

    /// The same for all of them, as a killed process may have moved one and not looked.
    pub(super) fn set_foreign_saves_aside(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            if exists(&saved(&self.dir, n)) {
                self.set_save_aside_if_foreign(n, step)?;
            }
        }
        Ok(())
    }

    /// What came back out of the tree has to be what was put there: else somebody has written to it.
    pub(super) fn set_foreign_staged_aside(&self) -> Result<()> {
        for (n, step) in self.journal.steps.iter().enumerate() {
            let new = staged(&self.dir, n);
            if !exists(&new) {
                continue;
            }
            let found = content_of(&new).at("read", &new)?;
            // An empty file is what a power cut leaves of one that was just written; nobody's words are in it.
            let empty = found.is_some_and(|(_, size)| size == 0);
            if !empty && found != step.to.and_then(|to| to.content()) {
                self.set_own_aside(&new, &step.path.0)?;
            }
        }
        Ok(())
    }

    /// Whether what step `n` replaces is not there to be put back.
    pub(super) fn is_lost(&self, n: usize) -> bool {
        exists(&self.dir.join("lost").join(n.to_string()))
    }

    /// Whether every old file is back.
    pub(super) fn is_undone(&self) -> bool {
        exists(&self.dir.join("undone"))
    }

    /// Notes that.
    pub(super) fn mark_undone(&self) -> Result<()> {
        self.mark("", "undone")
    }

    fn mark(&self, dir: &str, name: &str) -> Result<()> {
        let dir = self.dir.join(dir);
        fs::create_dir_all(&dir).at("create", &dir)?;
        match atomic::create_new(&dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => drop(result.at("create", dir.join(name))?),
        }
        atomic::sync_dir(&dir)
    }

    /// Adds to an error what was set aside.
    pub(super) fn tell_strangers(&self, error: Error) -> Error {
        let strangers = self.strangers.borrow();
        let line =
            |(path, to): &(TreePath, PathBuf)| format!("{path} was in the way; it is in {}", to.display());
        error.details(strangers.iter().map(line).collect(), 20)
    }
}
