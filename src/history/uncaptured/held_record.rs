//! `held.json`: by what the decree after a killed one knows which likely secrets and which settings of git were changed, and from what it
//! restores hooks.
//!
//! It has the bytes of hooks and the like. Of likely secrets and of git's `config`, where passwords may be, it has a hash whose key is
//! made of the kernel's boot id: that is in no file of the project, so a copy of `.decree/` does not help to guess a short secret. After a
//! restart of the machine there is no key; then a file counts as the same if the kernel has not noted a change of it.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::queue_record::QueueRecord;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::Result;
use crate::fs::xattr::XattrValues;
use crate::fs::{json, random_hex, untrusted};
use crate::history::own_files::{OwnFile, SettingsRecord};
use crate::project::Layout;

const VERSION: u32 = 1;
/// Another one after each start of the machine, and not to be guessed.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HeldRecord {
    version: u32,
    /// The run or the checkpoint.
    id: String,
    salt: String,
    /// By it the next decree knows whether it has the same key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_check: Option<String>,
    /// Likely secrets by path, spelled as in a manifest.
    pub secrets: BTreeMap<String, FileFingerprint>,
    /// Modes of directories, by path.
    #[serde(default, alias = "secret_dirs")]
    pub dir_modes: BTreeMap<String, u32>,
    pub git_dirs: Vec<RecordedGitDir>,
    /// Repositories and ignored entries in the root, by path.
    #[serde(default)]
    pub entries: BTreeMap<String, EntryIdentity>,
    /// decree's own settings and routines.
    pub settings: SettingsRecord,
    #[serde(default)]
    pub queue: QueueRecord,
    /// What names the run or guarded command that is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActiveRecordCopy>,
}

/// A copy of `running.json` or `guarding.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ActiveRecordCopy {
    pub is_guard: bool,
    pub text: String,
}

impl ActiveRecordCopy {
    pub fn read(layout: &Layout) -> Option<ActiveRecordCopy> {
        [(layout.running(), false), (layout.guarding(), true)].into_iter().find_map(|(path, is_guard)| {
            let text = String::from_utf8(untrusted::read(&path).ok()?).ok()?;
            Some(ActiveRecordCopy { is_guard, text })
        })
    }
}

/// The inside of one git directory, without objects, refs and index.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedGitDir {
    /// Relative to the project.
    pub path: String,
    pub mode: u32,
    /// How many objects had a second name.
    #[serde(default)]
    pub linked: usize,
    /// By the path in the git directory.
    pub entries: BTreeMap<String, RecordedInside>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RecordedInside {
    Dir(u32),
    File(OwnFile),
    Link(String),
    Fingerprint(FileFingerprint),
    /// It was there.
    Named,
}

/// A file or link, known without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFingerprint {
    /// With the type.
    pub mode: u32,
    size: u64,
    inode: u64,
    /// When the kernel last noted a change.
    changed: (i64, i64),
    /// Of content, owner and attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyed_hash: Option<String>,
}

/// Which file or directory it was. The birth time tells it from a later one with the same inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryIdentity {
    pub inode: u64,
    /// Seconds and nanoseconds since 1970.
    born: (u64, u32),
    pub is_dir: bool,
}

impl EntryIdentity {
    /// `None` on a file system without birth times.
    pub fn of(found: &Metadata) -> Option<EntryIdentity> {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let born = found.created().ok().and_then(since)?;
        let born = (born.as_secs(), born.subsec_nanos());
        Some(EntryIdentity { inode: found.ino(), born, is_dir: found.is_dir() })
    }
}

/// What keyed hashes are made with; without a key there are none.
#[derive(Clone, Copy, Default)]
pub(super) struct RecordKey(Option<ContentHash>);

impl RecordKey {
    fn new(salt: &str) -> RecordKey {
        let boot_id = fs::read(BOOT_ID).ok().filter(|id| !id.is_empty());
        RecordKey(boot_id.map(|boot_id| ContentHash::of(&[&boot_id, salt.as_bytes()].concat())))
    }

    fn hash(&self, parts: &[&[u8]]) -> Option<String> {
        let mut hasher = Hasher::new();
        hasher.update(&self.0?.0);
        parts.iter().for_each(|part| hasher.update(part));
        Some(hasher.finish().0.to_string())
    }
}

impl FileFingerprint {
    pub fn new(found: &Metadata, content: ContentHash, attributes: &XattrValues, key: RecordKey) -> Self {
        let beside = format!("{} {} {attributes:?}", found.uid(), found.gid());
        FileFingerprint {
            mode: found.mode(),
            size: found.len(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
            keyed_hash: key.hash(&[&content.0, beside.as_bytes()]),
        }
    }

    /// Whether everything but the mode is the same.
    pub fn has_same_content(&self, now: &FileFingerprint) -> bool {
        match (&self.keyed_hash, &now.keyed_hash) {
            (Some(before), Some(now)) => before == now,
            _ => (self.size, self.inode, self.changed) == (now.size, now.inode, now.changed),
        }
    }
}

impl HeldRecord {
    /// An empty record for a run or a checkpoint, with the key for it.
    pub fn new(id: &str) -> (HeldRecord, RecordKey) {
        let salt = random_hex();
        let key = RecordKey::new(&salt);
        let record = HeldRecord {
            version: VERSION,
            id: id.to_owned(),
            salt,
            key_check: key.hash(&[]),
            secrets: BTreeMap::new(),
            dir_modes: BTreeMap::new(),
            git_dirs: Vec::new(),
            entries: BTreeMap::new(),
            settings: SettingsRecord::new(),
            queue: QueueRecord::default(),
            active: None,
        };
        (record, key)
    }

    pub fn write(&self, layout: &Layout) -> Result<()> {
        json::write(&layout.held(), self)
    }

    /// The record of a run or a checkpoint; `None` if there is none that can be read.
    pub fn read(layout: &Layout, id: &str) -> Option<(HeldRecord, RecordKey)> {
        let record = HeldRecord::read_any(layout).filter(|record| record.id == id)?;
        let key = RecordKey::new(&record.salt);
        let key = if key.hash(&[]) == record.key_check { key } else { RecordKey(None) };
        Some((record, key))
    }

    /// The record, whatever it is of.
    pub fn read_any(layout: &Layout) -> Option<HeldRecord> {
        let text = untrusted::read(&layout.held()).ok()?;
        let record: HeldRecord = serde_json::from_slice(&text).ok()?;
        (record.version == VERSION).then_some(record)
    }
}

/// Whether a path from a record stays below the directory that it is relative to.
pub(super) fn is_plain(path: &Path) -> bool {
    use std::path::Component;
    !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
}
