//! Making a checkpoint: first what it holds, then its record; its directory gets its name when everything in it is written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::HistoryContext;
use super::kind::state::StateSnapshot;
use super::kind::{CheckpointTarget, database, stash, state, tree};
use super::record::{CheckpointRecord, VERSION, in_text};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::random_hex;
use crate::process::redact::Redactor;

/// What whoever makes a checkpoint says of it.
#[derive(Clone, Debug, Default)]
pub struct NewCheckpoint {
    /// Why.
    pub reason: Option<String>,
    /// Of what, and how.
    pub aim: CheckpointTarget,
    /// For how long.
    pub lifetime: Option<Duration>,
}

impl NewCheckpoint {
    /// The whole tree, and why.
    pub fn because(reason: impl Into<String>) -> NewCheckpoint {
        NewCheckpoint { reason: Some(reason.into()), ..NewCheckpoint::default() }
    }
}

/// A new checkpoint.
pub struct CreatedCheckpoint {
    /// What is written down of it.
    pub record: CheckpointRecord,
    /// Where it is.
    pub saved: CheckpointDir,
    /// What is in it.
    pub contents: CheckpointPayload,
    /// What git holds and decree does not.
    pub tracked_only: Vec<String>,
}

/// What a checkpoint holds.
pub enum CheckpointPayload {
    /// The tree.
    Tree(Manifest),
    /// decree's own.
    State(StateSnapshot),
    /// Databases; the record says what of them.
    Databases,
}

/// Makes a checkpoint. Who calls this holds the project's lock.
pub fn create(site: HistoryContext<'_>, about: NewCheckpoint) -> Result<CreatedCheckpoint> {
    // What takes long and fails most often comes first: nothing is left of it.
    let contents = match &about.aim {
        CheckpointTarget::Tree(_) => CheckpointPayload::Tree(site.workspace.capture(site.progress)?),
        CheckpointTarget::Stash(_) => {
            stash::is_possible(site)?;
            CheckpointPayload::Tree(site.workspace.capture(site.progress)?)
        }
        CheckpointTarget::State(keys) => CheckpointPayload::State(StateSnapshot::read(site.layout, keys)?),
        CheckpointTarget::Databases { .. } => CheckpointPayload::Databases,
    };
    let mut record = blank(&about)?;
    let checkpoints = site.layout.checkpoints();
    fs::create_dir_all(&checkpoints).at("create", &checkpoints)?;
    let unfinished = checkpoints.join(format!("{TEMPORARY}{}", record.id));
    let dir = checkpoints.join(&record.id);
    let written = fill(site, &unfinished, &about.aim, &contents, &mut record).and_then(|()| {
        record.write(&unfinished)?;
        fs::rename(&unfinished, &dir).at("write", &dir)?;
        atomic::sync_dir(&checkpoints)
    });
    if let Err(error) = written {
        let _ = fs::remove_dir_all(&unfinished);
        let _ = stash::forget(site.layout, &record);
        return Err(error);
    }
    let tracked_only = match (&contents, &about.aim) {
        (CheckpointPayload::Tree(manifest), CheckpointTarget::Stash(scope)) => {
            stash::tracked_only(site.layout, manifest, scope)?
        }
        _ => Vec::new(),
    };
    Ok(CreatedCheckpoint { saved: CheckpointDir::new(&record.id, dir), record, contents, tracked_only })
}

/// A record of nothing yet.
fn blank(about: &NewCheckpoint) -> Result<CheckpointRecord> {
    let now = jiff::Timestamp::now();
    let expiry = about.lifetime.map(|lifetime| {
        let expiry = now.checked_add(lifetime);
        expiry.map_err(|error| Error::new(ErrorKind::Usage, "that expiry is too far away").caused_by(error))
    });
    Ok(CheckpointRecord {
        version: VERSION,
        id: format!("chk_{}_{}", now.strftime("%Y%m%d_%H%M%S"), &random_hex()[..6]),
        kind: about.aim.kind(),
        created_at: in_text(now),
        reason: about.reason.as_deref().map(|reason| Redactor::of_this_process().redact(reason).into_owned()),
        files: 0,
        bytes: 0,
        tree: String::new(),
        scope: about.aim.words(),
        expiry: expiry.transpose()?.map(in_text),
        stash: None,
        state: None,
        databases: Vec::new(),
        check: None,
    })
}

/// Writes what it holds.
fn fill(
    site: HistoryContext<'_>,
    dir: &Path,
    aim: &CheckpointTarget,
    contents: &CheckpointPayload,
    record: &mut CheckpointRecord,
) -> Result<()> {
    fs::create_dir(dir).at("create", dir)?;
    match (contents, aim) {
        (CheckpointPayload::Tree(manifest), CheckpointTarget::Stash(scope)) => {
            stash::fill(site, dir, manifest, scope, record)
        }
        (CheckpointPayload::Tree(manifest), _) => tree::fill(dir, manifest, record),
        (CheckpointPayload::State(state), _) => state::fill(dir, state, record),
        (CheckpointPayload::Databases, CheckpointTarget::Databases { targets, as_it_is }) => {
            database::fill(site, dir, targets, *as_it_is, record)
        }
        (CheckpointPayload::Databases, _) => unreachable!("nothing else has such contents"),
    }
}
