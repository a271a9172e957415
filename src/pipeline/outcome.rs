//! What a command reports while it works, and the summary it writes at its end. No secret passes through.

use std::path::Path;
use std::time::Instant;

use super::budget::BudgetMeter;
use super::events::{Event, Reporter};
use super::result::RunRecord;
use super::summary::{MessageSummary, Summary};
use crate::checkpoint::progress::Progress;
use crate::error::{ErrorKind, Result};
use crate::process::redact::Redactor;
use crate::project::Budget;
use crate::sanitize::one_line;

/// Reports events, counts what is spent, and collects the outcome of every message.
pub(super) struct OutcomeRecorder<'p> {
    pub reporter: &'p mut dyn Reporter,
    pub redactor: Redactor,
    pub meter: BudgetMeter,
    pub summary: Summary,
    began: Instant,
}

impl<'p> OutcomeRecorder<'p> {
    pub fn new(command: &str, budget: Budget, reporter: &'p mut dyn Reporter) -> Self {
        OutcomeRecorder {
            reporter,
            redactor: Redactor::of_this_process(),
            meter: BudgetMeter::new(budget),
            summary: Summary::new(command),
            began: Instant::now(),
        }
    }

    pub fn event(&mut self, event: &Event<'_>) {
        self.reporter.event(event);
    }

    pub fn progress(&self) -> &dyn Progress {
        self.reporter.progress()
    }

    pub fn note(&mut self, text: &str) {
        self.event(&Event::Note(text));
    }

    pub fn warn(&mut self, text: &str) {
        let text = one_line(&self.redactor.redact(text));
        self.event(&Event::Warning(&text));
    }

    /// A warning that the run's record has, too.
    pub fn warn_in(&mut self, run: &mut RunRecord, text: String) {
        self.warn(&text);
        run.warnings.push(text);
    }

    /// Reports the outcome of a message and adds it to the summary.
    pub fn record(&mut self, mut message: MessageSummary) {
        message.run.reason = one_line(&message.run.reason);
        message.redact(&self.redactor);
        self.event(&Event::MessageEnds(&message));
        self.summary.add(message);
    }

    /// Adds an outcome that was reported before.
    pub fn adopt(&mut self, mut message: MessageSummary) {
        message.redact(&self.redactor);
        self.summary.add(message);
    }

    /// Writes the summary, whether the work succeeded or failed.
    pub fn finish(mut self, path: &Path, done: Result<()>) -> Result<Summary> {
        if let Err(error) = &done
            && let ErrorKind::Interrupted { signal } = error.kind()
        {
            self.summary.interrupted = Some(signal);
        }
        self.summary.duration_ms = self.began.elapsed().as_millis() as u64;
        let written = self.summary.write(path);
        self.reporter.event(&Event::End(&self.summary));
        done.and(written)?;
        Ok(self.summary)
    }
}
