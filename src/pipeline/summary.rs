//! `summary.json`: what the last `process` or `run` did. The input of every report.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::Usage;
use super::result::{AttemptRecord, RevertRecord, RunResult};
use super::verdict::Verdict;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;

/// The version of the format.
const VERSION: u32 = 1;

/// What one command did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    version: u32,
    /// Of decree.
    pub decree: String,
    /// `process` or `run`.
    pub command: String,
    /// UTC.
    pub started_at: String,
    /// All in all.
    pub duration_ms: u64,
    /// Messages whose change stayed, or that had nothing to change.
    pub kept: usize,
    /// Messages that failed; the tree was put back.
    pub put_back: usize,
    /// Messages that were not tried.
    pub skipped: usize,
    /// The signal that ended it early, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<u8>,
    /// What all attempts say they used.
    pub usage: Usage,
    /// In the order in which they were worked on.
    pub messages: Vec<MessageSummary>,
}

/// One message of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageSummary {
    /// The run; a message that was turned away may have none.
    pub id: Option<String>,
    /// Its place in the chain.
    pub seq: u32,
    /// Its name.
    pub name: String,
    /// The spec it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// What carried it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routine: Option<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// Whether the change stayed in the tree.
    pub kept: bool,
    /// Why it failed, in a sentence.
    #[serde(default)]
    pub reason: String,
    /// All in all.
    pub duration_ms: u64,
    /// Every attempt.
    #[serde(default)]
    pub attempts: Vec<AttemptRecord>,
    /// Lines, in the whole change.
    pub added: u64,
    /// Lines, in the whole change.
    pub removed: u64,
    /// Paths of the change.
    #[serde(default)]
    pub files: Vec<FileChange>,
    /// How the tree was put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<RevertRecord>,
    /// What its attempts say they used.
    #[serde(default)]
    pub usage: Usage,
    /// The run's directory, relative to the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_dir: Option<String>,
    /// What people have to know besides.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One path of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileChange {
    /// Quoted if it has to be.
    pub path: String,
    /// Lines.
    pub added: u64,
    /// Lines.
    pub removed: u64,
    /// Whether the content is binary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

impl Summary {
    /// An empty one.
    pub fn new(command: &str) -> Self {
        Summary {
            version: VERSION,
            decree: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.to_owned(),
            started_at: super::now_text(),
            duration_ms: 0,
            kept: 0,
            put_back: 0,
            skipped: 0,
            interrupted: None,
            usage: Usage::default(),
            messages: Vec::new(),
        }
    }

    /// Adds a message that is decided.
    pub fn add(&mut self, message: MessageSummary) {
        self.usage.add(&message.usage);
        match message.verdict {
            _ if message.kept => self.kept += 1,
            Verdict::Skipped => self.skipped += 1,
            Verdict::Budget if message.attempts.is_empty() => self.skipped += 1,
            _ => self.put_back += 1,
        }
        self.messages.push(message);
    }

    /// Whether all that was asked for was done.
    pub fn all_kept(&self) -> bool {
        self.put_back == 0 && self.skipped == 0
    }

    /// Reads the file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Summary>> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.at("read", path)?,
        };
        let damaged = |error| Error::project(format!("{} is not a summary", path.display())).caused_by(error);
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        if let Some(version) = value["version"].as_u64().filter(|version| *version > u64::from(VERSION)) {
            return Err(Error::project(format!("{} is of version {version}", path.display()))
                .hint("a newer decree wrote it, and can read it"));
        }
        serde_json::from_value(value).map(Some).map_err(damaged)
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).expect("a summary is plain data");
        text.push(b'\n');
        atomic::write(path, &text)
    }

    /// How long it took.
    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }
}

impl MessageSummary {
    /// Of something that never came to a run.
    pub fn without_run(name: String, verdict: Verdict) -> Self {
        MessageSummary {
            id: None,
            seq: 0,
            name,
            spec: None,
            routine: None,
            verdict,
            kept: false,
            reason: String::new(),
            duration_ms: 0,
            attempts: Vec::new(),
            added: 0,
            removed: 0,
            files: Vec::new(),
            put_back: None,
            usage: Usage::default(),
            run_dir: None,
            warnings: Vec::new(),
        }
    }

    /// Of a run that is decided.
    pub fn of_run(id: &crate::message::MessageId, run_dir: String, result: &RunResult) -> Self {
        let story = &result.story;
        let seal = result.seal.as_ref();
        let file = |(path, change): (&String, &crate::checkpoint::checkpoint_dir::PathChange)| FileChange {
            path: path.clone(),
            added: change.added,
            removed: change.removed,
            binary: change.binary,
        };
        MessageSummary {
            id: Some(id.to_string()),
            seq: id.seq(),
            name: story.name.clone(),
            spec: story.spec.clone(),
            routine: story.routine.clone(),
            verdict: story.status,
            kept: story.kept,
            reason: story.reason.clone(),
            duration_ms: story.duration_ms,
            attempts: story.attempts.clone(),
            added: seal.map_or(0, |seal| seal.added),
            removed: seal.map_or(0, |seal| seal.removed),
            files: seal.map_or_else(Vec::new, |seal| seal.changes.iter().map(file).collect()),
            put_back: story.put_back.clone(),
            usage: story.usage,
            run_dir: Some(run_dir),
            warnings: story.warnings.clone(),
        }
    }
}
