//! What is left to do if the store lost content: restoring every path that can be restored, and naming the others.
//!
//! A restore is all or nothing wherever all is possible. This is for the rest: a store that was damaged while the tree was changed.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::compare::{Change, Changes};
use super::manifest::Manifest;
use super::patch::parse::Patch;
use super::patch::rebuild::Direction;
use super::path::TreePath;
use super::progress::Progress;
use super::restore::{RestoreAction, RestoreLog, RestoreOutcome, RestoreRequest};
use super::secret_stamp::SecretFiles;
use super::tree::Tree;
use super::workspace::Workspace;
use crate::error::{Error, FailureReason, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::humanize;
use crate::interrupt::Shield;

/// A path whose content cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPath {
    pub path: TreePath,
    pub why: String,
}

impl std::fmt::Display for LostPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// What to restore, and from where.
pub struct PartialRestoreRequest<'r> {
    pub manifest: &'r Manifest,
    /// What was saved of the present; what it lacks is not overwritten, but moves to the quarantine.
    pub saved: &'r Tree,
    /// Recorded diffs against that manifest, the latest first: they may have what the store lacks.
    pub diffs: &'r [PathBuf],
    /// Where the diff of what is reverted is written.
    pub diff: &'r Path,
    pub quarantine_dir: PathBuf,
    /// Whether likely secrets that are newer than the checkpoint stay where they are.
    pub leaves_secrets: bool,
    /// The run or checkpoint.
    pub subject: &'r str,
    pub log: &'r dyn RestoreLog,
}

/// What was restored, and what was not.
#[derive(Debug, Default)]
pub struct PartialRestoreReport {
    pub restored: Vec<TreePath>,
    /// Those of `restored` that were not there before, and are gone.
    pub removed: Vec<TreePath>,
    pub lost: Vec<LostPath>,
    /// What moved to the quarantine, and where it is now.
    pub set_aside: Vec<(TreePath, PathBuf)>,
    /// Likely secrets that are newer than the checkpoint, and stay where they are.
    pub secrets_left: Vec<TreePath>,
    /// As in [`RestoreReport`](super::restore::RestoreReport).
    pub shield: Option<Shield>,
}

impl Workspace {
    /// The changes whose old content cannot be read from the store. Reads all of it.
    pub fn unrestorable(&self, changes: &[Change]) -> Vec<LostPath> {
        let lost = |change: &Change| {
            let (before, after) = (change.before.as_ref()?.content()?, change.after.as_ref());
            if after.and_then(|after| after.content()) == Some(before) {
                return None;
            }
            let why = self.store.why_unreadable(&before.0)?;
            Some(LostPath { path: change.path.clone(), why })
        };
        changes.par_iter().filter_map(lost).collect()
    }

    /// The error that names the paths whose old content cannot be read, if there are any.
    pub fn unrestorable_error(&self, changes: &[Change]) -> Option<Error> {
        let lost = self.unrestorable(changes);
        if lost.is_empty() {
            return None;
        }
        let files = humanize::count(lost.len(), "file");
        let lines = lost.iter().map(LostPath::to_string).collect();
        Some(
            Error::integrity(format!("the store is damaged: the old content of {files} cannot be read"))
                .because(FailureReason::ContentLost)
                .details(lines, 20)
                .hint("`decree recover` restores what can be restored, and names the rest"),
        )
    }

    /// What [`Workspace::restore_partially`] would do.
    pub fn plan_partial_restore(
        &self,
        manifest: &Manifest,
        diffs: &[PathBuf],
        leaves_secrets: bool,
        progress: &dyn Progress,
    ) -> Result<PartialRestoreReport> {
        let mut changes = self.compare(manifest, progress)?;
        let secrets_left = if leaves_secrets { changes.leave_secrets(manifest) } else { Vec::new() };
        let mut lost = self.unrestorable(&changes.list);
        for patch in diffs.iter().filter_map(|diff| Patch::read(diff).ok()) {
            let has = |lost: &LostPath| {
                patch
                    .records
                    .iter()
                    .any(|it| it.change.path == lost.path && changes.list.contains(&it.change))
            };
            lost.retain(|lost| !has(lost));
        }
        let stays = |change: &&Change| !lost.iter().any(|lost| lost.path == change.path);
        let restored = changes.list.iter().filter(stays).map(|change| change.path.clone()).collect();
        let removed = paths_made(changes.list.iter());
        let set_aside = changes.out_of_scope.iter().map(|path| (path.clone(), PathBuf::new())).collect();
        Ok(PartialRestoreReport { restored, removed, lost, set_aside, secrets_left, shield: None })
    }

