//! A rollback of decree's own state that has begun: if it is cut off, whoever takes the project next finishes it.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::keys::StateKeys;
use super::rollback::put;
use super::snapshot::StateSnapshot;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, json, untrusted};
use crate::history::audit::{self, AuditAction, AuditEntry};
use crate::history::record::CheckpointRecord;
use crate::project::Layout;

/// What was begun.
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

/// Finishes what was cut off. Returns the checkpoint that it went back to, if there was anything.
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
            .detail("a rollback of decree's own state was cut off, and cannot be finished")
            .hint(format!("look at .decree/inbox, then remove {shown}"))
    })?;
    let finish = || {
        let saved = CheckpointDir::new(&pending.to, layout.checkpoints().join(&pending.to));
        let record = CheckpointRecord::read(saved.dir())?;
        let keys = StateKeys::typed(&pending.keys)?;
        let wanted = StateSnapshot::saved(&saved, &record)?.within(layout, &keys);
        let aside = layout.checkpoints().join(&pending.saved).join("set-aside");
        // What was written since is in neither, and stays.
        let present = CheckpointDir::new(&pending.saved, layout.checkpoints().join(&pending.saved));
        let before =
            StateSnapshot::saved(&present, &CheckpointRecord::read(present.dir())?)?.within(layout, &keys);
        put(layout, &before, &wanted, &aside)?;
        let after = StateSnapshot::read(layout, &StateKeys { variables: Default::default(), ..keys })?;
        let deed = AuditEntry {
            reason: pending.reason.clone(),
            after: Some(format!("sha256:{}", after.hash())),
            saved: Some(pending.saved.clone()),
            ..AuditEntry::new(AuditAction::Rollback, &pending.to, wanted.files.len() as u64)
        };
        audit::record(&layout.audit(), deed)
    };
    finish().map_err(|error: Error| {
        error
            .detail(format!("the rollback to {} was cut off, and could not be finished", pending.to))
            .hint(format!("what was there before is in {}; {shown} says what was begun", pending.saved))
    })?;
    PendingRollback::clear(layout)?;
    Ok(Some(pending.to))
}
