//! The input of every renderer: the summary, and the parts of each run that were loaded. Plain data.

use serde::Serialize;

use super::diff::Diff;
use super::text;
use crate::humanize::{count, grouped};
use crate::pipeline::{MessageOutcome, MessageSummary, Summary};

/// A summary with the files of its runs.
#[derive(Clone, Debug)]
pub struct Report {
    pub summary: Summary,
    /// One entry per message, in the summary's order.
    pub runs: Vec<RunFiles>,
}

/// The files of a run that were found. An artifact may be partial, so each of them can be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFiles {
    /// The changes of the last attempt.
    pub diff: Option<Diff>,
    pub logs: Vec<AttemptLog>,
    pub failure_context: Option<Excerpt>,
}

/// The end of one attempt's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptLog {
    pub attempt: u32,
    pub end: Excerpt,
}

/// A part of a file, decoded as UTF-8 with replacement characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    pub text: String,
    /// The number of bytes of the file that are not in `text`.
    pub left_out: u64,
}

impl Report {
    /// A report without any run files.
    pub fn new(summary: Summary) -> Self {
        let runs = vec![RunFiles::default(); summary.messages.len()];
        Report { summary, runs }
    }

    pub fn messages(&self) -> impl Iterator<Item = (&MessageSummary, &RunFiles)> {
        self.summary.messages.iter().zip(&self.runs)
    }

    /// The counts in one line: `2 of 3 specs and 1 of 1 message kept, 1 reverted`. Follow-ups and tasks are messages.
    pub fn headline(&self) -> String {
        let summary = &self.summary;
        let kept = [("spec", true), ("message", false)].into_iter().filter_map(|(noun, is_spec)| {
            let of_kind = || summary.messages.iter().filter(|message| message.is_of_spec() == is_spec);
            let kept = of_kind().filter(|message| message.outcome() == MessageOutcome::Kept).count();
            let total = of_kind().count();
            (total > 0).then(|| format!("{} of {}", grouped(kept as u64), count(total, noun)))
        });
        let kept: Vec<String> = kept.collect();
        if kept.is_empty() {
            return "nothing to do".to_owned();
        }
        let mut text = format!("{} kept", kept.join(" and "));
        let untried = text::untried(summary);
        if summary.reverted > untried {
            text.push_str(&format!(", {} reverted", summary.reverted - untried));
        }
        if untried > 0 {
            text.push_str(&format!(", {}", count(untried, "dead letter")));
        }
        if summary.skipped > 0 {
            text.push_str(&format!(", {} skipped", summary.skipped));
        }
        if summary.interrupted.is_some() {
            text.push_str(", interrupted");
        }
        if summary.specs_left > 0 {
            text.push_str(&format!(", {}", text::specs_left(summary)));
        }
        text
    }

    /// What to call the messages: `spec` if any of them has one.
    pub fn noun(&self) -> &'static str {
        let any_spec = self.summary.messages.iter().any(|message| message.run.spec.is_some());
        if any_spec { "spec" } else { "message" }
    }
}

impl RunFiles {
    pub fn last_log(&self) -> Option<&str> {
        self.logs.last().map(|log| log.end.text.as_str())
    }
}
