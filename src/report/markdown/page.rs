//! The page: heading, table, warnings, folded sections, footer.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::escape::inline;
use super::fold::{Fold, NAME, share};
use crate::humanize::{count, duration, grouped};
use crate::pipeline::{MessageOutcome, MessageSummary};
use crate::report::model::Report;
use crate::report::text::{cost, verdict_words};
use crate::sanitize::truncate;

/// The default budget. GitHub's limit for a comment is 65,536 characters.
pub const BUDGET: usize = 60_000;

/// How many warnings are listed.
const WARNINGS: usize = 10;

/// Renders the report in at most `budget` bytes.
pub fn render(report: &Report, budget: usize) -> String {
    let footer = format!("{}<sub>{}</sub>\n", run_directory_hint(report), facts(report).join(" · "));
    with_footer(report, budget, footer)
}

/// Like [`render`], with the caller's footer.
pub fn with_footer(report: &Report, budget: usize, footer: String) -> String {
    let heading = format!("### decree: {}\n\n", report.headline());
    let Some(room) = budget.checked_sub(heading.len()) else {
        return truncate(&heading, budget).to_owned();
    };
    let footer = Some(footer).filter(|footer| footer.len() <= room).unwrap_or_default();
    let room = room - footer.len();
    let table = table(report, room / 2);
    let warnings = Some(warnings(report)).filter(|text| text.len() <= room / 4).unwrap_or_default();
    let room = room - table.len() - warnings.len();
    let folds = folds(report, room);
    [heading, table, warnings, folds, footer].concat()
}

/// The table with as many rows as fit, in order. If not all fit, failed messages take precedence.
fn table(report: &Report, room: usize) -> String {
    let messages = &report.summary.messages;
    if messages.is_empty() {
        return String::new();
    }
    let head = format!("| {} | verdict | attempts | time | change |\n|---|---|---|---|---|\n", report.noun());
    let rows: Vec<String> = messages.iter().map(row).collect();
    let more = |number: usize| format!("| and {} more | | | | |\n", grouped(number as u64));
    let Some(mut free) = room.checked_sub(head.len() + more(rows.len()).len() + 1) else {
        return String::new();
    };
    let mut order: Vec<usize> = (0..rows.len()).collect();
    if rows.iter().map(String::len).sum::<usize>() > free {
        order.sort_by_key(|index| messages[*index].outcome() == MessageOutcome::Kept);
    }
    let mut shown = BTreeSet::new();
    for index in order {
        let Some(rest) = free.checked_sub(rows[index].len()) else { break };
        free = rest;
        shown.insert(index);
    }
    let mut text = head;
    text.extend(shown.iter().map(|index| rows[*index].as_str()));
    if shown.len() < rows.len() {
        text.push_str(&more(rows.len() - shown.len()));
    }
    text.push('\n');
    text
}

fn row(message: &MessageSummary) -> String {
    let lead = if message.seq > 0 { "↳ " } else { "" };
    let mark = match message.outcome() {
        MessageOutcome::Kept => "✅",
        MessageOutcome::Reverted => "❌",
        MessageOutcome::Skipped => "⚪",
    };
    let proof = message.run.reverted.as_ref().map_or_else(String::new, |record| {
        let except = inline(&record.exceptions(), NAME);
        format!("{except}, {} verified", count(record.verified as usize, "file"))
    });
    let (attempts, time) = match message.run.attempts.len() {
        0 => ("–".to_owned(), "–".to_owned()),
        n => (n.to_string(), duration(Duration::from_millis(message.run.duration_ms))),
    };
    let change = if message.run.kept && !message.files.is_empty() {
        let files = count(message.files.len(), "file");
        format!("+{} −{}, {files}", message.added, message.removed)
    } else {
        "–".to_owned()
    };
    let commits = message.run.commits().map_or(String::new(), |commits| format!(", {commits}"));
    let (name, words) = (inline(&message.run.name, NAME), verdict_words(message));
    format!("| {lead}{name} | {mark} {words}{proof} | {attempts} | {time} | {change}{commits} |\n")
}

fn warnings(report: &Report) -> String {
    let all: Vec<String> = report
        .summary
        .messages
        .iter()
        .flat_map(|message| message.run.warnings.iter().map(move |warning| (message, warning)))
        .map(|(message, warning)| {
            format!("- ⚠️ {}: {}\n", inline(&message.run.name, NAME), inline(warning, 300))
        })
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text: String = all.iter().take(WARNINGS).map(String::as_str).collect();
    if all.len() > WARNINGS {
        let _ = writeln!(text, "- and {}", count(all.len() - WARNINGS, "more warning"));
    }
    text.push('\n');
    text
}

fn folds(report: &Report, room: usize) -> String {
    let mut folds = Vec::new();
    for (message, files) in report.messages() {
        match (message.outcome(), &files.diff) {
            (MessageOutcome::Kept, Some(diff)) if !diff.files.is_empty() => {
                folds.push(Fold::Change(message, diff))
            }
            (MessageOutcome::Reverted, _) => folds.push(Fold::Failure(message, files.last_log())),
            _ => {}
        }
    }
    let note = |number: usize| {
        let what = count(number, "more section");
        format!("{what} omitted for length; the commands below show them.\n\n")
    };
    let Some(free) = room.checked_sub(note(folds.len()).len()) else {
        return String::new();
    };
    let sizes: Vec<usize> = folds.iter().map(Fold::size_hint).collect();
    let pieces = share(free, &sizes, |index, room| folds[index].render(room));
    let mut text = pieces.concat();
    match pieces.iter().filter(|piece| piece.is_empty()).count() {
        0 => {}
        hidden => text.push_str(&note(hidden)),
    }
    text
}

pub fn run_directory_hint(report: &Report) -> &'static str {
    if report.summary.messages.iter().all(|message| message.run_dir.is_none()) {
        return "";
    }
    "Each run is recorded in `.decree/runs/ID/`: `decree diff ID` shows its changes, `decree log ID` its log, \
     and `decree apply ID` applies the changes in another checkout.\n\n"
}

/// The command, its start time, its duration and its cost.
pub fn facts(report: &Report) -> Vec<String> {
    let summary = &report.summary;
    let mut facts = vec![
        format!("decree {} {}", inline(&summary.decree, NAME), inline(&summary.command, NAME)),
        inline(&summary.started_at, NAME),
        duration(summary.duration()),
    ];
    facts.extend(cost(summary.usage.usd));
    facts
}
