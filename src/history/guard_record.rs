//! `guarding.json` and `guard-failed.json`: a guarded command that is running, was running when decree was killed, or whose rollback failed.
//!
//! The file stays until the user has decided: a rollback or a recovery to its checkpoint, or `recover --keep`. Until then every command
//! that changes the project warns of it, and none starts work.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::HistoryContext;
use super::git_change::GitChange;
use super::git_pending::PendingGitRestore;
use super::git_restore::GitRestore;
use super::lookup::checkpoint_ids;
use super::payload::CheckpointPayload;
use super::record::CheckpointRecord;
use super::uncaptured::{NotRestored, UncapturedState, collect_leftovers};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::path::TreePath;
use crate::error::{Error, FailureReason, IoContext, Result};
use crate::fs::{json, untrusted};
use crate::process::redact::Redactor;
use crate::process::{ProcessMark, marked};
use crate::project::Layout;
use crate::sanitize::one_line;

/// What a failed command did to git's own state, in the directory of its checkpoint.
const GIT_CHANGE: &str = "git-change.json";

/// The contents of `guarding.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuardRecord {
    pub checkpoint: String,
    pub command: String,
    /// The mark in the environment of the command's processes; absent once they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    /// Why the rollback failed; absent if decree was killed, or if the disk had no room for this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Whether the rollback failed, by the name of the file.
    #[serde(skip)]
    has_failed: bool,
    /// Whether it failed because the store lost content, so that only `recover` helps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    content_lost: bool,
}

/// A guarded command that is running. Without a call to [`ActiveGuard::clear`] the next decree reports it as killed.
#[must_use]
pub struct ActiveGuard(PathBuf);

/// What was done beside the tree when a guarded command that was cut off is rolled back.
#[derive(Debug, Default)]
pub struct SettledGuard {
    pub warnings: Vec<String>,
    /// What no checkpoint holds, and is not as it was.
    pub not_restored: Vec<NotRestored>,
    pub git: Option<GitChange>,
}

impl GuardRecord {
    pub fn new(checkpoint: &str, command: &str, mark: &ProcessMark) -> GuardRecord {
        let (checkpoint, command) = (checkpoint.to_owned(), command.to_owned());
        GuardRecord { checkpoint, command, mark: Some(mark.as_str().to_owned()), ..GuardRecord::default() }
    }

    /// Writes the file before the command starts.
    pub fn begin(&self, layout: &Layout) -> Result<ActiveGuard> {
        let path = layout.guarding();
        json::write_pretty(&path, self)?;
        Ok(ActiveGuard(path))
    }

    /// The command that is running, or was when decree was killed; else the one whose rollback failed.
    pub fn find(layout: &Layout) -> Result<Option<GuardRecord>> {
        for (path, has_failed) in [(layout.guarding(), false), (layout.guard_failed(), true)] {
            let text = untrusted::read(&path).if_exists().at("read", &path)?;
            let found = text.and_then(|text| serde_json::from_slice::<GuardRecord>(&text).ok());
            if let Some(record) = found {
                return Ok(Some(GuardRecord { has_failed, ..record }));
            }
        }
        Ok(None)
    }

    /// The user has decided. The caller holds the project's lock.
    pub fn forget(layout: &Layout) {
        ActiveGuard(layout.guarding()).clear();
        ActiveGuard(layout.guard_failed()).clear();
    }

    /// Whether there is a checkpoint to go back to.
    pub fn has_checkpoint(&self, layout: &Layout) -> bool {
        layout.checkpoints().join(&self.checkpoint).join(CheckpointDir::MANIFEST).exists()
    }

    /// Ends the processes of the command that outlived decree, and returns how many there were. The caller holds the project's lock.
    pub fn end_processes(&self) -> usize {
        self.mark.as_deref().and_then(ProcessMark::parse).map_or(0, |mark| marked::end(&mark))
    }

    /// The warning about it, with the way back.
    pub fn warning(&self) -> String {
        let (command, checkpoint) = (one_line(&self.command), &self.checkpoint);
        let what = match &self.failure {
            Some(why) => format!("the rollback after `{command}` failed: {}", one_line(why)),
            None if self.has_failed => {
                format!("the rollback after `{command}` failed, and there was no room to record why")
            }
            None => format!("decree was killed or stopped while it guarded `{command}`"),
        };
        let back = if self.content_lost {
            format!("`decree recover {checkpoint}` restores what can be restored, and names the rest")
        } else {
            format!("`decree rollback {checkpoint}` restores the state before the command")
        };
        format!("{what}; {back}, `decree recover --keep` keeps the tree as it is")
    }

    /// The error of a command that would start work on the tree that the guarded command left.
    pub fn refusal(&self, command: &str) -> Error {
        let checkpoint = &self.checkpoint;
        Error::failed(format!(
            "`{command}` does not start on a tree that a guarded command may have left half done"
        ))
        .detail(self.warning())
        .detail("nothing was done")
        .hint(format!("`decree rollback {checkpoint}`, or `decree recover --keep`"))
    }

