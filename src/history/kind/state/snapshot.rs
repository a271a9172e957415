//! `state.json`, which holds everything of a state snapshot.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::history::HistoryContext;
use crate::history::contents_report::{ContentsReport, FileList, not_needed};
use crate::history::own_files::{Area, OwnFile, key_of, path_of_key};
use crate::history::payload::{CheckpointPayload, StateKeys};
use crate::history::record::CheckpointRecord;
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};
use crate::humanize::{self, count};
use crate::process::secrets::holds_secret;
use crate::project::Layout;

const VERSION: u32 = 1;

/// decree's own state at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSnapshot {
    version: u32,
    /// The parts that were read, including those that had no files.
    keys: Vec<String>,
    /// By path relative to the project, as the manifest writes paths.
    pub files: BTreeMap<String, OwnFile>,
    /// `None` for a variable that was not set.
    pub environment: BTreeMap<String, Option<String>>,
    /// Links, directories and secrets, which are not held.
    pub left_out: Vec<String>,
}

impl StateSnapshot {
    /// Reads the present state.
    pub fn read(layout: &Layout, keys: &StateKeys) -> Result<StateSnapshot> {
        let mut state = StateSnapshot {
            version: VERSION,
            keys: keys.words(),
            files: BTreeMap::new(),
            environment: BTreeMap::new(),
            left_out: Vec::new(),
        };
        for area in &keys.areas {
            let listing = area.files(layout)?;
            state.left_out.extend(listing.excluded.iter().map(|path| key_of(layout, path).into_owned()));
            for path in listing.files {
                // `None`: another process took it since.
                if let Some(file) = OwnFile::read(&path).at("read", &path)? {
                    state.files.insert(key_of(layout, &path).into_owned(), file);
                }
            }
        }
        for name in &keys.variables {
            match std::env::var_os(name).map(std::ffi::OsString::into_string) {
                Some(Ok(value)) if holds_secret(name.as_ref(), value.as_ref()) => {
                    state.left_out.push(format!("env:{name}"));
                }
                Some(Err(_)) => state.left_out.push(format!("env:{name}")),
                Some(Ok(value)) => drop(state.environment.insert(name.clone(), Some(value))),
                None => drop(state.environment.insert(name.clone(), None)),
            }
        }
        Ok(state)
    }

    /// Its files by their paths.
    pub fn own_files(&self, layout: &Layout) -> Result<BTreeMap<PathBuf, OwnFile>> {
        self.files.iter().map(|(key, file)| Ok((path_of_key(layout, key)?, file.clone()))).collect()
    }

    pub fn keys(&self) -> Result<StateKeys> {
        StateKeys::parse(&self.keys)
    }

    /// The size of its files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes.len() as u64).sum()
    }

    /// The part of it that the keys cover.
    pub fn within(&self, layout: &Layout, keys: &StateKeys) -> StateSnapshot {
        let mut part = self.clone();
        part.keys = keys.words();
        let area = |key: &str| Area::of(&quote::from_json(key)?, layout);
        part.files.retain(|key, _| area(key).is_some_and(|area| keys.areas.contains(&area)));
        part.environment.retain(|name, _| keys.variables.contains(name));
        part
    }

    /// The combined hash: of a line for each file and variable.
    pub fn hash(&self) -> ContentHash {
        let mut text = String::new();
        for (path, file) in &self.files {
            let content = ContentHash::of(&file.bytes);
            let _ = writeln!(text, "{content} {} {path}", file.mode);
        }
        for (name, value) in &self.environment {
            let value = value.as_ref().map(|value| ContentHash::of(value.as_bytes()).to_string());
            let _ = writeln!(text, "{} env:{name}", value.as_deref().unwrap_or("unset"));
        }
        ContentHash::of(text.as_bytes())
    }

    /// What it holds, for a report.
    pub fn describe(&self) -> ContentsReport {
        let (files, variables) = (self.files.len(), self.environment.len());
        let bytes = humanize::bytes(self.bytes());
        let unset = || self.environment.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let mut assumptions: Vec<String> = unset().map(|name| format!("env:{name} is not set yet")).collect();
        assumptions.extend(not_needed(&self.left_out));
        let left_out = self.left_out.iter().map(|name| format!("not in the checkpoint: {name}"));
        let will_unset = unset().map(|name| format!("'env:{name}' is not set now: a rollback unsets it"));
        ContentsReport {
            files: FileList::Names(self.files.keys().cloned().collect()),
            state_keys: self.keys.clone(),
            hash: self.hash().to_string(),
            summary: format!("{}, {bytes}; {}", count(files, "file"), count(variables, "variable")),
            held: files + variables,
            uncertain: 0,
            left_out: self.left_out.clone(),
            assumptions,
            coverage: json!({ "left_out": self.left_out }),
            warnings: left_out.chain(will_unset).collect(),
        }
    }

    /// Reads the `state.json` of a checkpoint, and checks it against its record.
    pub fn load(dir: &CheckpointDir, record: &CheckpointRecord, sha256: &str) -> Result<StateSnapshot> {
        let path = dir.dir().join(CheckpointPayload::STATE_FILE);
        let damaged = |why: &str| Error::integrity(format!("{} {why}", path.display()));
        let Some(text) = untrusted::read(&path).if_exists().at("read", &path)? else {
            return Err(damaged("is missing"));
        };
        if ContentHash::of(&text).to_string() != sha256 {
            return Err(damaged("is damaged: its hash does not match"));
        }
        let state: StateSnapshot =
            serde_json::from_slice(&text).map_err(|error| damaged("is damaged").caused_by(error))?;
        if state.version != VERSION {
            return Err(damaged("has an unsupported version"));
        }
        if state.hash().to_string() != record.tree {
            return Err(damaged("is damaged: it does not hold what its record says"));
        }
        Ok(state)
    }
}

/// Saves the present state.
pub fn save(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    keys: &StateKeys,
) -> Result<(SavedCheckpoint, StateSnapshot)> {
    let state = StateSnapshot::read(context.layout, keys)?;
    let saved = write_checkpoint(context.layout, label, |dir, _| {
        let text = serde_json::to_vec_pretty(&state).expect("a state is plain data");
        atomic::write(&dir.dir().join(CheckpointPayload::STATE_FILE), &text)?;
        Ok(SavedContents {
            files: state.files.len() as u64,
            bytes: state.bytes(),
            hash: state.hash(),
            payload: CheckpointPayload::State {
                keys: keys.clone(),
                sha256: ContentHash::of(&text).to_string(),
            },
        })
    })?;
    Ok((saved, state))
}
