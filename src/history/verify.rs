//! Whether a checkpoint is whole.

use super::HistoryContext;
use super::kind::{CheckpointKind, database, stash, state, tree};
use super::lookup::RunOrCheckpoint;
use super::record::CheckpointRecord;
use crate::error::Result;

/// Reads back everything that a checkpoint, or a run's, names, and checks it. Returns how many entries that were.
pub fn verify(site: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    let saved = found.saved();
    let record = match found {
        RunOrCheckpoint::Run(_) => return saved.verify(site.workspace, &saved.manifest()?),
        RunOrCheckpoint::Checkpoint(saved) => CheckpointRecord::read(saved.dir())?,
    };
    match record.kind {
        CheckpointKind::FileBackup => tree::verify(site, saved, &record),
        CheckpointKind::GitStash => stash::verify(site, saved, &record),
        CheckpointKind::StateSnapshot => state::verify(saved, &record),
        CheckpointKind::DatabaseSavepoint => database::verify(saved, &record),
    }
}
