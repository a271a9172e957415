//! `failure-context.md`: everything that was learned, for the last attempt on the clean tree.

use std::fmt::Write;
use std::time::Duration;

use super::result::AttemptRecord;

/// What is told of one attempt besides its record.
pub struct FailedAttempt<'l> {
    /// The record.
    pub record: &'l AttemptRecord,
    /// The last lines of its log.
    pub tail: Vec<String>,
    /// Paths it had changed, with their lines.
    pub changed: Vec<String>,
    /// Where its diff is, relative to the project.
    pub diff: String,
    /// Where its log is, relative to the project.
    pub log: String,
}

/// How many changed paths are named.
const NAMED: usize = 40;

/// The text of the file.
pub fn render(name: &str, lessons: &[FailedAttempt<'_>]) -> String {
    let mut out = format!(
        "# What was tried before: {name}\n\n\
         {} failed. The tree has been put back to what it was before the first one; this is the last attempt.\n\
         What follows is what is known of each.\n",
        crate::humanize::count(lessons.len(), "attempt"),
    );
    for lesson in lessons {
        attempt(&mut out, lesson);
    }
    out
}

fn attempt(out: &mut String, lesson: &FailedAttempt<'_>) {
    let record = lesson.record;
    let took = crate::humanize::duration(Duration::from_millis(record.duration_ms));
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("\n## Attempt {}: {}\n", record.number, record.reason));
    if let Some(code) = record.exit_code {
        line(format!("- exit code {code}"));
    }
    line(format!("- took {took}"));
    line(format!("- log: `{}`", lesson.log));
    line(format!("- diff against the tree before the first attempt: `{}`", lesson.diff));
    line(match lesson.changed.len() {
        0 => "- changed nothing".to_owned(),
        n => {
            format!(
                "- changed {} (+{} −{}):",
                crate::humanize::count(n, "file"),
                record.added,
                record.removed
            )
        }
    });
    for path in lesson.changed.iter().take(NAMED) {
        line(format!("  - {path}"));
    }
    if lesson.changed.len() > NAMED {
        line(format!("  - and {} more", lesson.changed.len() - NAMED));
    }
    if lesson.tail.is_empty() {
        return;
    }
    let fence = "`".repeat(longest_backticks(&lesson.tail).max(2) + 1);
    let _ = write!(out, "\nThe end of its log:\n\n{fence}text\n{}\n{fence}\n", lesson.tail.join("\n"));
}

fn longest_backticks(lines: &[String]) -> usize {
    lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::verdict::Ending;

    #[test]
    fn it_tells_of_each_attempt_how_it_ended_and_what_it_had_changed() {
        let record = AttemptRecord {
            number: 2,
            clean_slate: false,
            ending: Ending::Exit { code: 3 },
            reason: "exit 3".to_owned(),
            exit_code: Some(3),
            duration_ms: 61_000,
            files: 1,
            added: 4,
            removed: 1,
            headline: String::new(),
            usage: None,
        };
        let lesson = FailedAttempt {
            record: &record,
            tail: vec!["```".to_owned(), "boom".to_owned()],
            changed: vec!["src/a.rs +4 −1".to_owned()],
            diff: "attempts/2/changes.diff".to_owned(),
            log: "attempts/2/routine.log".to_owned(),
        };
        let text = render("01-x", &[lesson]);
        for part in [
            "Attempt 2: exit 3",
            "exit code 3",
            "1m 01s",
            "src/a.rs +4 −1",
            "attempts/2/changes.diff",
            "boom",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("````text"), "the fence is longer than any in the log: {text}");
    }
}
