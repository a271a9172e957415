//! `failure-context.md`: what the failed attempts showed, for the last attempt on the reverted tree.

use std::fmt::Write;
use std::time::Duration;

use super::result::AttemptRecord;
use crate::humanize::{count, duration};

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

/// How many changed paths are listed per attempt.
const MAX_PATHS: usize = 40;

/// The text of the file, for the message `name`.
pub fn render(name: &str, failed: &[FailedAttempt<'_>]) -> String {
    let mut out = format!(
        "# Failed attempts: {name}\n\n\
         {} failed. The tree has been reverted to its state before the first one; this is the last attempt.\n\
         Each failed attempt is described below.\n",
        count(failed.len(), "attempt"),
    );
    for attempt in failed {
        describe(&mut out, attempt);
    }
    out
}

fn describe(out: &mut String, attempt: &FailedAttempt<'_>) {
    let record = attempt.record;
    let took = duration(Duration::from_millis(record.duration_ms));
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("\n## Attempt {}: {}\n", record.number, record.reason));
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
    for path in attempt.changed.iter().take(MAX_PATHS) {
        line(format!("  - {path}"));
    }
    if attempt.changed.len() > MAX_PATHS {
        line(format!("  - and {} more", attempt.changed.len() - MAX_PATHS));
    }
    if attempt.tail.is_empty() {
        return;
    }
    let fence = "`".repeat(longest_backticks(&attempt.tail).max(2) + 1);
    let _ = write!(out, "\nThe end of the log:\n\n{fence}text\n{}\n{fence}\n", attempt.tail.join("\n"));
}

fn longest_backticks(lines: &[String]) -> usize {
    lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0)
}
