//! Making a checkpoint of any type, and reading one back.

use super::HistoryContext;
use super::contents_report::ContentsReport;
use super::kind::{database, stash, state, tree};
use super::lookup::RunOrCheckpoint;
use super::payload::{CheckpointPayload, CheckpointTarget};
use super::record::CheckpointRecord;
use super::remove::remove;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::error::Result;

/// Makes a checkpoint, and reports what it holds of what it was made for. With `read_back`, it is then read from disk as a later
/// rollback reads it, and deleted if it does not verify. The caller holds the project's lock.
pub fn create(
    context: HistoryContext<'_>,
    target: &CheckpointTarget,
    label: &CheckpointLabel,
    read_back: bool,
) -> Result<(SavedCheckpoint, ContentsReport)> {
    let layout = context.layout;
    let (saved, report) = match target {
        CheckpointTarget::Tree(scope) => {
            let (saved, manifest) = tree::save(context, label, scope)?;
            (saved, tree::describe(layout, &manifest, scope))
        }
        CheckpointTarget::Stash(scope) => {
            let (saved, manifest) = stash::save(context, label, scope)?;
            (saved, stash::describe(layout, &manifest, scope)?)
        }
        CheckpointTarget::State(keys) => {
            let (saved, state) = state::save(context, label, keys)?;
            (saved, state.describe())
        }
        CheckpointTarget::Databases(targets) => {
            let saved = database::save(context, label, targets, false)?;
            let report = database::describe(&saved.record);
            (saved, report)
        }
    };
    if read_back {
        verify(context, &RunOrCheckpoint::Checkpoint(saved.dir.clone())).inspect_err(|_| {
            let _ = remove(layout, &saved.dir, Some("it did not verify".to_owned()));
        })?;
    }
    Ok((saved, report))
}

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
