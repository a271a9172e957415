//! `guarding.json` and `guard-failed.json`: a guarded command that is running, was running when decree was killed, or whose rollback failed.
//!
//! The file stays until the user has decided: a rollback or a recovery to its checkpoint, or `recover --keep`. Until then every command
//! that changes the project warns of it, and none starts work.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::HistoryContext;
use super::failed_changes;
use super::git_change::GitChange;
use super::git_pending::PendingGitRestore;
use super::git_restore::GitRestore;
use super::payload::CheckpointPayload;
use super::record::CheckpointRecord;
use super::scope::Scope;
use super::uncaptured::{
    NotRestored, UncapturedState, collect_leftovers, forget_record, has_missing_entries, move_left_entries,
};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::deleted_database;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::error::{Error, FailureReason, IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::fs::{json, untrusted};
use crate::interrupt;
use crate::message::{GoneMessage, SecondNames};
use crate::process::redact::Redactor;
use crate::process::{ProcessMark, marked};
use crate::project::Layout;
use crate::sanitize::one_line;

/// The contents of `guarding.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuardRecord {
    checkpoint: String,
    command: String,
    /// The mark in the environment of the command's processes; absent once they have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    /// Why the rollback failed; absent if decree was killed, or if the disk had no room for this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Whether the rollback failed, by the name of the file.
    #[serde(skip)]
    has_failed: bool,
    /// The file, if it cannot be read: then nothing is known but that there was a command.
    #[serde(skip)]
    damaged: Option<String>,
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
    /// What became of git's own state, for each repository in which it differed.
    pub git: Vec<GitChange>,
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

    /// The command that is running, or was when decree was killed; else the one whose rollback failed. A record that cannot be read is
    /// one, too: the tree may be half done all the same.
    pub fn find(layout: &Layout) -> Option<GuardRecord> {
        for (path, has_failed) in [(layout.guarding(), false), (layout.guard_failed(), true)] {
            let text = match untrusted::read(&path).if_exists() {
                Ok(None) => continue,
                Ok(Some(text)) => text,
                Err(_) => Vec::new(),
            };
            let damaged = || GuardRecord { damaged: Some(layout.shown(&path)), ..GuardRecord::default() };
            let record = serde_json::from_slice(&text).unwrap_or_else(|_| damaged());
            return Some(GuardRecord { has_failed, ..record });
        }
        None
    }

    /// The id of its checkpoint; `None` if the record is damaged.
    pub fn checkpoint(&self) -> Option<&str> {
        self.damaged.is_none().then_some(&*self.checkpoint)
    }

    /// The user has decided. The caller holds the project's lock.
    pub fn forget(layout: &Layout) {
        // First, as it names the command that is in progress.
        forget_record(layout);
        ActiveGuard(layout.guarding()).clear();
        ActiveGuard(layout.guard_failed()).clear();
    }

    /// Whether its checkpoint is gone, so that there is no way back.
    pub fn has_lost_checkpoint(&self, layout: &Layout) -> bool {
        let is_there = |id: &str| layout.checkpoints().join(id).join(CheckpointDir::MANIFEST).exists();
        self.checkpoint().is_some_and(|id| !is_there(id))
    }

    /// Ends the processes of the command that outlived decree, and returns how many there were. The caller holds the project's lock.
    pub fn end_processes(&self) -> usize {
        self.mark.as_deref().and_then(ProcessMark::parse).map_or(0, |mark| marked::end(&mark))
    }

    /// The warning about it, with the way back.
    pub fn warning(&self) -> String {
        if let Some(path) = &self.damaged {
            let what = "a command under `decree guard` may have been cut off, and may still run";
            let back =
                "`decree checkpoint list` shows its checkpoint, `decree rollback ID` restores the files";
            let then = "`decree recover --keep` removes the record and keeps the tree as it is then";
            return format!("{path} is damaged: {what}; {back}, {then}");
        }
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
        let back = self.checkpoint().map_or_else(
            || "`decree rollback ID`, then `decree recover --keep`".to_owned(),
            |id| format!("`decree rollback {id}`, or `decree recover --keep`"),
        );
        Error::failed(format!(
            "`{command}` does not start on a tree that a guarded command may have left half done"
        ))
        .detail(self.warning())
        .detail("nothing was done")
        .hint(back)
    }

    /// Before the tree is taken back to the checkpoint: moves back what had been renamed, because its files would be new ones. Returns what to
    /// report. `refused` names a restore that databases in use forbid: then this is an error, and nothing is moved.
    pub fn prepare(
        &self,
        context: HistoryContext<'_>,
        checkpoint: &CheckpointDir,
        refused: Option<&str>,
    ) -> Result<Vec<String>> {
        let (scope, set_aside) = (scope_of(checkpoint), checkpoint.quarantine_dir());
        if let Some(what) = refused
            && has_missing_entries(context.layout, checkpoint.id())
        {
            refuse_databases(context, &checkpoint.manifest(context.workspace.store())?, &scope, what)?;
        }
        Ok(move_left_entries(context.layout, checkpoint.id(), &set_aside, &|path| scope.covers(path)))
    }

    /// After the tree was taken back to the checkpoint: restores git's own state, names what no checkpoint holds and is gone, and forgets
    /// the command.
    pub fn settle(&self, context: HistoryContext<'_>, checkpoint: &CheckpointDir) -> Result<SettledGuard> {
        // The record of the command is removed at the end, so a signal must not stop the rest.
        let _shield = interrupt::shield();
        let manifest = checkpoint.manifest(context.workspace.store())?;
        let scope = scope_of(checkpoint);
        let (root, set_aside) = (context.workspace.root(), checkpoint.quarantine_dir());
        let mut settled = SettledGuard::default();
        for (path, to) in collect_leftovers(context.workspace, &manifest, &set_aside) {
            let to = context.layout.shown(&to);
            let left = "is what a killed decree left of restoring a likely secret";
            settled.warnings.push(format!("{path} {left}; it is now {to}"));
        }
        settled.restore_letters(context.layout, &set_aside)?;
        let covers = |path: &TreePath| scope.covers(path);
        let mut held = UncapturedState::after_kill(context.layout, root, &manifest.coverage, checkpoint.id());
        let report = held.restore(root, &set_aside, &covers, &|_| None);
        settled.warnings.extend(report.reverted_warnings());
        settled.not_restored = report.not_restored;
        held.release();
        let before: Vec<GitRecord> = manifest.git_records().cloned().collect();
        settled.git = restore_git(context, checkpoint, &self.command, &before, &mut settled.warnings);
        settled.warnings.extend(settled.git.iter().flat_map(GitChange::restored_lines));
        let messages: Vec<String> = SecondNames::of(context.layout).restore_gone()?;
        if !messages.is_empty() {
            let what =
                "messages that waited before the guarded command, and were gone, are in the inbox again";
            settled.warnings.push(format!("{what}: {}", messages.join(", ")));
        }
        GuardRecord::forget(context.layout);
        Ok(settled)
    }
}

