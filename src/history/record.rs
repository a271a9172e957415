//! `checkpoint.json`: the record of a checkpoint that a user or a script made, in `.decree/checkpoints/<id>/`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::payload::{CheckpointKind, CheckpointPayload, SavedDatabase, StateKeys};
use super::scope::Scope;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::git::stash::Stash;

const VERSION: u32 = 1;

/// What is known of a checkpoint without reading what it holds.
#[derive(Clone, Debug)]
pub struct CheckpointRecord {
    pub id: String,
    pub created_at: String,
    /// The same with nanoseconds; `None` in a record of an earlier version.
    pub exact_time: Option<String>,
    pub reason: Option<String>,
    /// How many files and links it holds; of a savepoint, how many databases.
    pub files: u64,
    pub bytes: u64,
    /// The combined hash of all that it holds.
    pub tree: String,
    /// From when on it may be deleted by `gc` and is not restored; `None` for never. UTC.
    pub expiry: Option<String>,
    /// The store that has its content, if `DECREE_STORE` named one.
    pub store: Option<String>,
    pub payload: CheckpointPayload,
}

/// The record as JSON. The order of the fields is part of the format: `check` is a hash of this text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFile {
    version: u32,
    id: String,
    #[serde(rename = "type", default, skip_serializing_if = "CheckpointKind::is_file_backup")]
    kind: CheckpointKind,
    created_at: String,
    reason: Option<String>,
    files: u64,
    bytes: u64,
    tree: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scope: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stash: Option<Stash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    databases: Vec<SavedDatabase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exact_time: Option<String>,
    /// Checkpoints of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

impl CheckpointRecord {
    /// Its name in a checkpoint's directory.
    pub const FILE: &str = "checkpoint.json";

    /// Reads the record in a checkpoint's directory.
    pub fn read(dir: &Path) -> Result<CheckpointRecord> {
        let path = dir.join(CheckpointRecord::FILE);
        let shown = path.display();
        let text = untrusted::read(&path).if_exists().at("read", &path)?.ok_or_else(|| {
            Error::integrity(format!("{shown} is missing"))
                .hint("`decree diff` and `decree revert` work from the manifest, if that is there")
        })?;
        let file: RecordFile = serde_json::from_slice(&text)
            .map_err(|error| Error::integrity(format!("{shown} is damaged")).caused_by(error))?;
        if file.version != VERSION {
            return Err(Error::integrity(format!("{shown} has an unsupported version")));
        }
        if file.check.as_ref().is_some_and(|check| *check != file.hash()) {
            return Err(Error::integrity(format!("{shown} is damaged: it was edited")));
        }
        file.into_record().map_err(|error| error.detail(format!("{shown} is damaged")))
    }

    /// Writes the record, which is the last of a checkpoint's files.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let mut file = RecordFile::of(self);
        file.check = Some(file.hash());
        let text = serde_json::to_vec_pretty(&file).expect("a record is plain data");
        atomic::write(&dir.join(CheckpointRecord::FILE), &text)
    }

    pub fn kind(&self) -> CheckpointKind {
        self.payload.kind()
    }

    /// Whether `gc` may delete it, and a rollback or a revert to it is refused.
    pub fn is_expired(&self) -> bool {
        self.expiry.as_ref().is_some_and(|expiry| *expiry <= in_text(jiff::Timestamp::now()))
    }

    /// Refuses a checkpoint that has expired as a state to go back to.
    pub fn refuse_expired(&self) -> Result<()> {
        if !self.is_expired() {
            return Ok(());
        }
        let (id, when) = (&self.id, self.expiry.as_deref().unwrap_or_default());
        Err(Error::project(format!("checkpoint {id} expired on {when}"))
            .detail("nothing was touched")
            .hint("`decree checkpoint list` shows which have not expired"))
    }

    /// Checks that this is the manifest that was written with the record.
    pub fn check_manifest(&self, manifest: &Manifest) -> Result<()> {
        self.check_tree(&manifest.tree.hash().to_string())
    }

    /// The same, given the hash of the manifest's tree.
    pub fn check_tree(&self, hash: &str) -> Result<()> {
        if self.tree == hash {
            return Ok(());
        }
        let id = &self.id;
        Err(Error::integrity(format!("checkpoint {id}: its manifest has changed since it was written")))
    }
}

impl RecordFile {
    fn of(record: &CheckpointRecord) -> RecordFile {
        let record = record.clone();
        let (kind, scope) = (record.kind(), record.payload.scope());
        let mut file = RecordFile {
            version: VERSION,
            id: record.id,
            kind,
            created_at: record.created_at,
            reason: record.reason,
            files: record.files,
            bytes: record.bytes,
            tree: record.tree,
            scope,
            expiry: record.expiry,
            stash: None,
            state: None,
            databases: Vec::new(),
            store: record.store,
            exact_time: record.exact_time,
            check: None,
        };
        match record.payload {
            CheckpointPayload::Tree(_) => {}
            CheckpointPayload::Stash(_, stash) => file.stash = Some(stash),
            CheckpointPayload::State { sha256, .. } => file.state = Some(sha256),
            CheckpointPayload::Databases(list) => file.databases = list,
        }
        file
    }

    fn into_record(self) -> Result<CheckpointRecord> {
        let id = &self.id;
        let missing = |what: &str| Error::integrity(format!("the record of {id} does not have {what}"));
        let payload = match self.kind {
            CheckpointKind::FileBackup => CheckpointPayload::Tree(Scope::from_record(self.scope)),
            CheckpointKind::GitStash => {
                let stash = self.stash.ok_or_else(|| missing("its entry in git's stash list"))?;
                CheckpointPayload::Stash(Scope::from_record(self.scope), stash)
            }
            CheckpointKind::StateSnapshot => CheckpointPayload::State {
                keys: StateKeys::parse(&self.scope)?,
                sha256: self.state.ok_or_else(|| missing("the hash of state.json"))?,
            },
            CheckpointKind::DatabaseSavepoint => CheckpointPayload::Databases(self.databases),
        };
        Ok(CheckpointRecord {
            id: self.id,
            created_at: self.created_at,
            exact_time: self.exact_time,
            reason: self.reason,
            files: self.files,
            bytes: self.bytes,
            tree: self.tree,
            expiry: self.expiry,
            store: self.store,
            payload,
        })
    }

    fn hash(&self) -> String {
        let bare = RecordFile { check: None, ..self.clone() };
        let text = serde_json::to_vec(&bare).expect("a record is plain data");
        ContentHash::of(&text).to_string()
    }
}

/// A time as text; texts compare as the times do.
pub(super) fn in_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
