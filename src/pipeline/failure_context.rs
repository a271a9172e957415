//! `failure-context.md`: what the failed attempts showed, for the last attempt on the reverted tree.

use std::time::Duration;

use super::result::AttemptRecord;
use crate::humanize::{count, duration};
use crate::sanitize::{limit_lines, truncate};

/// One failed attempt, with what its record does not have.
pub struct FailedAttempt<'l> {
    pub record: &'l AttemptRecord,
    /// The last lines of the log.
    pub tail: Vec<String>,
    /// Changed paths, with their line counts.
    pub changed: Vec<String>,
    /// The path of the diff, relative to the project.
    pub diff: String,
    /// The path of the log, relative to the project.
    pub log: String,
}

/// How many changed paths are listed per attempt, and how many bytes they have together at most.
const MAX_PATHS: usize = 40;
const MAX_PATHS_BYTES: usize = 4 * 1024;
/// The part of an attempt's room that its changed paths may take: the end of the log says more.
const PATHS_PART: usize = 4;
/// The longest reason of an attempt: it can have a whole command or the names of files.
const MAX_REASON: usize = 500;
/// How many attempts are described: the last ones.
const MAX_ATTEMPTS: usize = 20;
/// How many bytes the whole text has: it becomes part of a prompt.
const MAX_BYTES: usize = 64 * 1024;

/// The text of the file, for the message `name`.
pub fn render(name: &str, failed: &[FailedAttempt<'_>]) -> String {
    let mut out = format!(
        "# Failed attempts: {name}\n\n\
         {} failed. The tree has been reverted to its state before the first one; this is the last attempt.\n\
         Each failed attempt is described below.\n",
        count(failed.len(), "attempt"),
    );
    let first = failed.len().saturating_sub(MAX_ATTEMPTS);
    if first > 0 {
        out.push_str(&format!("The first {first} are left out.\n"));
    }
    let room = MAX_BYTES.saturating_sub(out.len()) / (failed.len() - first).max(1);
    for attempt in &failed[first..] {
        let mut description = describe(attempt, room);
        let left = room.saturating_sub(description.len());
        description.push_str(&end_of_log(&attempt.tail, left));
        out.push_str(&description);
    }
    out
}

/// Everything about an attempt but the end of its log, in far less than `room`.
fn describe(attempt: &FailedAttempt<'_>, room: usize) -> String {
    let mut out = String::new();
    let record = attempt.record;
    let took = duration(Duration::from_millis(record.duration_ms));
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("\n## Attempt {}: {}\n", record.number, truncate(&record.reason, MAX_REASON)));
    if let Some(code) = record.exit_code {
        line(format!("- exit code {code}"));
    }
    line(format!("- took {took}"));
    line(format!("- log: `{}`", attempt.log));
    line(format!("- diff against the tree before the first attempt: `{}`", attempt.diff));
    line(match attempt.changed.len() {
        0 => "- changed nothing".to_owned(),
        n => format!("- changed {} (+{} −{}):", count(n, "file"), record.added, record.removed),
    });
    let mut bytes = 0;
    let fits = |path: &&String| {
        bytes += path.len();
        bytes <= MAX_PATHS_BYTES.min(room / PATHS_PART)
    };
    let listed: Vec<&String> = attempt.changed.iter().take(MAX_PATHS).take_while(fits).collect();
    for path in &listed {
        line(format!("  - {path}"));
    }
    if attempt.changed.len() > listed.len() {
        line(format!("  - and {} more", attempt.changed.len() - listed.len()));
    }
    out
}

/// The last lines of a log in a fence that none of them closes, in at most `room` bytes.
fn end_of_log(tail: &[String], room: usize) -> String {
    let fence = "`".repeat(longest_backticks(tail).max(2) + 1);
    let frame = |text: &str| format!("\nThe end of the log:\n\n{fence}text\n{text}{fence}\n");
    let lines = limit_lines(tail.to_vec(), room.saturating_sub(frame("").len()));
    if lines.is_empty() {
        return String::new();
    }
    frame(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn longest_backticks(lines: &[String]) -> usize {
    lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0)
}
