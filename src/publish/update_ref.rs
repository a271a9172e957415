//! Moves one reference, so that either all commits become visible or none.
//!
//! If the branch is checked out, the user's index moves with it, as with `git commit`: the new index is written beside the old
//! one under git's own lock, then the reference moves, then the new index replaces the old one. Other staged changes stay
//! staged. The work tree is not touched.
//!
//! A process that is killed between the last two steps leaves the new index as git's lock file, and a note with the commit it
//! belongs to. The next publish moves the index into place, or removes the lock if the reference never moved.

use std::fs;
use std::path::{Path, PathBuf};

use super::commits::BuiltCommits;
use super::repository::Repository;
use super::scope::{refuse, shown};
use crate::error::{IoContext, Result};
use crate::fs::{atomic, random_hex};
use crate::git::{Differences, GitIndex, INDEX_LOCK, copy_index, lock_index};
use crate::humanize::count;
use crate::interrupt;

/// The file in the git directory that exists during an update: it names the commit that HEAD moves to.
const NOTE: &str = "decree-publish";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchTarget {
    /// What is checked out: a branch, or a detached HEAD.
    Head,
    /// A branch that is not checked out.
    Branch(String),
}

/// Refuses to commit a path for which other content is staged: that content would be lost.
pub fn refuse_staged(repository: &Repository, base: Option<&str>, entries: &Differences) -> Result<()> {
    let staged = GitIndex::of_user(&repository.git).differences(base.unwrap_or(&repository.empty_tree))?;
    let lost = staged
        .iter()
        .filter(|(path, staged)| entries.get(*path).is_some_and(|entry| entry != *staged))
        .map(|(path, _)| path);
    let hint = "`git restore --staged PATH` unstages them and leaves the work tree unchanged";
    refuse(shown(lost), "files to be committed have other changes staged", hint)
}

/// Moves the target from `current` to `tip`, the last of the commits, and the user's index with it if the target is HEAD. The
/// reference moves only if it still has its recorded value.
pub fn update_ref(
    repository: &Repository,
    target: &BranchTarget,
    current: Option<&str>,
    tip: &str,
    built: &BuiltCommits,
) -> Result<()> {
    interrupt::check()?;
    let move_reference = |name: &str| -> Result<()> {
        let reason = format!("decree publish: {}", count(built.commits.len(), "commit"));
        let old = current.unwrap_or(&repository.zero);
        let moved = repository.git.call(["update-ref", "-m", &reason, name, tip, old]).ok();
        moved.map(drop).map_err(|error| {
            error
                .detail("nothing was done: branch, index and work tree are unchanged")
                .hint("if another process is using this repository, wait for it and publish again")
        })
    };
    if let BranchTarget::Branch(branch) = target {
        return move_reference(&format!("refs/heads/{branch}"));
    }
    let next = NextIndex::lock(&repository.git_dir)?;
    let index = GitIndex::at(&repository.git, next.file.clone());
    index.put(&built.entries)?;
    index.refresh()?;
    let next = next.ready(tip)?;
    // From here on no interrupt: the reference and the index have to move together.
    interrupt::check()?;
    let _shield = interrupt::shield();
    move_reference("HEAD")?;
    next.place()
}

/// Completes or rolls back the update of a publish that was killed.
pub fn recover(repository: &Repository) -> Result<()> {
    let note = repository.git_dir.join(NOTE);
    let Some(tip) = fs::read_to_string(&note).if_exists().at("read", &note)? else { return Ok(()) };
    let (lock, index) = (repository.git_dir.join(INDEX_LOCK), repository.git_dir.join("index"));
    let moved = repository.head.as_deref() == Some(tip.trim());
    let recovered = if moved { fs::rename(&lock, &index) } else { fs::remove_file(&lock) };
    // The lock is missing if the publish was killed after its last step, or a concurrent one has recovered it.
    recovered.if_exists().at("finish", &lock)?;
    fs::remove_file(&note).at("remove", &note)
}

/// The new index, while git's lock is held.
struct NextIndex {
    lock: PathBuf,
    file: PathBuf,
    index: PathBuf,
    note: PathBuf,
    placed: bool,
}

impl NextIndex {
    /// Takes git's index lock and copies the index.
    fn lock(git_dir: &Path) -> Result<NextIndex> {
        let lock = lock_index(git_dir, "another git process is using the index", "nothing was done")?;
        let index = git_dir.join("index");
        let file = git_dir.join(format!("index.decree-{}", random_hex()));
        let note = git_dir.join(NOTE);
        let next = NextIndex { lock, file, index, note, placed: false };
        // A repository without any staged file has no index.
        copy_index(&next.index, &next.file).if_exists().at("copy", &next.index).map(drop)?;
        Ok(next)
    }

    /// Renames the new index to the lock file, so that one rename is left, and writes the note for recovery.
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
