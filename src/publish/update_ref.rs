//! Making commits visible: one reference moves, and all of them are there, or none is.
//!
//! If the branch is the one that is checked out, the user's index goes with it, as with `git commit`: the new index is
//! written beside the old one under git's own lock, then the reference moves, then the new index takes its place. What
//! else was staged stays staged. The work tree is not touched.
//!
//! Whoever is killed between the last two steps leaves the new index under git's lock, and a note of which commit it belongs
//! to. The next publish puts it in its place, or takes the lock away if the reference never moved.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::repository::Repository;
use super::scope::shown;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, random_hex};
use crate::git::{Differences, GitIndex, copy_index};
use crate::humanize::count;
use crate::interrupt;

/// In the repository, while a landing is under way: the commit that HEAD shall be.
const NOTE: &str = "decree-publish";

/// Where commits go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchTarget {
    /// To what is checked out: a branch, or a detached HEAD.
    Head,
    /// To a branch that is not.
    Branch(String),
}

/// Commits that are to become visible.
pub struct RefUpdate<'l> {
    /// Where.
    pub target: &'l BranchTarget,
    /// What was there when they were made.
    pub there: Option<&'l str>,
    /// The last of them.
    pub tip: &'l str,
    /// How many there are.
    pub count: usize,
    /// Where the tip is not what the base is.
    pub entries: &'l Differences,
}

/// Something else that is staged for a path would be thrown away.
pub fn refuse_staged(repository: &Repository, base: Option<&str>, entries: &Differences) -> Result<()> {
    let staged = GitIndex::of_user(&repository.git).differences(base.unwrap_or(&repository.empty_tree))?;
    let lost: Vec<&Vec<u8>> = staged
        .iter()
        .filter(|(path, staged)| entries.get(*path).is_some_and(|entry| entry != *staged))
        .map(|(path, _)| path)
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(Error::failed("other changes are staged for files that are to be committed")
        .details(shown(lost), 20)
        .detail("nothing was done")
        .hint("`git restore --staged` takes them out of the index and leaves the work tree as it is"))
}

impl RefUpdate<'_> {
    /// Moves the reference, and the index with it.
    pub fn apply(&self, repository: &Repository) -> Result<()> {
        interrupt::check()?;
        match self.target {
            BranchTarget::Branch(branch) => self.move_reference(repository, &format!("refs/heads/{branch}")),
            BranchTarget::Head => {
                let next = NextIndex::lock(&repository.git_dir)?;
                let index = GitIndex::at(&repository.git, next.file.clone());
                index.put(self.entries)?;
                index.refresh()?;
                let next = next.ready(self.tip)?;
                // From here on it has to be finished: the reference and the index belong together.
                interrupt::check()?;
                let _shield = interrupt::shield();
                self.move_reference(repository, "HEAD")?;
                next.place()
            }
        }
    }

    /// Only if it is still where it was.
    fn move_reference(&self, repository: &Repository, name: &str) -> Result<()> {
        let reason = format!("decree publish: {}", count(self.count, "commit"));
        let old = self.there.unwrap_or(&repository.zero);
        let moved = repository.git.call(["update-ref", "-m", &reason, name, self.tip, old]).ok();
        moved.map(drop).map_err(|error| {
            error
                .detail("nothing was done: branch, index and work tree are as they were")
                .hint("if something else is working in this repository, wait for it and publish again")
        })
    }
}

/// Finishes or undoes what a publish that was killed left.
pub fn finish(repository: &Repository) -> Result<()> {
    let note = repository.git_dir.join(NOTE);
    let tip = match fs::read_to_string(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.at("read", &note)?,
    };
    let (lock, index) = (repository.git_dir.join("index.lock"), repository.git_dir.join("index"));
    let done = match repository.head.as_deref() == Some(tip.trim()) {
        true => fs::rename(&lock, &index),
        false => fs::remove_file(&lock),
    };
    match done {
        // It was killed right at the end, or somebody was here before us.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => result.at("finish", &lock)?,
    }
    fs::remove_file(&note).at("remove", &note)
}

/// The index that will be, while git's lock is held.
struct NextIndex {
    lock: PathBuf,
    file: PathBuf,
    index: PathBuf,
    note: PathBuf,
    placed: bool,
}

impl NextIndex {
    /// Takes git's lock and copies the index.
    fn lock(git_dir: &Path) -> Result<NextIndex> {
        let lock = git_dir.join("index.lock");
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::failed(format!("another git is working here: {} exists", lock.display()))
                    .detail("nothing was done")
                    .hint("wait for it; if none is running, remove that file"));
            }
            result => result.at("create", &lock).map(drop)?,
        }
        let index = git_dir.join("index");
        let file = git_dir.join(format!("index.decree-{}", random_hex()));
        let note = git_dir.join(NOTE);
        let next = NextIndex { lock, file, index, note, placed: false };
        match copy_index(&next.index, &next.file) {
            // Nothing was ever added here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.at("copy", &next.index).map(drop)?,
        }
        Ok(next)
    }

    /// The new index becomes the lock, so that one rename is left to do, and a note says when to.
    fn ready(self, tip: &str) -> Result<NextIndex> {
        fs::rename(&self.file, &self.lock).at("write", &self.lock)?;
        atomic::write(&self.note, format!("{tip}\n").as_bytes())?;
        Ok(self)
    }

    fn place(mut self) -> Result<()> {
        self.placed = true;
        fs::rename(&self.lock, &self.index).at("write", &self.index)?;
        fs::remove_file(&self.note).at("remove", &self.note)
    }
}

impl Drop for NextIndex {
    fn drop(&mut self) {
        if !self.placed {
            for path in [&self.file, &self.note, &self.lock] {
                let _ = fs::remove_file(path);
            }
        }
    }
}
