//! Compares the index with an entry's, and restores it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{Covers, FileVersion, IndexCopy, Stash, Stashes};
use crate::error::{Error, IoContext, Result};
use crate::git::{Differences, GitIndex, IndexChange, copy_index, lock_index, parse_changes};
use crate::interrupt;

/// How often another process may change the index at the same time before decree gives up.
const TRIES: usize = 5;

impl Stashes {
    /// The paths, relative to the project, whose index entries changed since an entry was created.
    pub fn staged_since(&self, stash: &Stash, covers: &Covers<'_>) -> Result<Vec<Vec<u8>>> {
        let scratch = self.scratch()?;
        let found = self.copy_index(&scratch)?.index;
        let changes = self.covered(found.changes_since(&stash.index_tree)?, covers);
        let mut paths: Vec<Vec<u8>> = changes
            .iter()
            .filter_map(|change| self.work_tree.to_project(&change.path))
            .map(<[u8]>::to_vec)
            .collect();
        paths.dedup();
        Ok(paths)
    }

    /// Restores the covered part of the index to what it was when an entry was created. The work tree and the rest of the index
    /// stay as they are. The index is replaced atomically.
    ///
    /// Unchanged entries keep their cached stat data. Restored ones keep their assume-unchanged and skip-worktree flags, and
    /// conflicts are removed. Intent-to-add entries are restored if their file exists.
    pub fn restore_index(&self, stash: &Stash, covers: &Covers<'_>) -> Result<()> {
        let intent_to_add = self.intent_to_add(stash, covers)?;
        for _ in 0..TRIES {
            interrupt::check()?;
            let scratch = self.scratch()?;
            let copy = self.copy_index(&scratch)?;
            let changed = self.restore_entries(&copy.index, stash, covers)?;
            let known = copy.index.tagged(|_| true, &intent_to_add.iter().map(Vec::as_slice).collect())?;
            let to_add: Vec<Vec<u8>> = intent_to_add
                .iter()
                .filter(|path| self.is_file(path) && !known.contains(path))
                .cloned()
                .collect();
            if !changed && to_add.is_empty() {
                return Ok(());
            }
            // Ignores failure, for example outside of a sparse checkout: an intent-to-add entry holds no content.
            let _ = copy.index.add_intent(&to_add);
            copy.index.refresh()?;
            if self.replace_index(&copy)? {
                return Ok(());
            }
        }
        Err(Error::failed("the index could not be restored: another process keeps changing it")
            .detail("the index is as that process left it")
            .hint("wait for it and try again"))
    }

    pub(super) fn covered(&self, changes: Vec<IndexChange>, covers: &Covers<'_>) -> Vec<IndexChange> {
        changes.into_iter().filter(|change| self.is_covered(covers, &change.path)).collect()
    }

    /// Sets the covered entries of `index` to those of the stash entry. Returns whether anything changed.
    fn restore_entries(&self, index: &GitIndex<'_>, stash: &Stash, covers: &Covers<'_>) -> Result<bool> {
        let mut conflicts = index.unmerged()?;
        conflicts.retain(|path| self.is_covered(covers, path));
        index.remove(&conflicts)?;
        let changes = self.covered(index.changes_since(&stash.index_tree)?, covers);
        if changes.is_empty() {
            return Ok(!conflicts.is_empty());
        }
        let restored: BTreeSet<&[u8]> = changes
            .iter()
            .filter(|change| change.before.exists())
            .map(|change| change.path.as_slice())
            .collect();
        let skipped = index.tagged(|tag| tag.eq_ignore_ascii_case(&b'S'), &restored)?;
        let unwatched = index.tagged(|tag| tag.is_ascii_lowercase(), &restored)?;
        index.put(
            &changes
                .iter()
                .map(|change| (change.path.clone(), change.before.clone()))
                .collect::<Differences>(),
        )?;
        index.set_flag("--skip-worktree", &skipped)?;
        index.set_flag("--assume-unchanged", &unwatched)?;
        Ok(true)
    }

    /// The intent-to-add files of an entry: they are in the entry, but neither in its index nor in its base.
    fn intent_to_add(&self, stash: &Stash, covers: &Covers<'_>) -> Result<Vec<Vec<u8>>> {
        let added = |since: &str| -> Result<BTreeSet<Vec<u8>>> {
            let args =
                ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--diff-filter=A", since, &stash.commit];
            let changes = parse_changes(&self.git().call(args).ok()?)?;
            Ok(self.covered(changes, covers).into_iter().map(|change| change.path).collect())
        };
        let (to_index, to_base) = (added(&stash.index_tree)?, added(&stash.base)?);
        Ok(to_index.intersection(&to_base).cloned().collect())
    }

    /// Replaces the index with a modified copy, under git's own lock. Returns `false` if the index has changed since it was copied.
    fn replace_index(&self, copy: &IndexCopy<'_>) -> Result<bool> {
        let index = self.work_tree.git_dir.join("index");
        let _shield = interrupt::shield();
        let taken = "another git process is working here";
        let lock = lock_index(&self.work_tree.git_dir, taken, "the index is as it was")?;
        let replaced = (|| {
            let found = fs::metadata(&index).if_exists()?.map(|found| FileVersion::of(&found)).transpose()?;
            if found != copy.source {
                return Ok(false);
            }
            move_file(&copy.file, &lock)?;
            fs::rename(&lock, &index).map(|()| true)
        })();
        if !matches!(replaced, Ok(true)) {
            let _ = fs::remove_file(&lock);
        }
        replaced.at("write", &index)
    }
}

/// Moves an index file, also to another file system.
fn move_file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_index(from, to).map(drop),
        result => result,
    }
}
