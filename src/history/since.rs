//! What changed since a checkpoint: written as a diff, or reverted.

use std::io::Write;

use super::HistoryContext;
use super::audit::{AuditAction, AuditEntry, AuditLog, RollbackLog};
use super::kind::tree;
use super::lookup::list;
use super::record::CheckpointRecord;
use super::store_location::name_store;
use super::writer::CheckpointLabel;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::Changes;
use crate::checkpoint::deleted_database;
use crate::checkpoint::live_database::DatabaseInUse;
use crate::checkpoint::patch::write::ChangeCount;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreReport, is_recovery_needed};
use crate::error::Result;
use crate::interrupt;
use crate::project::Layout;

/// What is in a diff, and what changed and is not in it.
#[derive(Default)]
pub struct WrittenDiff {
    /// The paths with the lines added and removed.
    pub counts: Vec<(String, ChangeCount)>,
    /// Databases that other programs have open.
    pub live_databases: Vec<DatabaseInUse>,
    /// Paths that became likely secrets: the diff has only what they were.
    pub withheld: Vec<String>,
}

/// Writes the diff.
pub fn write_diff_since(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    out: &mut impl Write,
) -> Result<WrittenDiff> {
    let manifest = checkpoint.manifest(context.workspace.store())?;
    let changes = context.workspace.compare(&manifest, context.progress)?;
    let counts = context
        .workspace
        .write_diff(&changes, out)
        .map_err(|error| name_store(context.layout, checkpoint, error))?;
    let counts = changes.list.iter().map(|change| change.path.to_string()).zip(counts).collect();
    let withheld = changes.withheld().map(ToString::to_string).collect();
    Ok(WrittenDiff { counts, live_databases: changes.live_databases, withheld })
}

/// What a revert to a checkpoint did.
#[derive(Debug)]
pub struct RevertSince {
    pub outcome: RestoreReport,
    /// The checkpoint of what was there before, which also has the diff that was reverted.
    pub present: CheckpointDir,
    /// Likely secrets that are newer than the checkpoint, and stay where they are.
    pub secrets_left: Vec<String>,
}

/// Saves the present as a checkpoint of its own, records in it what changed since `checkpoint`, and reverts that. `None` if nothing
/// changed. The caller holds the project's lock.
pub fn revert_since(context: HistoryContext<'_>, checkpoint: &CheckpointDir) -> Result<Option<RevertSince>> {
    revert(context, checkpoint).map_err(interrupt::name_unchanged)
}

fn revert(context: HistoryContext<'_>, checkpoint: &CheckpointDir) -> Result<Option<RevertSince>> {
    // A checkpoint whose record is damaged may still have its manifest.
    if let Ok(record) = CheckpointRecord::read(checkpoint.dir()) {
        record.refuse_expired()?;
    }
    let manifest = checkpoint.manifest(context.workspace.store())?;
    let mut changes = context.workspace.compare(&manifest, context.progress)?;
    let left = changes.leave_secrets(&manifest);
    let secrets_left: Vec<String> = left.iter().map(ToString::to_string).collect();
    let id = checkpoint.id();
    let deleted = context.workspace.deleted_databases(&changes.list);
    let refusal = deleted_database::refuse(&format!("revert to {id}"), &changes.live_databases, &deleted);
    if let Some(error) = refusal {
        return Err(error);
    }
    if changes.list.is_empty() && changes.out_of_scope.is_empty() {
        return Ok(None);
    }
    let count = changes.list.len() as u64;
    // Directories that cannot be listed have their own modes again, which are part of what is saved.
    let changes = Some(changes).filter(|changes| !changes.holds_unlocked());
    let label = CheckpointLabel::with_reason(format!("before the revert to {id}"));
    let (present, saved) = tree::save_present(context, &label, &manifest.tree)?;
    let present = present.dir;
    // In the directory of the present, where no expiry ends it. Its id is that of the checkpoint, to which it belongs.
    let record = CheckpointDir::new(id, present.dir());
    let entry = AuditEntry {
        saved: Some(present.id().to_owned()),
        ..AuditEntry::new(AuditAction::Revert, id, count)
    };
    let log = RollbackLog { audit: AuditLog::with_entry(context.layout.audit(), entry), runs: context.runs };
    let adjust = |changes: &mut Changes<'_>| {
        changes.leave_secrets(&manifest);
        changes.quarantine_unsaved(&manifest.tree, &saved.tree);
    };
    let reverted = record
        .record_found(changes, context.workspace, &manifest, &adjust, context.progress)
        .and_then(|_| record.revert(context.workspace, &manifest, RestoreAction::Revert, &log));
    match reverted {
        Ok(RestoreOutcome::Done(outcome)) => Ok(Some(RevertSince { outcome, present, secrets_left })),
        Ok(RestoreOutcome::AlreadyThere) => {
            Ok(Some(RevertSince { outcome: RestoreReport::default(), present, secrets_left }))
        }
        Err(error) => {
            // Nothing was touched, unless something was set aside or the restore is not over.
            if !present.quarantine_dir().exists() && !is_recovery_needed(&context.layout.scratch()) {
                let _ = std::fs::remove_dir_all(present.dir());
            }
            Err(name_store(context.layout, checkpoint, error))
        }
    }
}

/// The directory with the change that `apply` applies: that of the checkpoint itself, else of the last revert to it.
pub fn find_recorded_change(layout: &Layout, checkpoint: &CheckpointDir) -> Result<CheckpointDir> {
    let belongs_to = |dir: &CheckpointDir| dir.result().ok().flatten().map(|record| record.id);
    let id = checkpoint.id();
    // An earlier version of decree recorded a revert to a checkpoint in the checkpoint itself.
    if checkpoint.has_change_record() && belongs_to(checkpoint).is_none_or(|owner| owner != id) {
        return Ok(checkpoint.clone());
    }
    let checkpoints = layout.checkpoints();
    let dirs = list(&checkpoints)?.0.into_iter().rev().map(|record| checkpoints.join(&record.id));
    let mut reverts = dirs.map(|dir| CheckpointDir::new(id, dir)).filter(CheckpointDir::has_change_record);
    let found = reverts.find(|dir| belongs_to(dir).is_some_and(|owner| owner == id));
    Ok(found.unwrap_or_else(|| checkpoint.clone()))
}
