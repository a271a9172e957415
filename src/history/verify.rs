//! Verifying a checkpoint: everything it names is read back.

use super::HistoryContext;
use super::kind::{database, stash, state, tree};
use super::lookup::RunOrCheckpoint;
use super::payload::CheckpointPayload;
use super::record::CheckpointRecord;
use crate::error::Result;

/// Reads back everything that a checkpoint, or that of a run, names. Returns the number of entries.
pub fn verify(context: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    let dir = found.dir();
    let record = match found {
        RunOrCheckpoint::Run(_) => return dir.verify(context.workspace, &dir.manifest()?),
        RunOrCheckpoint::Checkpoint(dir) => CheckpointRecord::read(dir.dir())?,
    };
    match &record.payload {
        CheckpointPayload::Tree(_) => tree::verify(context, dir, &record),
        CheckpointPayload::Stash(_, stash) => stash::verify(context, dir, &record, stash),
        CheckpointPayload::State { sha256, .. } => {
            let state = state::StateSnapshot::load(dir, &record, sha256)?;
            Ok(state.files.len() + state.environment.len())
        }
        CheckpointPayload::Databases(list) => database::verify(dir, list),
    }
}
