//! What came of a restore.

use std::path::PathBuf;

use super::journal::RestoreAction;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::{PathKind, Root};
use crate::error::{Error, Result};
use crate::interrupt::Shield;

/// A restore whose result is verified and durable.
pub struct FinishedRestore<'j> {
    /// The same for a restore that is interrupted and recovered.
    pub id: &'j str,
    pub action: RestoreAction,
    /// The run or checkpoint.
    pub subject: &'j str,
    pub paths: &'j [TreePath],
    /// What moved to the quarantine, and where it is now.
    pub set_aside: &'j [(TreePath, PathBuf)],
    /// Whether another process began it.
    pub recovered: bool,
}

/// Writes down finished restores.
pub trait RestoreLog {
    /// Writes the new state of the run or checkpoint into its own record, before [`RestoreLog::record`]. If it fails, the
    /// journal stays, and recovery calls it again with the same id; so it must accept that the state is there already.
    fn settle(&self, _restore: &FinishedRestore<'_>) -> Result<()> {
        Ok(())
    }

    /// Called before the journal is removed. If the process dies in between, recovery calls it again with the same id, so it
    /// must ignore a restore that it has recorded before.
    fn record(&self, restore: &FinishedRestore<'_>) -> Result<()>;
}

/// An interrupted restore that was finished or undone.
#[derive(Debug)]
pub struct RecoveredRestore {
    /// What messages call it: `revert 2026111603100000-0`.
    pub name: String,
    /// Whether it is done now; otherwise the tree is as if it had never begun.
    pub finished: bool,
    /// What moved to the quarantine, and where it is now.
    pub set_aside: Vec<(TreePath, PathBuf)>,
    /// What other processes put in the way, and where it is now.
    pub intruders: Vec<(TreePath, PathBuf)>,
    /// Why the log has no entry of it.
    pub log_failure: Option<Error>,
}

/// What a restore did.
#[derive(Debug, Default)]
pub struct RestoreReport {
    /// The number of paths that were changed and read back.
    pub verified: usize,
    /// These paths.
    pub paths: Vec<TreePath>,
    /// What moved to the quarantine, and where it is now; also what other processes put in the way.
    pub set_aside: Vec<(TreePath, PathBuf)>,
    /// Owners and attributes that could not be restored. The mode of such a path gives no user but its owner more access than before.
    pub lost: Vec<(TreePath, Vec<String>)>,
    /// Files that other processes had open for writing, and these processes: they go on writing to what was set aside.
    pub still_open: Vec<(TreePath, String)>,
    /// What other processes wrote during the restore, and what was therefore set aside.
    pub intruders: Vec<TreePath>,
    /// Files that were one of several names of a file, and are files of their own now.
    pub broken_links: Vec<TreePath>,
    /// Files that had other names at the checkpoint, were deleted or replaced since, and are files of their own now.
    pub separated: Vec<TreePath>,
    /// Why the log has no entry of it. The restore is done all the same.
    pub log_failure: Option<Error>,
    /// Held as long as the report: what follows a restore that is done (a comparison, records, git's own state) is not stopped by a
    /// signal. `None` if nothing was done, or if the caller can undo it.
    pub shield: Option<Shield>,
}

impl RestoreReport {
    /// A sentence for everything that is not as it was before.
    pub fn losses(&self) -> Vec<String> {
        let lost = self.lost.iter().map(|(path, lost)| {
            format!(
                "{path}: could not restore its {}; no user but its owner has more access than before",
                lost.join(", ")
            )
        });
        let links = self.broken_links.iter().map(|path| {
            format!("{path} was a hard link to another file; it is a file of its own now, and the other names keep what they have")
        });
        let open = self.still_open.iter().map(|(path, users)| {
            format!("{path} was open for writing in {users}; what it writes from now on is in the file that was set aside, not in {path}")
        });
        let is_closed = |path: &&TreePath| !self.still_open.iter().any(|(open, _)| open == *path);
        let closed = self.intruders.iter().filter(is_closed).map(|path| {
            format!("another process wrote {path} during the restore, and has closed it since; its version was set aside")
        });
        let separated = self.separated.iter().map(|path| {
            format!("{path} had other names at the checkpoint (hard links); it is a file of its own now")
        });
        lost.chain(links).chain(separated).chain(open).chain(closed).collect()
    }

    /// Notes which of the restored files were one of several names of a file: `hard_links` is that list of the checkpoint, sorted.
    pub fn note_separated(&mut self, root: &Root, hard_links: &[TreePath]) {
        let is_alone = |path: &&TreePath| {
            let found = root.find(path).ok().flatten();
            found.is_some_and(|found| found.kind == PathKind::File && found.links == 1)
        };
        let linked = self.paths.iter().filter(|path| hard_links.binary_search(path).is_ok());
        let unnamed = linked.filter(|path| !self.broken_links.contains(path));
        self.separated = unnamed.filter(is_alone).cloned().collect();
    }

    /// What a sentence that says "verified" has to add.
    pub fn exception(&self) -> &'static str {
        if self.lost.is_empty() { "" } else { " except for the warnings" }
    }

    /// Whether a path lacks an owner or attributes that it had.
    pub fn is_incomplete(&self, path: &TreePath) -> bool {
        self.lost.iter().any(|(known, _)| known == path)
    }
}
