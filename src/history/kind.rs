//! What each type of checkpoint does to be created, verified, restored and deleted. This file is the only one that chooses by type:
//!
//! - [`tree`]: the tree, in decree's own store; [`tree_report`] describes it
//! - [`stash`]: the same, and an entry that plain git can restore
//! - [`state`]: decree's own queue and settings, and named values of the environment
//! - [`database`]: databases, each by its own means

pub mod database;
pub mod stash;
pub mod state;
pub mod tree;
pub mod tree_report;

use super::HistoryContext;
use super::contents_report::ContentsReport;
use super::lookup::RunOrCheckpoint;
use super::payload::{CheckpointKind, CheckpointPayload, StateKeys, parse_targets};
use super::record::CheckpointRecord;
use super::rollback_report::{RollbackOptions, RollbackReport};
use super::scope::{Scope, ScopeWords};
use super::store_location::name_store;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::verify::Verification;
use crate::error::Result;
use crate::project::Layout;

/// A checkpoint that was just made.
pub struct CreatedCheckpoint {
    pub saved: SavedCheckpoint,
    /// What it holds of what it was made for.
    pub report: ContentsReport,
    /// `None` if it holds no tree.
    pub manifest: Option<Manifest>,
}

/// Makes a checkpoint. The caller holds the project's lock.
pub(super) fn create(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
) -> Result<CreatedCheckpoint> {
    let scope = || Scope::parse(words, context.workspace.root(), &|_| false);
    Ok(match kind {
        CheckpointKind::FileBackup => {
            let scope = scope()?;
            let (saved, manifest) = tree::save(context, label, &scope)?;
            let report = tree_report::describe(context.workspace.root(), &manifest, &scope);
            CreatedCheckpoint { saved, report, manifest: Some(manifest) }
        }
        CheckpointKind::GitStash => {
            let scope = scope()?;
            let (saved, manifest) = stash::save(context, label, &scope)?;
            let entry = saved.record.payload.stash().expect("a stash was saved");
            let report = stash::describe(context, &manifest, &scope, entry)?;
            CreatedCheckpoint { saved, report, manifest: Some(manifest) }
        }
        CheckpointKind::StateSnapshot => {
            let keys = StateKeys::parse(&words.list)?;
            if !words.allow_missing {
                keys.refuse_unset()?;
            }
            let (saved, state) = state::save(context, label, &keys)?;
            CreatedCheckpoint { saved, report: state.describe(), manifest: None }
        }
        CheckpointKind::DatabaseSavepoint => {
            let targets = parse_targets(words, context.layout, context.config)?;
            let saved = database::save(context, label, &targets, false)?;
            let report = database::describe(&saved.record);
            CreatedCheckpoint { saved, report, manifest: None }
        }
    })
}

/// Reads back everything that a checkpoint, or that of a run, names. Returns the number of entries.
pub fn verify(context: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    verify_contents(context, found).map_err(|error| name_store(context.layout, found.dir(), error))
}

/// The same for a checkpoint that was just made, without reading what was read back earlier.
pub(super) fn verify_new(context: HistoryContext<'_>, created: &CreatedCheckpoint) -> Result<Verification> {
    let dir = &created.saved.dir;
    let Some(manifest) = &created.manifest else {
        return verify(context, &RunOrCheckpoint::Checkpoint(dir.clone())).map(|_| Verification::ReadBack);
    };
    let verified = dir.verify_new(context.workspace.store(), manifest);
    let verified = verified.map_err(|error| name_store(context.layout, dir, error))?;
    if let Some(stash) = created.saved.record.payload.stash() {
        stash::check(context, dir, stash)?;
    }
    Ok(verified)
}

fn verify_contents(context: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    let (dir, store) = (found.dir(), context.workspace.store());
    let record = match found {
        RunOrCheckpoint::Run(_) => {
            return dir.verify(store, &dir.manifest(store)?);
        }
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

/// Restores what differs from a checkpoint within the scope of `options`. `record` is `None` for the checkpoint of a run.
pub(super) fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let Some(record) = record else {
        return tree::restore(context, dir, None, &Scope::default(), options);
    };
    match &record.payload {
        CheckpointPayload::Tree(scope) => tree::restore(context, dir, Some(record), scope, options),
        CheckpointPayload::Stash(scope, stash) => {
            stash::restore(context, dir, record, (scope, stash), options)
        }
        CheckpointPayload::State { keys, sha256 } => {
            let snapshot = state::StateSnapshot::load(dir, record, sha256)?;
            state::restore(context, dir, &snapshot, keys, options)
        }
        CheckpointPayload::Databases(list) => database::restore(context, dir, list, options),
    }
}

/// Removes what a checkpoint that is deleted has outside of its directory.
pub(super) fn forget(layout: &Layout, record: &CheckpointRecord) -> Result<()> {
    match &record.payload {
        CheckpointPayload::Stash(_, stash) => stash::forget(layout, stash),
        CheckpointPayload::Tree(_) | CheckpointPayload::State { .. } | CheckpointPayload::Databases(_) => {
            Ok(())
        }
    }
}
