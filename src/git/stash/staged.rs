//! The index, compared with an entry's and put back.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use super::{Copied, Covers, Seen, Stash, Stashes};
use crate::error::{Error, IoContext, Result};
use crate::git::{Differences, GitIndex, IndexChange, changes, copy_index};
use crate::interrupt;

/// How often somebody else may change the index meanwhile before we give up.
const TRIES: usize = 5;

impl Stashes {
    /// The paths, relative to the project, at which the index is not what it was when an entry was made.
    pub fn staged_since(&self, stash: &Stash, covers: &Covers<'_>) -> Result<Vec<Vec<u8>>> {
        let scratch = self.scratch()?;
        let found = self.copy_of_index(&scratch)?.index;
        let changes = self.covered(found.changes_since(&stash.index_tree)?, covers);
        let mut paths: Vec<Vec<u8>> =
            changes.iter().filter_map(|change| self.place.inside(&change.path)).map(<[u8]>::to_vec).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Puts the index back, as far as it is covered, to what it was when an entry was made; the work tree is not touched, and
    /// what the index has elsewhere stays. It becomes the new one at once, or stays the old one.
    ///
    /// What is the same keeps what git knows of it. What is put back keeps its flags (assume unchanged, skip the work tree) if it
    /// has any now, and conflicts are gone. What was only meant to be added is so again, if its file is there.
    pub fn restore_index(&self, stash: &Stash, covers: &Covers<'_>) -> Result<()> {
        let intended = self.intended(stash, covers)?;
        for _ in 0..TRIES {
            interrupt::check()?;
            let scratch = self.scratch()?;
            let copied = self.copy_of_index(&scratch)?;
            let brought = self.bring_to(&copied.index, stash, covers)?;
            let known = copied.index.tagged(|_| true, &intended.iter().map(Vec::as_slice).collect())?;
            let there: Vec<Vec<u8>> =
                intended.iter().filter(|path| self.is_file(path) && !known.contains(path)).cloned().collect();
            if !brought && there.is_empty() {
                return Ok(());
            }
            // It is a note for people. That it cannot be written, outside of a sparse checkout say, loses nothing.
            let _ = copied.index.intend(&there);
            copied.index.refresh()?;
            if self.replace_index(&copied)? {
                return Ok(());
            }
        }
        Err(Error::failed("the index could not be put back: something else keeps changing it")
            .detail("it is as that left it")
            .hint("wait for it and try again"))
    }

    fn covered(&self, changes: Vec<IndexChange>, covers: &Covers<'_>) -> Vec<IndexChange> {
        changes.into_iter().filter(|change| self.is_covered(covers, &change.path)).collect()
    }

    /// Whether there was anything to do.
    fn bring_to(&self, index: &GitIndex<'_>, stash: &Stash, covers: &Covers<'_>) -> Result<bool> {
        let mut conflicts = index.unmerged()?;
        conflicts.retain(|path| self.is_covered(covers, path));
        index.remove(&conflicts)?;
        let changes = self.covered(index.changes_since(&stash.index_tree)?, covers);
        if changes.is_empty() {
            return Ok(!conflicts.is_empty());
        }
        let back: BTreeSet<&[u8]> = changes
            .iter()
            .filter(|change| change.before.exists())
            .map(|change| change.path.as_slice())
            .collect();
        let skipped = index.tagged(|tag| tag.eq_ignore_ascii_case(&b'S'), &back)?;
        let unwatched = index.tagged(|tag| tag.is_ascii_lowercase(), &back)?;
        index.put(
            &changes
                .iter()
                .map(|change| (change.path.clone(), change.before.clone()))
                .collect::<Differences>(),
        )?;
        index.flag("--skip-worktree", &skipped)?;
        index.flag("--assume-unchanged", &unwatched)?;
        Ok(true)
    }

    /// What was only meant to be added: the entry has it, and neither its index nor its base has.
    fn intended(&self, stash: &Stash, covers: &Covers<'_>) -> Result<Vec<Vec<u8>>> {
        let added = |since: &str| -> Result<BTreeSet<Vec<u8>>> {
            let args =
                ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--diff-filter=A", since, &stash.commit];
            let changes = changes(&self.git().call(args).ok()?)?;
            Ok(self.covered(changes, covers).into_iter().map(|change| change.path).collect())
        };
        let (to_index, to_base) = (added(&stash.index_tree)?, added(&stash.base)?);
        Ok(to_index.intersection(&to_base).cloned().collect())
    }

    /// Puts a copy in the index's place, under git's own lock; `false` if that is not any more what was copied.
    fn replace_index(&self, copied: &Copied<'_>) -> Result<bool> {
        let (index, lock) = (self.place.git_dir.join("index"), self.place.git_dir.join("index.lock"));
        let _shield = interrupt::shield();
        match OpenOptions::new().write(true).create_new(true).open(&lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::failed(format!("another git is working here: {} exists", lock.display()))
                    .detail("the index is as it was")
                    .hint("wait for it; if none is running, remove that file"));
            }
            result => result.at("create", &lock).map(drop)?,
        }
        let replaced = (|| {
            if Seen::at(&index)? != copied.seen {
                return Ok(false);
            }
            move_file(&copied.file, &lock)?;
            fs::rename(&lock, &index).map(|()| true)
        })();
        if !matches!(replaced, Ok(true)) {
            let _ = fs::remove_file(&lock);
        }
        replaced.at("write", &index)
    }
}

/// Moves an index over another one, to another file system if need be.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_index(from, to).map(drop),
        result => result,
    }
}
