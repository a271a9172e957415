//! `state.json`: everything that a state snapshot holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::keys::{Area, StateKeys};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::history::record::CheckpointRecord;
use crate::process::redact::is_secret_name;
use crate::project::Layout;

/// The version of the format.
const VERSION: u32 = 1;

/// decree's own state at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSnapshot {
    version: u32,
    /// Which parts were looked at, whether or not there was anything.
    keys: Vec<String>,
    /// By path from the project on, as the manifest writes paths.
    pub files: BTreeMap<String, SnapshotFile>,
    /// Variables; `None` for one that was not set.
    pub environment: BTreeMap<String, Option<String>>,
    /// What is there and is not held: links, directories, secrets.
    pub left_out: Vec<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotFile {
    mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl SnapshotFile {
    /// A file's mode and content.
    pub(super) fn new(mode: FileMode, bytes: Vec<u8>) -> SnapshotFile {
        let mode = mode.to_string();
        match String::from_utf8(bytes) {
            Ok(text) => SnapshotFile { mode, text: Some(text), base64: None },
            Err(other) => SnapshotFile { mode, text: None, base64: Some(STANDARD.encode(other.as_bytes())) },
        }
    }

    /// What is in it.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(text.clone().into_bytes()),
            (None, Some(coded)) => STANDARD.decode(coded).ok(),
            _ => None,
        }
    }

    /// Its mode.
    pub fn mode(&self) -> Option<FileMode> {
        FileMode::parse(&self.mode)
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        let bytes = self.bytes().unwrap_or_default();
        format!("file {} {}", self.mode, ContentHash::of(&bytes).short())
    }
}

impl StateSnapshot {
    /// What is there now.
    pub fn read(layout: &Layout, keys: &StateKeys) -> Result<StateSnapshot> {
        let mut state = StateSnapshot {
            version: VERSION,
            keys: keys.words(),
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            left_out: Vec::new(),
        };
        for area in &keys.areas {
            let path = area.path(layout);
            match area.is_dir() {
                false => state.take(layout, &path)?,
                true => state.take_all(layout, &path)?,
            }
        }
        for name in &keys.variables {
            match std::env::var_os(name).map(std::ffi::OsString::into_string) {
                Some(_) if is_secret_name(name.as_ref()) => state.left_out.push(format!("env:{name}")),
                Some(Err(_)) => state.left_out.push(format!("env:{name}")),
                Some(Ok(value)) => drop(state.environment.insert(name.clone(), Some(value))),
                None => drop(state.environment.insert(name.clone(), None)),
            }
        }
        Ok(state)
    }

    fn take_all(&mut self, layout: &Layout, dir: &Path) -> Result<()> {
        // A link may lead out of the project.
        let above = [layout.inbox(), dir.to_owned()];
        if let Some(link) = above.iter().find(|dir| dir.is_symlink()) {
            self.left_out.push(layout.shown(link));
            return Ok(());
        }
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.at("read", dir)?,
        };
        for entry in entries {
            let path = entry.at("read", dir)?.path();
            let name = path.file_name().unwrap_or_default();
            if atomic::is_unfinished(name) || [layout.done(), layout.dead()].contains(&path) {
                continue;
            }
            self.take(layout, &path)?;
        }
        Ok(())
    }

    fn take(&mut self, layout: &Layout, path: &Path) -> Result<()> {
        let inside = path.strip_prefix(layout.root()).expect("decree's own files are in the project");
        let key = quote::in_json(inside.as_os_str().as_bytes()).into_owned();
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.at("read", path)?,
        };
        if !found.is_file() {
            self.left_out.push(key);
            return Ok(());
        }
        match untrusted::read(path) {
            // Taken by somebody meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            bytes => {
                let file = SnapshotFile::new(
                    FileMode::from_bits(found.permissions().mode()),
                    bytes.at("read", path)?,
                );
                self.files.insert(key, file);
            }
        }
        Ok(())
    }

    /// Which parts it is of.
    pub fn keys(&self) -> Result<StateKeys> {
        StateKeys::typed(&self.keys)
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.files.values().filter_map(SnapshotFile::bytes).map(|bytes| bytes.len() as u64).sum()
    }

    /// The same, without what these parts have not.
    pub fn within(&self, layout: &Layout, keys: &StateKeys) -> StateSnapshot {
        let mut part = self.clone();
        part.keys = keys.words();
        part.files.retain(|path, _| area(path, layout).is_some_and(|area| keys.areas.contains(&area)));
        part.environment.retain(|name, _| keys.variables.contains(name));
        part
    }

    /// Of all that it holds: a line for each file and variable.
    pub fn hash(&self) -> ContentHash {
        let mut text = String::new();
        for (path, file) in &self.files {
            let content = ContentHash::of(&file.bytes().unwrap_or_default());
            let _ = writeln!(text, "{content} {} {path}", file.mode);
        }
        for (name, value) in &self.environment {
            let value = value.as_ref().map(|value| ContentHash::of(value.as_bytes()).to_string());
            let _ = writeln!(text, "{} env:{name}", value.as_deref().unwrap_or("unset"));
        }
        ContentHash::of(text.as_bytes())
    }

    /// Reads back what [`fill`] wrote, and checks it.
    pub fn saved(saved: &CheckpointDir, record: &CheckpointRecord) -> Result<StateSnapshot> {
        let path = file(saved.dir());
        let damaged = |why: &str| Error::integrity(format!("{} {why}", path.display()));
        let text = match untrusted::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged("is missing")),
            text => text.at("read", &path)?,
        };
        if record.state != Some(ContentHash::of(&text).to_string()) {
            return Err(damaged("is damaged: it is not what was written"));
        }
        let state: StateSnapshot =
            serde_json::from_slice(&text).map_err(|error| damaged("is damaged").caused_by(error))?;
        if state.version != VERSION {
            return Err(damaged("is of another version"));
        }
        let readable = |file: &SnapshotFile| file.bytes().is_some() && file.mode().is_some();
        if !state.files.values().all(readable) || state.hash().to_string() != record.tree {
            return Err(damaged("is damaged: it does not hold what its record says"));
        }
        Ok(state)
    }
}

/// Which part a path belongs to.
pub fn area(path: &str, layout: &Layout) -> Option<Area> {
    Area::of(&quote::from_json(path)?, layout)
}

fn file(dir: &Path) -> PathBuf {
    dir.join("state.json")
}

/// Writes it.
pub fn fill(dir: &Path, state: &StateSnapshot, record: &mut CheckpointRecord) -> Result<()> {
    let text = serde_json::to_vec_pretty(state).expect("a state is plain data");
    atomic::write(&file(dir), &text)?;
    record.state = Some(ContentHash::of(&text).to_string());
    record.tree = state.hash().to_string();
    (record.files, record.bytes) = (state.files.len() as u64, state.bytes());
    Ok(())
}

/// Reads it back. Returns how many files and variables it has.
pub fn verify(saved: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    let state = StateSnapshot::saved(saved, record)?;
    Ok(state.files.len() + state.environment.len())
}
