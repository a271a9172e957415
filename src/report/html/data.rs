//! The JSON that the page's script reads.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use crate::humanize::{count, duration};
use crate::message::MessageId;
use crate::pipeline::{AttemptRecord, Ending, MessageSummary};
use crate::report::diff::FileDiff;
use crate::report::model::{AttemptLog, Excerpt, MessageOutcome, Report, RunFiles};
use crate::report::text::verdict_words;

/// The root of the page's JSON.
#[derive(Serialize)]
pub struct PageData<'r> {
    facts: Vec<String>,
    messages: Vec<Message<'r>>,
}

#[derive(Serialize)]
struct Message<'r> {
    id: Option<String>,
    name: &'r str,
    follows: bool,
    routine: Option<&'r str>,
    spec: Option<&'r str>,
    tone: &'static str,
    words: &'static str,
    reason: &'r str,
    verified: Option<String>,
    warnings: &'r [String],
    ms: u64,
    time: String,
    cost: Option<String>,
    added: u64,
    removed: u64,
    attempts: Vec<Attempt<'r>>,
    files: Vec<File<'r>>,
    cut: bool,
    logs: &'r [AttemptLog],
    context: Option<&'r Excerpt>,
}

#[derive(Serialize)]
struct Attempt<'r> {
    number: u32,
    clean: bool,
    tone: &'static str,
    reason: &'r str,
    headline: &'r str,
    ms: u64,
    time: String,
    files: u64,
    added: u64,
    removed: u64,
}

#[derive(Serialize)]
struct File<'r> {
    path: &'r str,
    added: u64,
    removed: u64,
    binary: bool,
    /// Whether the summary lists the file but the loaded diff does not contain it.
    missing: bool,
    note: &'r str,
    head: &'r str,
    hunks: &'r [String],
}

impl<'r> PageData<'r> {
    /// Extracts from a report what the page shows.
    pub fn new(report: &'r Report) -> Self {
        let summary = &report.summary;
        let mut facts = vec![
            format!("decree {} {}", summary.decree, summary.command),
            summary.started_at.replace('T', " "),
            duration(summary.duration()),
        ];
        facts.extend(cost(summary.usage.usd));
        PageData {
            facts,
            messages: report.messages().map(|(summary, files)| message(summary, files)).collect(),
        }
    }
}

fn cost(usd: f64) -> Option<String> {
    (usd > 0.0).then(|| format!("${usd:.2}"))
}

fn message<'r>(summary: &'r MessageSummary, found: &'r RunFiles) -> Message<'r> {
    Message {
        id: summary.id.as_deref().and_then(MessageId::parse).map(|id| id.to_string()),
        name: &summary.run.name,
        follows: summary.seq > 0,
        routine: summary.run.routine.as_deref(),
        spec: summary.run.spec.as_deref(),
        tone: match MessageOutcome::of(summary) {
            MessageOutcome::Kept => "good",
            MessageOutcome::Reverted => "bad",
            MessageOutcome::Skipped => "idle",
        },
        words: verdict_words(summary),
        reason: &summary.run.reason,
        verified: summary.run.reverted.as_ref().map(|put_back| count(put_back.verified as usize, "file")),
        warnings: &summary.run.warnings,
        ms: summary.run.duration_ms,
        time: duration(Duration::from_millis(summary.run.duration_ms)),
        cost: cost(summary.run.usage.usd),
        added: summary.added,
        removed: summary.removed,
        attempts: summary.run.attempts.iter().map(attempt).collect(),
        files: files(summary, found),
        cut: found.diff.as_ref().is_some_and(|diff| diff.cut),
        logs: &found.logs,
        context: found.failure_context.as_ref(),
    }
}

fn attempt(record: &AttemptRecord) -> Attempt<'_> {
    Attempt {
        number: record.number,
        clean: record.clean_slate,
        tone: match record.ending {
            Ending::Succeeded => "good",
            Ending::Interrupted | Ending::NothingChanged => "idle",
            _ => "bad",
        },
        reason: &record.reason,
        headline: &record.headline,
        ms: record.duration_ms,
        time: duration(Duration::from_millis(record.duration_ms)),
        files: record.files,
        added: record.added,
        removed: record.removed,
    }
}

/// The files in the summary, each with its section of the diff.
fn files<'r>(summary: &'r MessageSummary, found: &'r RunFiles) -> Vec<File<'r>> {
    let diff = found.diff.iter().flat_map(|diff| &diff.files);
    let known: HashMap<&str, &FileDiff> = diff.map(|file| (file.path.as_str(), file)).collect();
    let one = |change: &'r crate::pipeline::FileChange| {
        let diff = known.get(change.path.as_str());
        File {
            path: &change.path,
            added: change.added,
            removed: change.removed,
            binary: change.binary,
            missing: diff.is_none(),
            note: diff.map_or("", |diff| &diff.note),
            head: diff.map_or("", |diff| &diff.head),
            hunks: diff.map_or(&[], |diff| &diff.hunks),
        }
    };
    summary.files.iter().map(one).collect()
}
