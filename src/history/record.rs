//! Checkpoints that people and scripts make: `.decree/checkpoints/<id>/`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

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
}

/// Checkpoints the tree: content, then manifest, then record.
pub fn create(
    workspace: &Workspace,
    checkpoints: &Path,
    reason: Option<String>,
    progress: &dyn Progress,
) -> Result<(CheckpointRecord, Saved, Manifest)> {
    let manifest = workspace.capture(progress)?;
    let now = jiff::Timestamp::now();
    let id = format!("chk_{}_{}", now.strftime("%Y%m%d_%H%M%S"), &random_hex()[..6]);
    fs::create_dir_all(checkpoints).at("create", checkpoints)?;
    let unfinished = checkpoints.join(format!("{TEMPORARY}{id}"));
    let dir = checkpoints.join(&id);
    let record = fill(&unfinished, id, now, reason, &manifest).and_then(|record| {
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
    reason: Option<String>,
    manifest: &Manifest,
) -> Result<CheckpointRecord> {
    fs::create_dir(dir).at("create", dir)?;
    manifest.write(&Saved::new(&id, dir).manifest_path())?;
    let (files, bytes) = manifest.tree.count();
    let record = CheckpointRecord {
        version: VERSION,
        id,
        created_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        reason,
        files: files as u64,
        bytes,
        tree: manifest.tree.hash().to_string(),
    };
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
        Ok(record)
    }
}

/// All checkpoints, oldest first; and what is wrong with those that cannot be read.
pub fn list(checkpoints: &Path) -> Result<(Vec<CheckpointRecord>, Vec<Error>)> {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for id in super::lookup::names_in(checkpoints)? {
        match CheckpointRecord::read(&checkpoints.join(&id)) {
            Ok(record) => records.push(record),
            Err(error) => damaged.push(error),
        }
    }
    records.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok((records, damaged))
}
