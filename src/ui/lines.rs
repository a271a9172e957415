//! Progress as plain lines, for logs, pipes and CI: one line per event, with the routine's output between them.

use std::io::{self, Write};
use std::time::Duration;

use super::output::Ui;
use super::progress::Bar;
use crate::checkpoint::progress::Progress;
use crate::fs::random_hex;
use crate::github::{commands, in_actions};
use crate::humanize::{count, duration, grouped};
use crate::pipeline::AttemptRecord;
use crate::pipeline::events::{AttemptNumber, Event, Reporter};
use crate::report::text::{self, Paint};

pub struct LineReporter {
    ui: Ui,
    bar: Bar,
    paint: Paint,
    /// How many bytes of an attempt's output are echoed; the same as the log's limit.
    limit: u64,
    echoed: u64,
    /// Whether the output so far ended with a newline.
    at_line_start: bool,
    /// In GitHub Actions: the token that ends the section in which the runner ignores workflow commands.
    fence: Option<String>,
    github: bool,
    name: String,
}

impl LineReporter {
    /// `limit` is the configured `log_limit`.
    pub fn new(ui: Ui, limit: u64) -> Self {
        LineReporter {
            bar: ui.progress(),
            paint: Paint(ui.color_err),
            ui,
            limit,
            echoed: 0,
            at_line_start: true,
            fence: None,
            github: in_actions(),
            name: String::new(),
        }
    }

    fn line(&mut self, text: &str) {
        self.end_line();
        if !self.ui.quiet {
            write(format!("{text}\n").as_bytes());
        }
    }

    fn end_line(&mut self) {
        if !self.at_line_start {
            write(b"\n");
            self.at_line_start = true;
        }
    }

    fn output(&mut self, bytes: &[u8]) {
        if self.ui.quiet || bytes.is_empty() {
            return;
        }
        let left = usize::try_from(self.limit.saturating_sub(self.echoed)).unwrap_or(usize::MAX);
        let shown = &bytes[..bytes.len().min(left)];
        if !shown.is_empty() {
            write(shown);
            self.at_line_start = shown.ends_with(b"\n");
        }
        if left > 0 && shown.len() == left {
            self.line("[decree] more output than log_limit; the log keeps its end");
        }
        self.echoed += bytes.len() as u64;
    }

    fn open_fence(&mut self, title: &str) {
        if self.github && !self.ui.quiet {
            let token = random_hex();
            write(commands::group(title, &token).as_bytes());
            self.fence = Some(token);
        }
    }

    fn close_fence(&mut self) {
        self.end_line();
        if let Some(token) = self.fence.take() {
            write(commands::end_group(&token).as_bytes());
        }
    }
}

impl Reporter for LineReporter {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Begin { messages, specs, pending } => self.line(&begin(*messages, *specs, *pending)),
            Event::MessageBegins { id, name, routine } => {
                (*name).clone_into(&mut self.name);
                self.line(&self.paint.strong(&format!("{name} · {routine} · {id}")));
            }
            Event::Checkpointed { files, took } => {
                let (files, took) = (count(*files as usize, "file"), duration(*took));
                self.line(&format!("  checkpoint: {files} in {took}"));
            }
            Event::AttemptBegins(AttemptNumber { number, of, clean_slate }) => {
                self.echoed = 0;
                let slate = if *clean_slate { ", on a clean slate" } else { "" };
                let title = format!("attempt {number} of {of}{slate}");
                self.line(&format!("  {title}"));
                self.open_fence(&format!("{} · {title}", self.name));
            }
            Event::Output(bytes) => self.output(bytes),
            Event::Verifying(_) => {}
            Event::HookBegins(name) => {
                self.echoed = 0;
                self.open_fence(name);
            }
            Event::HookEnds => self.close_fence(),
            Event::AttemptEnds { record, of } => {
                self.close_fence();
                self.line(&attempt_end(record, *of));
            }
            Event::Waiting(delay) => {
                self.line(&format!("  waiting {} before the next attempt", duration(*delay)))
            }
            Event::Reverted { id, attempt, record } => {
                let (paths, files) =
                    (count(record.paths as usize, "path"), count(record.verified as usize, "file"));
                let except = record.exceptions();
                self.line(&format!("  reverted {paths}{except}; {files} verified"));
                for line in text::reverted_lines(&record.files, &id.to_string(), *attempt) {
                    self.line(&line);
                }
                for path in &record.set_aside {
                    self.line(&set_aside(path));
                }
            }
            Event::MessageEnds(message) => self.line(&text::row(message, self.paint)),
            Event::Note(note) => self.line(note),
            Event::Warning(warning) => {
                self.end_line();
                self.ui.warn(warning);
            }
            Event::End => self.close_fence(),
        }
    }

    fn progress(&self) -> &dyn Progress {
        &self.bar
    }
}

/// The first line: `decree 0.1.0 · 3 specs to process`.
pub(super) fn begin(messages: usize, specs: usize, pending: usize) -> String {
    let mut work = Vec::new();
    if messages > 0 {
        work.push(count(messages, "message"));
    }
    if pending > 0 || messages == 0 {
        let of = if specs < pending { format!("{} of ", grouped(specs as u64)) } else { String::new() };
        work.push(format!("{of}{}", count(pending, "spec")));
    }
    format!("decree {} · {} to process", env!("CARGO_PKG_VERSION"), work.join(" and "))
}

/// The line for a path that a revert moved out of the way.
pub(super) fn set_aside(path: &str) -> String {
    format!("  moved {path} to the run's set-aside/")
}

fn attempt_end(record: &AttemptRecord, of: u32) -> String {
    let took = duration(Duration::from_millis(record.duration_ms));
    let change = match record.files {
        0 => "nothing changed".to_owned(),
        files => format!("+{} −{}, {}", record.added, record.removed, count(files as usize, "file")),
    };
    format!("  attempt {} of {of}: {} · {took} · {change}", record.number, record.reason)
}

/// Ignores errors: a run goes on even if its output has no reader any more.
fn write(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}
