//! A new checkpoint on disk: what it holds first, then its record; its directory gets its name when everything in it is written.

use std::fs;
use std::time::Duration;

use super::payload::CheckpointPayload;
use super::record::{CheckpointRecord, in_text};
use super::store_location::external_store;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::random_hex;
use crate::process::redact::Redactor;
use crate::project::Layout;

/// Why a checkpoint is made, and for how long it is kept.
#[derive(Clone, Debug, Default)]
pub struct CheckpointLabel {
    pub reason: Option<String>,
    pub expiry: Expiry,
}

/// From when on a checkpoint may be deleted by `gc`, and is not rolled back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    #[default]
    Never,
    /// So long after it is made.
    After(Duration),
    At(jiff::Timestamp),
}

impl Expiry {
    fn from(self, made: jiff::Timestamp) -> Result<Option<String>> {
        let time = match self {
            Expiry::Never => return Ok(None),
            Expiry::At(time) => Ok(time),
            Expiry::After(lifetime) => made.checked_add(lifetime),
        };
        let time =
            time.map_err(|error| Error::usage("the expiry is too far in the future").caused_by(error))?;
        Ok(Some(in_text(time)))
    }
}

impl CheckpointLabel {
    pub fn with_reason(reason: impl Into<String>) -> CheckpointLabel {
        CheckpointLabel { reason: Some(reason.into()), expiry: Expiry::Never }
    }
}

/// A checkpoint that is complete on disk.
#[derive(Debug)]
pub struct SavedCheckpoint {
    pub record: CheckpointRecord,
    pub dir: CheckpointDir,
}

/// What was written into a checkpoint's directory.
pub struct SavedContents {
    pub files: u64,
    pub bytes: u64,
    pub hash: ContentHash,
    pub payload: CheckpointPayload,
}

/// Writes a checkpoint. `save` gets its directory, which has a temporary name yet, and the reason without secrets.
pub fn write_checkpoint(
    layout: &Layout,
    label: &CheckpointLabel,
    save: impl FnOnce(&CheckpointDir, Option<&str>) -> Result<SavedContents>,
) -> Result<SavedCheckpoint> {
    let now = jiff::Timestamp::now();
    let expiry = label.expiry.from(now)?;
    let id = format!("chk_{}_{}", now.strftime("%Y%m%d_%H%M%S"), &random_hex()[..6]);
    let reason =
        label.reason.as_deref().map(|reason| Redactor::of_this_process().redact(reason).into_owned());
    let checkpoints = layout.checkpoints();
    fs::create_dir_all(&checkpoints).at("create", &checkpoints)?;
    let unfinished = checkpoints.join(format!("{TEMPORARY}{id}"));
    let dir = checkpoints.join(&id);
    let write = || {
        fs::create_dir(&unfinished).at("create", &unfinished)?;
        let saved = save(&CheckpointDir::new(&id, &unfinished), reason.as_deref())?;
        let record = CheckpointRecord {
            id: id.clone(),
            created_at: in_text(now),
            exact_time: Some(format!("{now:.9}")),
            reason: reason.clone(),
            files: saved.files,
            bytes: saved.bytes,
            tree: saved.hash.to_string(),
            expiry,
            store: external_store(layout),
            payload: saved.payload,
        };
        record.write(&unfinished)?;
        fs::rename(&unfinished, &dir).at("write", &dir)?;
        atomic::sync_dir(&checkpoints)?;
        Ok(SavedCheckpoint { record, dir: CheckpointDir::new(&id, &dir) })
    };
    write().inspect_err(|_| {
        let _ = fs::remove_dir_all(&unfinished);
    })
}
