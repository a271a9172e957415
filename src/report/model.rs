//! What renderers read: the summary, and of each run what the caller loaded. Plain data.

use serde::Serialize;

use super::diff::Diff;
use crate::pipeline::{MessageSummary, Summary, Verdict};

/// Everything that a report can tell.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was done.
    pub summary: Summary,
    /// What is known besides, in the order of the summary's messages.
    pub runs: Vec<RunFiles>,
}

/// What was found of a run. An artifact may be partial: nothing of this has to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunFiles {
    /// What the last attempt changed.
    pub diff: Option<Diff>,
    /// What attempts said, in their order.
    pub logs: Vec<AttemptLog>,
    /// What was learned.
    pub failure_context: Option<Excerpt>,
}

/// What one attempt said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptLog {
    /// From 1.
    pub attempt: u32,
    /// The end of its log.
    pub end: Excerpt,
}

/// A part of a file, as text whatever its bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// Bytes of the file that are not in it.
    pub left_out: u64,
}

/// What became of a message, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// Its change stayed, or it had nothing to change.
    Kept,
    /// It failed.
    PutBack,
    /// It was not tried.
    Skipped,
}

impl Report {
    /// A report of a summary alone.
    pub fn new(summary: Summary) -> Self {
        let runs = vec![RunFiles::default(); summary.messages.len()];
        Report { summary, runs }
    }

    /// Each message with what is known of its run.
    pub fn messages(&self) -> impl Iterator<Item = (&MessageSummary, &RunFiles)> {
        self.summary.messages.iter().zip(&self.runs)
    }

    /// What became of all of them: `2 of 3 specs kept, 1 put back`.
    pub fn headline(&self) -> String {
        let summary = &self.summary;
        let total = summary.messages.len();
        if total == 0 {
            return "nothing to do".to_owned();
        }
        let plural = if total == 1 { "" } else { "s" };
        let mut text = format!("{} of {total} {}{plural} kept", summary.kept, self.noun());
        if summary.put_back > 0 {
            text.push_str(&format!(", {} put back", summary.put_back));
        }
        if summary.skipped > 0 {
            text.push_str(&format!(", {} skipped", summary.skipped));
        }
        if summary.interrupted.is_some() {
            text.push_str(", interrupted");
        }
        text
    }

    /// What the messages are called: most are specs.
    pub fn noun(&self) -> &'static str {
        match self.summary.messages.iter().any(|message| message.spec.is_some()) {
            true => "spec",
            false => "message",
        }
    }
}

impl RunFiles {
    /// What the last attempt said of which anything is known.
    pub fn last_log(&self) -> Option<&str> {
        self.logs.last().map(|log| log.end.text.as_str())
    }
}

impl MessageOutcome {
    /// As the summary counts it.
    pub fn of(message: &MessageSummary) -> MessageOutcome {
        match message.verdict {
            _ if message.kept => MessageOutcome::Kept,
            Verdict::Skipped => MessageOutcome::Skipped,
            Verdict::Budget if message.attempts.is_empty() => MessageOutcome::Skipped,
            _ => MessageOutcome::PutBack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_as_in_the_summary() {
        let mut summary = Summary::new("process");
        let verdicts =
            [Verdict::Success, Verdict::Skipped, Verdict::Budget, Verdict::TimedOut, Verdict::Policy];
        for (kept, verdict) in verdicts.into_iter().flat_map(|verdict| [(true, verdict), (false, verdict)]) {
            summary.add(MessageSummary { kept, ..MessageSummary::without_run("x".to_owned(), verdict) });
        }
        let count = |outcome| {
            summary.messages.iter().filter(|message| MessageOutcome::of(message) == outcome).count()
        };
        assert_eq!(
            (count(MessageOutcome::Kept), count(MessageOutcome::PutBack), count(MessageOutcome::Skipped)),
            (summary.kept, summary.put_back, summary.skipped)
        );
    }
}
