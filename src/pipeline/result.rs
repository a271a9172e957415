//! `result.json` of a run: what the engine recorded of the change, and what the pipeline knows besides.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::budget::Usage;
use super::verdict::{Ending, Verdict};
use crate::checkpoint::checkpoint_dir::ChangeRecord;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;

/// One execution of a routine within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// From 1.
    pub number: u32,
    /// Whether the tree was put back before it.
    #[serde(default)]
    pub clean_slate: bool,
    /// How it ended.
    pub ending: Ending,
    /// The same in a few words.
    pub reason: String,
    /// Of the routine, or of the verification that was not content.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// Paths that were different afterwards from what they were before the first attempt.
    pub files: u64,
    /// Lines, likewise.
    pub added: u64,
    /// Lines, likewise.
    pub removed: u64,
    /// The last line of its output that says something.
    #[serde(default)]
    pub headline: String,
    /// What it says it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// How the tree was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertRecord {
    /// Paths that had to be changed.
    pub paths: u64,
    /// Files in the whole tree that were compared with the checkpoint afterwards.
    pub verified: u64,
    /// New things out of scope that were moved to `set-aside/`.
    #[serde(default)]
    pub set_aside: Vec<String>,
}

/// What the pipeline knows of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// The verdict.
    pub status: Verdict,
    /// Whether the change stayed in the tree.
    pub kept: bool,
    /// Why, in a sentence; empty if it went well.
    #[serde(default)]
    pub reason: String,
    /// The message's name.
    pub name: String,
    /// What carried it out.
    pub routine: Option<String>,
    /// The spec that was to be fulfilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// UTC.
    pub started_at: String,
    /// From the checkpoint to the decision.
    pub duration_ms: u64,
    /// Every attempt.
    #[serde(default)]
    pub attempts: Vec<AttemptRecord>,
    /// Set once the tree has been put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<RevertRecord>,
    /// All that the attempts say they used.
    #[serde(default)]
    pub usage: Usage,
    /// What people have to know besides.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Of `running.json`, while the run is being settled.
    #[serde(default)]
    pub mark: String,
}

impl RunRecord {
    /// Of a run that has only begun: nothing was tried, nothing is kept.
    pub fn begins(name: String, started_at: String) -> Self {
        RunRecord {
            status: Verdict::Skipped,
            kept: false,
            reason: String::new(),
            name,
            routine: None,
            spec: None,
            started_at,
            duration_ms: 0,
            attempts: Vec::new(),
            put_back: None,
            usage: Usage::default(),
            warnings: Vec::new(),
            mark: String::new(),
        }
    }
}

/// `result.json`: the engine reads its part of it ([`ChangeRecord`]) and is not disturbed by the rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// What changed. A run that never came to an attempt has none.
    #[serde(flatten)]
    pub seal: Option<ChangeRecord>,
    /// The rest.
    #[serde(flatten)]
    pub story: RunRecord,
}

impl RunResult {
    /// Reads a run's result; `None` if it has none that the pipeline wrote.
    pub fn read(path: &Path) -> Result<Option<RunResult>> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.at("read", path)?,
        };
        let damaged = |error| Error::integrity(format!("{} is damaged", path.display())).caused_by(error);
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        if value.get("status").is_none() {
            return Ok(None);
        }
        serde_json::from_value(value).map(Some).map_err(damaged)
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).expect("a result is plain data");
        text.push(b'\n');
        atomic::write(path, &text)
    }
}
