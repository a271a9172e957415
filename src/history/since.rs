//! What changed since a checkpoint: written as a diff, or reverted.

use std::io::Write;

use super::HistoryContext;
use super::audit::AuditLog;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::live_database::{self, DatabaseInUse};
use crate::checkpoint::patch::write::ChangeCount;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome};
use crate::error::Result;

/// The paths in a diff with the lines added and removed, and the databases that changed and are not in it.
pub type WrittenDiff = (Vec<(String, ChangeCount)>, Vec<DatabaseInUse>);

/// Writes the diff.
pub fn write_diff_since(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    out: &mut impl Write,
) -> Result<WrittenDiff> {
    let manifest = checkpoint.manifest()?;
    let changes = context.workspace.compare(&manifest, context.progress)?;
    let counts = context.workspace.write_diff(&changes, out)?;
    let counts = changes.list.iter().map(|change| change.path.to_string()).zip(counts).collect();
    Ok((counts, changes.live_databases))
}

/// Records what changed and reverts it, so that `apply` can apply it again. The caller holds the project's lock.
pub fn revert_since(context: HistoryContext<'_>, checkpoint: &CheckpointDir) -> Result<RestoreOutcome> {
    let manifest = checkpoint.manifest()?;
    let live = context.workspace.compare(&manifest, context.progress)?.live_databases;
    if !live.is_empty() {
        return Err(live_database::refusal(&format!("revert to {}", checkpoint.id()), &live));
    }
    if checkpoint.record_changes(context.workspace, &manifest, false, context.progress)?.is_none() {
        return Ok(RestoreOutcome::AlreadyThere);
    }
    let log = AuditLog::new(context.layout.audit());
    checkpoint.revert(context.workspace, &manifest, RestoreAction::Revert, &log)
}
