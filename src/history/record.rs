//! Checkpoints that people and scripts make: `.decree/checkpoints/<id>/`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::progress::Progress;
use crate::checkpoint::saved::Saved;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::random_hex;

/// The version of `checkpoint.json`.
const VERSION: u32 = 1;

/// `checkpoint.json`. A checkpoint's directory gets its name when everything in it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRecord {
    version: u32,
    /// `chk_YYYYMMDD_HHMMSS_xxxxxx`.
    pub id: String,
    /// UTC.
    pub created_at: String,
    /// Why it was made.
    pub reason: Option<String>,
    /// Files and links in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The combined hash of the tree.
    pub tree: String,
    /// Which part of the tree it was made for, as patterns; empty for all of it. It holds everything all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    /// From when on it may be collected, and is not gone back to any more; never, if it does not say. UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<String>,
    /// Of everything above. Checkpoints of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

/// What whoever makes a checkpoint says of it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Why.
    pub reason: Option<String>,
    /// For which part of the tree.
    pub scope: Scope,
    /// For how long.
    pub lifetime: Option<Duration>,
}

impl About {
    /// Nothing but why.
    pub fn because(reason: impl Into<String>) -> About {
        About { reason: Some(reason.into()), ..About::default() }
    }
}

/// Checkpoints the tree: content, then manifest, then record.
pub fn create(
    workspace: &Workspace,
    checkpoints: &Path,
    about: About,
    progress: &dyn Progress,
) -> Result<(CheckpointRecord, Saved, Manifest)> {
    let manifest = workspace.capture(progress)?;
    let now = jiff::Timestamp::now();
    let id = format!("chk_{}_{}", now.strftime("%Y%m%d_%H%M%S"), &random_hex()[..6]);
    fs::create_dir_all(checkpoints).at("create", checkpoints)?;
    let unfinished = checkpoints.join(format!("{TEMPORARY}{id}"));
    let dir = checkpoints.join(&id);
    let record = fill(&unfinished, id, now, about, &manifest).and_then(|record| {
        fs::rename(&unfinished, &dir).at("write", &dir)?;
        atomic::sync_dir(checkpoints)?;
        Ok(record)
    });
    if record.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    let record = record?;
    let saved = Saved::new(&record.id, dir);
    Ok((record, saved, manifest))
}

/// Writes a checkpoint's files.
fn fill(
    dir: &Path,
    id: String,
    now: jiff::Timestamp,
    about: About,
    manifest: &Manifest,
) -> Result<CheckpointRecord> {
    fs::create_dir(dir).at("create", dir)?;
    manifest.write(&Saved::new(&id, dir).manifest_path())?;
    let (files, bytes) = manifest.tree.count();
    let expiry = about.lifetime.map(|lifetime| {
        now.checked_add(lifetime)
            .map_err(|error| Error::failed("that expiry is too far away").caused_by(error))
    });
    let record = CheckpointRecord {
        version: VERSION,
        id,
        created_at: in_text(now),
        reason: about.reason,
        files: files as u64,
        bytes,
        tree: manifest.tree.hash().to_string(),
        scope: about.scope.patterns().to_vec(),
        expiry: expiry.transpose()?.map(in_text),
        check: None,
    };
    let record = CheckpointRecord { check: Some(record.work_out_check()), ..record };
    let text = serde_json::to_vec_pretty(&record).expect("a record is plain data");
    atomic::write(&dir.join("checkpoint.json"), &text)?;
    Ok(record)
}

impl CheckpointRecord {
    /// Reads a checkpoint's record.
    pub fn read(dir: &Path) -> Result<CheckpointRecord> {
        let path = dir.join("checkpoint.json");
        let text = match fs::read(&path) {
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
    fn work_out_check(&self) -> String {
        let bare = CheckpointRecord { check: None, ..self.clone() };
        let text = serde_json::to_vec(&bare).expect("a record is plain data");
        ContentHash::of(&text).to_string()
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
fn in_text(time: jiff::Timestamp) -> String {
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
    records.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok((records, damaged))
}
