//! `summary.json`: what the last `process` or `run` did. The input of every report. It holds no secrets.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::budget::Usage;
use super::result::{RunRecord, RunResult};
use super::verdict::{Ending, Verdict};
use crate::checkpoint::change_record::PathChange;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::history::{GitChange, RunDir};
use crate::message::MessageId;
use crate::process::redact::Redactor;
use crate::sanitize::strip_controls;

/// The version of `summary.json`.
const VERSION: u32 = 1;

/// What one command did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    version: u32,
    /// The version of decree.
    pub decree: String,
    pub command: String,
    /// The time in UTC.
    pub started_at: String,
    pub duration_ms: u64,
    /// Messages whose change stayed, or that had nothing to change.
    pub kept: usize,
    /// Messages that failed; the tree was reverted.
    #[serde(rename = "put_back")]
    pub reverted: usize,
    /// Messages that were not run.
    pub skipped: usize,
    /// Pending specs that `--limit` left for the next command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub specs_left: usize,
    /// The signal that ended the command early, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<u8>,
    /// The sum of what the attempts say they used.
    pub usage: Usage,
    /// In the order in which they were worked on.
    #[serde(serialize_with = "in_order")]
    pub messages: Vec<MessageSummary>,
}

/// The keys of a message in the order in which they are written: a summary is also read by people.
const MESSAGE_KEYS: &str = "id seq name spec routine verdict kept reason duration_ms attempts added removed files put_back \
    git usage run_dir warnings";

fn in_order<S: Serializer>(messages: &[MessageSummary], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(messages.iter().map(|message| {
        let mut keys = serde_json::to_value(message).expect("a summary is plain data");
        let keys = keys.as_object_mut().expect("a struct is an object");
        let mut ordered: Map<String, Value> =
            MESSAGE_KEYS.split(' ').filter_map(|key| keys.remove_entry(key)).collect();
        ordered.append(keys);
        ordered
    }))
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The outcome of one message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessageSummary {
    /// The id of the message and its run; a rejected message may have none.
    pub id: Option<String>,
    /// The position in the chain.
    pub seq: u32,
    pub verdict: Verdict,
    #[serde(flatten)]
    pub run: RunRecord,
    /// Lines in the whole change.
    pub added: u64,
    pub removed: u64,
    #[serde(default)]
    pub files: Vec<FileChange>,
    /// The run's directory, relative to the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_dir: Option<String>,
}

/// How a message ended, in the three categories that the summary counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// Its change was kept, or it changed nothing.
    Kept,
    /// It failed, and any change was reverted.
    Reverted,
    /// It was not attempted.
    Skipped,
}

/// One path of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileChange {
    /// The path, quoted where it is not plain text.
    pub path: String,
    pub added: u64,
    pub removed: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

impl Summary {
    pub fn new(command: &str) -> Self {
        Summary {
            version: VERSION,
            decree: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.to_owned(),
            started_at: super::now_text(),
            ..Summary::default()
        }
    }

    /// Adds a message and counts it.
    pub fn add(&mut self, message: MessageSummary) {
        self.usage.add(&message.run.usage);
        match message.outcome() {
            MessageOutcome::Kept => self.kept += 1,
            MessageOutcome::Reverted => self.reverted += 1,
            MessageOutcome::Skipped => self.skipped += 1,
        }
        self.messages.push(message);
    }

    /// Counts all messages again, after the outcome of one changed.
    pub fn count_again(&mut self) {
        let of = |outcome| self.messages.iter().filter(|message| message.outcome() == outcome).count();
        (self.kept, self.reverted, self.skipped) =
            (of(MessageOutcome::Kept), of(MessageOutcome::Reverted), of(MessageOutcome::Skipped));
    }

    /// Whether every message was kept.
    pub fn all_kept(&self) -> bool {
        self.reverted == 0 && self.skipped == 0
    }

    /// Whether git's own state was to be restored for some message, and is not.
    pub fn has_unrestored_git(&self) -> bool {
        self.messages.iter().flat_map(|message| &message.run.git).any(GitChange::is_unrestored)
    }

    /// Reads the file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Summary>> {
        let Some(text) = fs::read(path).if_exists().at("read", path)? else { return Ok(None) };
        let damaged = |error| Error::project(format!("{} is not a summary", path.display())).caused_by(error);
        let value: Value = serde_json::from_slice(&text).map_err(damaged)?;
        if let Some(version) = value["version"].as_u64().filter(|version| *version > u64::from(VERSION)) {
            return Err(Error::project(format!("{} has version {version} of the format", path.display()))
                .hint("a newer decree wrote it; use that version to read it"));
        }
        serde_json::from_value(value).map(Some).map_err(damaged)
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        atomic::write(path, self.to_json().as_bytes())
    }

    /// The text of `summary.json`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a summary is plain data");
        format!("{text}\n")
    }

    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }

    /// Masks all secrets. Ids and verdicts are decree's own and stay.
    pub fn redact(&mut self, redactor: &Redactor) {
        let words = [&mut self.decree, &mut self.command, &mut self.started_at];
        words.into_iter().for_each(|words| redact_text(words, redactor));
        self.messages.iter_mut().for_each(|message| message.redact(redactor));
    }
}

