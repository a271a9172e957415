//! `rolling-back.json`: a rollback of decree's own state that has begun. If it is killed, the next command that takes the project's
//! lock finishes it.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::snapshot::StateSnapshot;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, json, untrusted};
use crate::history::audit::{self, AuditAction, AuditEntry};
use crate::history::own_files::restore;
use crate::history::payload::{CheckpointPayload, StateKeys};
use crate::history::record::CheckpointRecord;
use crate::project::Layout;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PendingRollback {
    pub to: String,
    pub keys: Vec<String>,
    pub saved: String,
    pub reason: Option<String>,
}

impl PendingRollback {
    pub(super) fn write(&self, layout: &Layout) -> Result<()> {
        json::write_pretty(&layout.pending(), self)
    }

    pub(super) fn clear(layout: &Layout) -> Result<()> {
        let path = layout.pending();
        fs::remove_file(&path).at("remove", &path)?;
        atomic::sync_parent(&path)
    }
}

/// Finishes a rollback that was killed. Returns the checkpoint it rolled back to, if there was one.
pub fn finish_cut_off(layout: &Layout) -> Result<Option<String>> {
    let path = layout.pending();
    let text = match untrusted::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.at("read", &path)?,
    };
    let shown = layout.shown(&path);
    let pending: PendingRollback = serde_json::from_slice(&text).map_err(|error| {
        Error::integrity(format!("{shown} is damaged"))
            .caused_by(error)
            .detail("a rollback of decree's own state was killed, and cannot be finished")
            .hint(format!("look at .decree/inbox, then remove {shown}"))
    })?;
    let keys = StateKeys::typed(&pending.keys)?;
    let load = |id: &str| -> Result<StateSnapshot> {
        let dir = CheckpointDir::new(id, layout.checkpoints().join(id));
        let record = CheckpointRecord::read(dir.dir())?;
        match &record.payload {
            CheckpointPayload::State { sha256, .. } => {
                Ok(StateSnapshot::load(&dir, &record, sha256)?.within(layout, &keys))
            }
            payload => Err(Error::integrity(format!("{id} is a {}", payload.kind().word()))),
        }
    };
    let finish = || -> Result<()> {
        let wanted = load(&pending.to)?;
        // What was written since is in neither of the two, and stays.
        let saved = load(&pending.saved)?;
        let set_aside = layout.checkpoints().join(&pending.saved).join(CheckpointDir::SET_ASIDE);
        restore(layout, &saved.own_files(layout)?, &wanted.own_files(layout)?, &set_aside)?;
        let files_only = StateKeys { areas: keys.areas.clone(), ..StateKeys::default() };
        let after = StateSnapshot::read(layout, &files_only)?;
        let entry = AuditEntry {
            reason: pending.reason.clone(),
            after: Some(format!("sha256:{}", after.hash())),
            saved: Some(pending.saved.clone()),
            ..AuditEntry::new(AuditAction::Rollback, &pending.to, wanted.files.len() as u64)
        };
        audit::record(&layout.audit(), entry)
    };
    finish().map_err(|error| {
        error
            .detail(format!("the rollback to {} was killed, and could not be finished", pending.to))
            .hint(format!("what was there before is in {}; {shown} says what was begun", pending.saved))
    })?;
    PendingRollback::clear(layout)?;
    Ok(Some(pending.to))
}
