//! The JSON that the page's script reads.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::humanize::{count, duration};
use crate::message::MessageId;
use crate::pipeline::{AttemptRecord, Ending, FileChange, MessageSummary};
use crate::report::diff::FileDiff;
use crate::report::model::{MessageOutcome, Report, RunFiles};
use crate::report::text::verdict_words;

/// Extracts from a report what the page shows.
pub fn page_data(report: &Report) -> Value {
    let summary = &report.summary;
    let mut facts = vec![
        format!("decree {} {}", summary.decree, summary.command),
        summary.started_at.replace('T', " "),
        duration(summary.duration()),
    ];
    facts.extend(cost(summary.usage.usd));
    let messages = report.messages().map(|(summary, files)| message(summary, files));
    json!({"facts": facts, "messages": messages.collect::<Vec<_>>()})
}

fn cost(usd: f64) -> Option<String> {
    (usd > 0.0).then(|| format!("${usd:.2}"))
}

fn message(summary: &MessageSummary, found: &RunFiles) -> Value {
    let run = &summary.run;
    let tone = match MessageOutcome::of(summary) {
        MessageOutcome::Kept => "good",
        MessageOutcome::Reverted => "bad",
        MessageOutcome::Skipped => "idle",
    };
    json!({
        "id": summary.id.as_deref().and_then(MessageId::parse).map(|id| id.to_string()),
        "name": run.name,
        "follows": summary.seq > 0,
        "routine": run.routine,
        "spec": run.spec,
        "tone": tone,
        "words": verdict_words(summary),
        "reason": run.reason,
        "verified": run.reverted.as_ref().map(|put_back| count(put_back.verified as usize, "file")),
        "warnings": run.warnings,
        "ms": run.duration_ms,
        "time": duration(Duration::from_millis(run.duration_ms)),
        "cost": cost(run.usage.usd),
        "added": summary.added,
        "removed": summary.removed,
        "attempts": run.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "files": files(&summary.files, found),
        "cut": found.diff.as_ref().is_some_and(|diff| diff.cut),
        "logs": found.logs,
        "context": found.failure_context,
    })
}

fn attempt(record: &AttemptRecord) -> Value {
    let tone = match record.ending {
        Ending::Succeeded => "good",
        Ending::Interrupted | Ending::NothingChanged => "idle",
        _ => "bad",
    };
    json!({
        "number": record.number,
        "clean": record.clean_slate,
        "tone": tone,
        "reason": record.reason,
        "headline": record.headline,
        "ms": record.duration_ms,
        "time": duration(Duration::from_millis(record.duration_ms)),
        "files": record.files,
        "added": record.added,
        "removed": record.removed,
    })
}

/// The files in the summary, each with its section of the diff; `missing` if the loaded diff does not contain it.
fn files(changes: &[FileChange], found: &RunFiles) -> Vec<Value> {
    let diff = found.diff.iter().flat_map(|diff| &diff.files);
    let known: HashMap<&str, &FileDiff> = diff.map(|file| (file.path.as_str(), file)).collect();
    let none = FileDiff::default();
    let file = |change: &FileChange| {
        let diff = known.get(change.path.as_str());
        let FileDiff { note, head, hunks, .. } = diff.unwrap_or(&&none);
        json!({
            "path": change.path,
            "added": change.added,
            "removed": change.removed,
            "binary": change.binary,
            "missing": diff.is_none(),
            "note": note,
            "head": head,
            "hunks": hunks,
        })
    };
    changes.iter().map(file).collect()
}