impl MessageSummary {
    /// The summary of a message that was not run.
    pub fn without_run(name: String, verdict: Verdict) -> Self {
        MessageSummary {
            id: None,
            seq: 0,
            verdict,
            run: RunRecord { name, ..RunRecord::default() },
            added: 0,
            removed: 0,
            files: Vec::new(),
            run_dir: None,
        }
    }

    /// Whether it is the message of a spec, and not a task or a follow-up.
    pub fn is_of_spec(&self) -> bool {
        self.run.spec.is_some() && self.seq == 0
    }

    pub fn outcome(&self) -> MessageOutcome {
        match self.verdict {
            _ if self.run.kept => MessageOutcome::Kept,
            Verdict::Skipped => MessageOutcome::Skipped,
            Verdict::Budget if self.run.attempts.is_empty() => MessageOutcome::Skipped,
            Verdict::Success | Verdict::NoChange | Verdict::FailedReverted => MessageOutcome::Reverted,
            Verdict::TimedOut | Verdict::Policy | Verdict::Budget => MessageOutcome::Reverted,
            Verdict::FailedUnrestored | Verdict::Interrupted => MessageOutcome::Reverted,
        }
    }

    pub fn of_run(run: &RunDir, result: &RunResult) -> Self {
        let changes = result.changes.as_ref();
        let file = |(path, change): (&String, &PathChange)| FileChange {
            path: path.clone(),
            added: change.added,
            removed: change.removed,
            binary: change.binary,
        };
        MessageSummary {
            id: Some(run.id().to_string()),
            seq: run.id().seq,
            verdict: result.verdict,
            run: result.run.clone(),
            added: changes.map_or(0, |changes| changes.added),
            removed: changes.map_or(0, |changes| changes.removed),
            files: changes.map_or_else(Vec::new, |changes| changes.changes.iter().map(file).collect()),
            run_dir: Some(run.shown()),
        }
    }

    /// Names come from messages that routines wrote, and paths from what they did, so all are redacted.
    pub fn redact(&mut self, redactor: &Redactor) {
        let text = |words: &mut String| redact_text(words, redactor);
        text(&mut self.run.name);
        text(&mut self.run.reason);
        self.id.iter_mut().filter(|id| MessageId::parse(id).is_none()).for_each(text);
        [&mut self.run.spec, &mut self.run.routine, &mut self.run_dir].into_iter().flatten().for_each(text);
        self.run.warnings.iter_mut().for_each(text);
        self.files.iter_mut().for_each(|file| text(&mut file.path));
        if let Some(reverted) = &mut self.run.reverted {
            reverted.set_aside.iter_mut().chain(&mut reverted.files).for_each(text);
        }
        for attempt in &mut self.run.attempts {
            text(&mut attempt.reason);
            text(&mut attempt.headline);
            let ending = std::mem::replace(&mut attempt.ending, Ending::Lost);
            attempt.ending = ending.map_text(|words| redactor.redact(words).into_owned());
        }
    }
}

/// Masks all secrets in a text that may contain colours.
pub fn redact_text(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(changed) = redactor.redact(text) {
        *text = changed;
    }
    // Escape sequences in the middle of a secret hide it from the search, and not from a reader of the terminal.
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
        && let Cow::Owned(changed) = redactor.redact(&strip_controls(text))
    {
        *text = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_an_attempt_is_skipped_if_its_turn_never_came() {
        let verdicts = [
            (Verdict::Success, MessageOutcome::Reverted),
            (Verdict::NoChange, MessageOutcome::Reverted),
            (Verdict::FailedReverted, MessageOutcome::Reverted),
            (Verdict::FailedUnrestored, MessageOutcome::Reverted),
            (Verdict::TimedOut, MessageOutcome::Reverted),
            (Verdict::Policy, MessageOutcome::Reverted),
            (Verdict::Budget, MessageOutcome::Skipped),
            (Verdict::Interrupted, MessageOutcome::Reverted),
            (Verdict::Skipped, MessageOutcome::Skipped),
        ];
        for (verdict, outcome) in verdicts {
            let mut message = MessageSummary::without_run("x".to_owned(), verdict);
            assert_eq!(message.outcome(), outcome, "{verdict:?}");
            message.run.kept = true;
            assert_eq!(message.outcome(), MessageOutcome::Kept, "{verdict:?}");
        }
    }
}