    /// Restores every path that can be restored, and touches no other.
    pub fn restore_partially(
        &self,
        request: &PartialRestoreRequest<'_>,
        progress: &dyn Progress,
    ) -> Result<PartialRestoreReport> {
        let mut changes = self.compare(request.manifest, progress)?;
        let secrets_left =
            if request.leaves_secrets { changes.leave_secrets(request.manifest) } else { Vec::new() };
        let lost = self.unrestorable(&changes.list);
        let mut report = PartialRestoreReport { lost, secrets_left, ..Default::default() };
        let is_lost = |path: &TreePath| report.lost.iter().any(|lost| lost.path == *path);
        changes.list.retain(|change| !is_lost(&change.path));
        changes.out_of_scope.retain(|path| !is_lost(path));
        changes.quarantine_unsaved(&request.manifest.tree, request.saved);
        self.restore_changes(request, &changes, &mut report)?;
        drop(changes);
        for diff in request.diffs {
            // A diff that is missing or damaged itself has nothing to give.
            if !report.lost.is_empty()
                && let Ok(patch) = Patch::read(diff)
            {
                self.restore_from_diff(request, patch, &mut report, progress)?;
            }
        }
        Ok(report)
    }

    fn restore_changes(
        &self,
        request: &PartialRestoreRequest<'_>,
        changes: &Changes<'_>,
        report: &mut PartialRestoreReport,
    ) -> Result<()> {
        if changes.list.is_empty() && changes.out_of_scope.is_empty() {
            return Ok(());
        }
        let dir = request.diff.parent().expect("a diff is in a directory");
        std::fs::create_dir_all(dir).at("create", dir)?;
        let mut file = AtomicFile::create(request.diff)?;
        self.write_diff(changes, &mut file)?;
        file.commit()?;
        let patch = Patch::read(request.diff)?;
        self.revert_patch(request, &patch, &changes.out_of_scope, report)
    }

    /// Restores lost paths that are still what a recorded diff left: it has the other side.
    fn restore_from_diff(
        &self,
        request: &PartialRestoreRequest<'_>,
        mut patch: Patch,
        report: &mut PartialRestoreReport,
        progress: &dyn Progress,
    ) -> Result<()> {
        let present = self.compare(request.manifest, progress)?.list;
        patch.records.retain(|record| {
            let change = &record.change;
            report.lost.iter().any(|lost| lost.path == change.path) && present.contains(change)
        });
        if patch.records.is_empty() {
            return Ok(());
        }
        self.revert_patch(request, &patch, &[], report)?;
        report.lost.retain(|lost| !patch.records.iter().any(|record| record.change.path == lost.path));
        Ok(())
    }

    fn revert_patch(
        &self,
        request: &PartialRestoreRequest<'_>,
        patch: &Patch,
        out_of_scope: &[TreePath],
        report: &mut PartialRestoreReport,
    ) -> Result<()> {
        let outcome = self.restore(&RestoreRequest {
            patch,
            direction: Direction::Backward,
            action: RestoreAction::PutBack,
            subject: request.subject,
            out_of_scope,
            secret_files: &SecretFiles::new(),
            quarantine_dir: request.quarantine_dir.clone(),
            log: request.log,
        })?;
        report.restored.extend(patch.records.iter().map(|record| record.change.path.clone()));
        report.removed.extend(paths_made(patch.records.iter().map(|record| &record.change)));
        if let RestoreOutcome::Done(done) = outcome {
            report.set_aside.extend(done.set_aside);
            report.shield = done.shield;
        }
        Ok(())
    }
}

/// The paths that were not there before the changes.
fn paths_made<'c>(changes: impl Iterator<Item = &'c Change>) -> Vec<TreePath> {
    changes.filter(|change| change.before.is_none()).map(|change| change.path.clone()).collect()
}
