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
use crate::error::Result;
use crate::project::Layout;

/// Makes a checkpoint, and reports what it holds of what it was made for. The caller holds the project's lock.
pub(super) fn create(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
) -> Result<(SavedCheckpoint, ContentsReport)> {
    let scope = || Scope::parse(words, context.workspace.root(), &|_| false);
    Ok(match kind {
        CheckpointKind::FileBackup => {
            let scope = scope()?;
            let (saved, manifest) = tree::save(context, label, &scope)?;
            (saved, tree_report::describe(context.workspace.root(), &manifest, &scope))
        }
        CheckpointKind::GitStash => {
            let scope = scope()?;
            let (saved, manifest) = stash::save(context, label, &scope)?;
            let entry = saved.record.payload.stash().expect("a stash was saved");
            let report = stash::describe(context, &manifest, &scope, entry)?;
            (saved, report)
        }
        CheckpointKind::StateSnapshot => {
            let keys = StateKeys::parse(&words.list)?;
            if !words.allow_missing {
                keys.refuse_unset()?;
            }
            let (saved, state) = state::save(context, label, &keys)?;
            (saved, state.describe())
        }
        CheckpointKind::DatabaseSavepoint => {
            let targets = parse_targets(words, context.layout, context.config)?;
            let saved = database::save(context, label, &targets, false)?;
            let report = database::describe(&saved.record);
            (saved, report)
        }
    })
}

/// Reads back everything that a checkpoint, or that of a run, names. Returns the number of entries.
pub fn verify(context: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    verify_contents(context, found).map_err(|error| name_store(context.layout, found.dir(), error))
}

fn verify_contents(context: HistoryContext<'_>, found: &RunOrCheckpoint) -> Result<usize> {
    let dir = found.dir();
    let record = match found {
        RunOrCheckpoint::Run(_) => {
            return dir.verify(context.workspace, &dir.manifest(context.workspace.store())?);
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
