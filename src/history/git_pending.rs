//! A restore of git's own state that failed, because git was locked or is not installed: nothing may be built on what a failed run or command
//! committed, and the next command that takes the lock tries again.

use serde::{Deserialize, Serialize};

use super::git_change::GitChange;
use super::git_restore::{GitRestore, WhyLeft, git_change_since};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, json, untrusted};
use crate::git::state::GitSnapshot;
use crate::project::Layout;

/// The contents of `git-pending.json`.
#[derive(Serialize, Deserialize)]
pub struct PendingGitRestore {
    /// What failed: `run <id>`.
    what: String,
    before: GitRecord,
    change: GitChange,
    keep_as: String,
    reason: String,
    /// The directory of the run or the checkpoint, relative to the project.
    dir: String,
}

impl PendingGitRestore {
    /// Records a restore that failed; one that succeeded is not recorded.
    pub fn note(
        layout: &Layout,
        restore: &GitRestore<'_>,
        what: &str,
        before: &GitRecord,
        change: &GitChange,
    ) -> Result<()> {
        // A state that could not even be read has nothing that could be recognized again.
        if change.restored || !change.is_unrestored() || change.head_after.is_empty() {
            return Ok(());
        }
        let pending = PendingGitRestore {
            what: what.to_owned(),
            before: before.clone(),
            change: change.clone(),
            keep_as: restore.keep_as.clone(),
            reason: restore.reason.clone(),
            dir: layout.shown(restore.dir),
        };
        json::write_pretty(&layout.git_pending(), &pending)
    }

    fn find(layout: &Layout) -> Result<Option<PendingGitRestore>> {
        let path = layout.git_pending();
        let Some(text) = untrusted::read(&path).if_exists().at("read", &path)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|why| {
            Error::damaged(&path, why).hint(
                "look at git's HEAD and index yourself; `decree recover --keep` leaves them as they are",
            )
        })
    }

    /// Whether a restore is still to be done.
    pub fn exists(layout: &Layout) -> bool {
        layout.git_pending().symlink_metadata().is_ok()
    }

    /// Refuses to work on top of what is still to be taken back.
    pub fn refuse(layout: &Layout) -> Result<()> {
        let Some(pending) = PendingGitRestore::find(layout)? else { return Ok(()) };
        let what = &pending.what;
        Err(Error::integrity(format!("git's own state is not restored since {what} failed"))
            .details(pending.change.not_restored, 20)
            .detail("nothing was done: HEAD and the index may have what is to be taken back")
            .hint("remove the cause; the same command then restores git's state first; `decree recover --keep` leaves it as it is"))
    }

    /// Leaves git's own state as it is. Returns whether a restore was still to be done.
    pub fn forget(layout: &Layout) -> Result<bool> {
        let was_pending = PendingGitRestore::exists(layout);
        if was_pending {
            atomic::remove(&layout.git_pending())?;
        }
        Ok(was_pending)
    }

    /// Tries again. Returns what to report; if that fails once more, the restore stays to be done.
    pub fn finish(layout: &Layout, workspace: &Workspace) -> Result<Vec<String>> {
        let Some(mut pending) = PendingGitRestore::find(layout)? else { return Ok(Vec::new()) };
        let path = layout.git_pending();
        let dir = layout.root().join(&pending.dir);
        let restore = GitRestore {
            workspace,
            keep_as: pending.keep_as.clone(),
            reason: pending.reason.clone(),
            dir: &dir,
        };
        match pending.retry(workspace, &restore) {
            Ok(lines) => {
                atomic::remove(&path)?;
                Ok(lines)
            }
            Err(why) => {
                pending.change.not_restored = why;
                // A full disk must not stop the commands that go back; the old record has an older reason.
                let _ = json::write_pretty(&path, &pending);
                Ok(Vec::new())
            }
        }
    }

    /// What to report, or why it failed again.
    fn retry(&self, workspace: &Workspace, restore: &GitRestore<'_>) -> Result<Vec<String>, Vec<String>> {
        let PendingGitRestore { before, change: left, what, .. } = self;
        let Some(now) = git_change_since(workspace, before) else { return Ok(Vec::new()) };
        if now.is_unrestored() {
            return Err(now.not_restored);
        }
        let moved_on = |why: &str| Ok(vec![format!("git's own state is left alone after {what}: {why}")]);
        if (&now.head_after, &now.after) != (&left.head_after, &left.after) {
            return moved_on("HEAD or its branch was moved after that");
        }
        if left.moved() {
            let snapshot =
                GitSnapshot::read(workspace.root().path()).map_err(|error| vec![error.to_string()])?;
            if let Some(Err(error)) = snapshot.map(|snapshot| snapshot.git()) {
                return Err(vec![error.to_string()]);
            }
        }
        match restore.run_if_as_left(before, left) {
            Err(WhyLeft::MovedOn(why)) => moved_on(&why),
            Err(WhyLeft::Failed(why)) => Err(vec![why]),
            Ok(None) => Ok(Vec::new()),
            Ok(Some(change)) if !change.restored => Err(change.not_restored),
            Ok(Some(change)) => {
                let names = restore.run(before).map_or_else(Vec::new, |names| names.restored_lines());
                let mut lines = change.restored_lines();
                // The second look reports what is left, too.
                lines.extend(names.into_iter().filter(|line| !lines.contains(line)).collect::<Vec<_>>());
                Ok(lines)
            }
        }
    }
}
