//! Whether a checkpoint is whole.

use super::Site;
use super::kind::{Kind, database, stash, state, tree};
use super::lookup::Found;
use super::record::CheckpointRecord;
use crate::error::Result;

/// Reads back everything that a checkpoint, or a run's, names, and checks it. Returns how many entries that were.
pub fn verify(site: Site<'_>, found: &Found) -> Result<usize> {
    let saved = found.saved();
    let record = match found {
        Found::Run(_) => return saved.verify(site.workspace, &saved.manifest()?),
        Found::Checkpoint(saved) => CheckpointRecord::read(saved.dir())?,
    };
    match record.kind {
        Kind::FileBackup => tree::verify(site, saved, &record),
        Kind::GitStash => stash::verify(site, saved, &record),
        Kind::StateSnapshot => state::verify(saved, &record),
        Kind::DatabaseSavepoint => database::verify(saved, &record),
    }
}