    /// After the tree was taken back to the checkpoint: restores git's own state, names what no checkpoint holds and is gone, and forgets
    /// the command.
    pub fn settle(&self, context: HistoryContext<'_>, checkpoint: &CheckpointDir) -> Result<SettledGuard> {
        let manifest = checkpoint.manifest()?;
        let record = CheckpointRecord::read(checkpoint.dir()).ok();
        let scope = record.and_then(|record| match record.payload {
            CheckpointPayload::Tree(scope) => Some(scope),
            _ => None,
        });
        let scope = scope.unwrap_or_default();
        let (root, set_aside) = (context.workspace.root(), checkpoint.quarantine_dir());
        let mut settled = SettledGuard::default();
        for (path, to) in collect_leftovers(context.workspace, &manifest, &set_aside) {
            let to = context.layout.shown(&to);
            let left = "is what a killed decree left of restoring a likely secret";
            settled.warnings.push(format!("{path} {left}; it is now {to}"));
        }
        let covers = |path: &TreePath| scope.covers(path);
        let mut held = UncapturedState::after_kill(&manifest.coverage);
        let report = held.restore(root, &set_aside, &covers, &|_| None);
        settled.warnings.extend(report.reverted_warnings());
        settled.not_restored = report.not_restored;
        if let Some(before) = &manifest.git {
            settled.git = restore_git(context, checkpoint, &self.command, before, &mut settled.warnings);
        }
        settled.warnings.extend(settled.git.iter().flat_map(GitChange::restored_lines));
        GuardRecord::forget(context.layout);
        Ok(settled)
    }
}

impl SettledGuard {
    /// The error if something is not as it was.
    pub fn error(&self) -> Option<Error> {
        let mut lines: Vec<String> =
            self.not_restored.iter().map(|lost| format!("{}: {}", lost.path, lost.why)).collect();
        if self.git.as_ref().is_some_and(GitChange::is_unrestored) {
            lines.push("git's own state; the warnings above say why".to_owned());
        }
        (!lines.is_empty()).then(|| {
            Error::integrity("the files are as in the checkpoint; something that no checkpoint holds is not")
                .details(lines, 20)
                .hint("restore it from a backup or from where it came from")
        })
    }
}

impl ActiveGuard {
    /// The rollback failed. A rename needs no space; the reason may, and is left out then.
    pub fn mark_failed(self, layout: &Layout, checkpoint: &CheckpointDir, command: &str, error: &Error) {
        let path = layout.guard_failed();
        let _ = fs::rename(&self.0, &path);
        let failure = Some(Redactor::of_this_process().redact(&error.to_string()).into_owned());
        let (checkpoint, command) = (checkpoint.id().to_owned(), command.to_owned());
        let content_lost = error.is(FailureReason::ContentLost);
        let record = GuardRecord { checkpoint, command, mark: None, failure, has_failed: true, content_lost };
        let _ = json::write_pretty(&path, &record);
    }

    /// The command's work is kept or rolled back.
    pub fn clear(self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Restores git's own state after a command that failed, and records it.
pub(super) fn restore_git(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    shown: &str,
    before: &GitRecord,
    warnings: &mut Vec<String>,
) -> Option<GitChange> {
    let restore = GitRestore {
        workspace: context.workspace,
        keep_as: checkpoint.id().to_owned(),
        reason: format!("decree: the guarded command failed; back to {}", checkpoint.id()),
        dir: checkpoint.dir(),
    };
    let change = restore.run(before)?;
    let what = format!("`{shown}`");
    let noted = PendingGitRestore::note(context.layout, &restore, &what, before, &change)
        .and_then(|()| note_git_change(checkpoint, &change));
    if let Err(error) = noted {
        warnings.push(format!("what became of git's own state is not recorded: {error}"));
    }
    Some(change)
}

/// Records what a failed command did to git's own state, so that `publish` knows its commits.
fn note_git_change(checkpoint: &CheckpointDir, change: &GitChange) -> Result<()> {
    if !change.moved() {
        return Ok(());
    }
    json::write_pretty(&checkpoint.dir().join(GIT_CHANGE), change)
}

/// What failed commands did to git's own state, each with the id of its checkpoint.
pub fn failed_guards(layout: &Layout) -> Result<Vec<(String, GitChange)>> {
    let checkpoints = layout.checkpoints();
    let changes = checkpoint_ids(&checkpoints)?.into_iter().filter_map(|id| {
        let text = untrusted::read(&checkpoints.join(&id).join(GIT_CHANGE)).ok()?;
        Some((id, serde_json::from_slice(&text).ok()?))
    });
    Ok(changes.collect())
}