/// Returns an error if a database that the restore would replace is in use.
fn refuse_databases(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    scope: &Scope,
    what: &str,
) -> Result<()> {
    let mut changes = context.workspace.compare(manifest, context.progress)?;
    changes.list.retain(|change| scope.covers(&change.path));
    changes.live_databases.retain(|database| scope.covers(&database.path));
    let deleted = context.workspace.deleted_databases(&changes.list);
    deleted_database::refuse(what, &changes.live_databases, &deleted).map_or(Ok(()), Err)
}

/// What the checkpoint of a guarded command was made of.
fn scope_of(checkpoint: &CheckpointDir) -> Scope {
    match CheckpointRecord::read(checkpoint.dir()).map(|record| record.payload) {
        Ok(CheckpointPayload::Tree(scope)) => scope,
        _ => Scope::default(),
    }
}

impl SettledGuard {
    fn restore_letters(&mut self, layout: &Layout, set_aside: &Path) -> Result<()> {
        let letters = SecondNames::restore_letters(layout, None, set_aside)?;
        let restored = letters.into_iter().filter(|(_, became)| *became == GoneMessage::Restored);
        let names: Vec<String> = restored.map(|(name, _)| name).collect();
        if !names.is_empty() {
            let what = "letters that were gone from the queue are there again";
            self.warnings.push(format!("{what}: {}", names.join(", ")));
        }
        Ok(())
    }

    /// The error if something is not as it was.
    pub fn error(&self) -> Option<Error> {
        let mut lines: Vec<String> = self.not_restored.iter().map(NotRestored::line).collect();
        if self.git.iter().any(GitChange::is_unrestored) {
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
        let record = GuardRecord { checkpoint, command, failure, content_lost, ..GuardRecord::default() };
        let _ = json::write_pretty(&path, &record);
    }

    /// The command's work is kept or rolled back.
    pub fn clear(self) {
        if fs::remove_file(&self.0).is_err() {
            // Something else took its place, as a directory.
            let other = self.0.with_extension("damaged");
            let _ = move_to_free_name(&self.0, |number| numbered(&other, ".", number));
        }
    }
}

/// Restores git's own state after a command that failed, and records it.
pub(super) fn restore_git(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    shown: &str,
    before: &[GitRecord],
    warnings: &mut Vec<String>,
) -> Vec<GitChange> {
    let restore = GitRestore {
        workspace: context.workspace,
        keep_as: checkpoint.id().to_owned(),
        reason: format!("decree: the guarded command failed; back to {}", checkpoint.id()),
        dir: checkpoint.dir(),
    };
    let changes = restore.run(before.iter());
    let noted = PendingGitRestore::note(context.layout, &restore, &format!("`{shown}`"), &changes);
    let changes: Vec<GitChange> = changes.into_iter().map(|(_, change)| change).collect();
    let noted = noted.and_then(|()| failed_changes::write(checkpoint.dir(), &changes));
    if let Err(error) = noted {
        warnings.push(format!("what became of git's own state is not recorded: {error}"));
    }
    changes
}
