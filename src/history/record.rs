//! Checkpoints that people and scripts make: `.decree/checkpoints/<id>/`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kind::database::SavedDatabase;
use super::kind::{CheckpointKind, database};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::git::stash::Stash;

/// The version of `checkpoint.json`.
pub(super) const VERSION: u32 = 1;
/// Its name.
const FILE: &str = "checkpoint.json";

/// `checkpoint.json`. A checkpoint's directory gets its name when everything in it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRecord {
    pub(super) version: u32,
    /// `chk_YYYYMMDD_HHMMSS_xxxxxx`.
    pub id: String,
    /// By which means it holds what it holds.
    #[serde(rename = "type", default, skip_serializing_if = "CheckpointKind::is_file_backup")]
    pub kind: CheckpointKind,
    /// UTC.
    pub created_at: String,
    /// Why it was made.
    pub reason: Option<String>,
    /// Files and links in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The combined hash of all that it holds: of the tree, for those that hold the tree.
    pub tree: String,
    /// Which part it was made for, in words of its kind; empty for all of it. One of the tree holds everything all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    /// From when on it may be collected, and is not gone back to any more; never, if it does not say. UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// Of one with an entry of git's: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stash: Option<Stash>,
    /// Of a state snapshot: the hash of its `state.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of a savepoint: what was saved of each database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<SavedDatabase>,
    /// Of everything above. Checkpoints of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<String>,
}

impl CheckpointRecord {
    /// Reads a checkpoint's record.
    pub fn read(dir: &Path) -> Result<CheckpointRecord> {
        let path = dir.join(FILE);
        let text = match untrusted::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::integrity(format!("{} is missing", path.display()))
                    .hint("`decree diff` and `decree revert` work from the manifest, if that is there"));
            }
            result => result.at("read", &path)?,
        };
        let record: CheckpointRecord = serde_json::from_slice(&text)
            .map_err(|error| Error::integrity(format!("{} is damaged", path.display())).caused_by(error))?;
        if record.version != VERSION {
            return Err(Error::integrity(format!("{} is of another version", path.display())));
        }
        if record.check.as_ref().is_some_and(|check| *check != record.work_out_check()) {
            return Err(Error::integrity(format!("{} is damaged: it was edited", path.display())));
        }
        Ok(record)
    }
}

impl CheckpointRecord {
    /// Writes it into its directory, with its check. It is the last of a checkpoint's files.
    pub(super) fn write(&mut self, dir: &Path) -> Result<()> {
        self.check = Some(self.work_out_check());
        let text = serde_json::to_vec_pretty(&self).expect("a record is plain data");
        atomic::write(&dir.join(FILE), &text)
    }

    fn work_out_check(&self) -> String {
        let bare = CheckpointRecord { check: None, ..self.clone() };
        let text = serde_json::to_vec(&bare).expect("a record is plain data");
        ContentHash::of(&text).to_string()
    }

    /// The files in its directory that say what it holds.
    pub fn proof(&self) -> Vec<String> {
        match self.kind {
            CheckpointKind::FileBackup | CheckpointKind::GitStash => vec!["manifest.json".to_owned()],
            CheckpointKind::StateSnapshot => vec!["state.json".to_owned()],
            CheckpointKind::DatabaseSavepoint => database::left_over(self),
        }
    }

    /// Whether it may be collected, and is not gone back to.
    pub fn is_expired(&self) -> bool {
        self.expiry.as_ref().is_some_and(|expiry| *expiry <= in_text(jiff::Timestamp::now()))
    }

    /// Whether this is the manifest that was written with it.
    pub fn check(&self, manifest: &Manifest) -> Result<()> {
        match self.tree == manifest.tree.hash().to_string() {
            true => Ok(()),
            false => Err(Error::integrity(format!(
                "checkpoint {}: its manifest is not the one that was written",
                self.id
            ))),
        }
    }
}

/// A time as every file has it; two of them compare as the times do.
pub(super) fn in_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// All checkpoints, oldest first; and what is wrong with those that cannot be read.
pub fn list(checkpoints: &Path) -> Result<(Vec<CheckpointRecord>, Vec<Error>)> {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for id in super::lookup::names_in(checkpoints)? {
        match CheckpointRecord::read(&checkpoints.join(&id)) {
            Ok(record) => records.push(record),
            // It was deleted just now.
            Err(_) if checkpoints.join(&id).symlink_metadata().is_err() => {}
            Err(error) => damaged.push(error),
        }
    }
    // Those of one second by when they were written.
    let written = |record: &CheckpointRecord| {
        fs::metadata(checkpoints.join(&record.id).join(FILE)).and_then(|found| found.modified()).ok()
    };
    records.sort_by_cached_key(|record| (record.created_at.clone(), written(record), record.id.clone()));
    Ok((records, damaged))
}
