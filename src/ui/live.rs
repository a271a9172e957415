//! Progress on a terminal: one row per message, and below the current one the last lines of its routine.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use console::{measure_text_width, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::lines::{begin, set_aside};
use super::output::Ui;
use super::progress::Bar;
use crate::checkpoint::progress::Progress;
use crate::humanize::{count, duration};
use crate::pipeline::events::{AttemptNumber, Event, Reporter};
use crate::report::text::{self, Paint};

/// Printed once, when work begins: decree cannot tell a person's edits from the routine's.
const EDITED_MEANWHILE: &str = "a file that you edit while a routine runs counts as the routine's change: if the run fails, it is reverted too";
/// How many of the routine's last lines are shown.
const TAIL: usize = 2;
/// Longer lines are truncated.
const LONGEST_LINE: usize = 4096;

pub struct LiveReporter {
    ui: Ui,
    bar: Bar,
    paint: Paint,
    row: Option<ProgressBar>,
    head: String,
    tail: VecDeque<String>,
    /// The tail as it is drawn below the row.
    below: Arc<Mutex<String>>,
    partial: Vec<u8>,
}

impl LiveReporter {
    pub fn new(ui: Ui) -> Self {
        LiveReporter {
            bar: ui.progress(),
            paint: Paint(ui.color_err),
            ui,
            row: None,
            head: String::new(),
            tail: VecDeque::new(),
            below: Arc::default(),
            partial: Vec::new(),
        }
    }

    /// Prints something permanent above the live row.
    fn above_row(&self, print: impl FnOnce()) {
        match &self.row {
            Some(row) => row.suspend(print),
            None => print(),
        }
    }

    fn print(&self, line: &str) {
        self.above_row(|| self.ui.note(line));
    }

    fn begin_row(&mut self, activity: &str) {
        let below = Arc::clone(&self.below);
        // The clock advances without events, so that a silent routine still shows as running.
        let style = ProgressStyle::with_template("{prefix}  {spinner} {msg} · {took}{below}")
            .expect("the template is fixed")
            .with_key("took", |state: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&duration(state.elapsed()));
            })
            .with_key("below", move |_: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&below.lock().expect("drawing does not panic"));
            })
            .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ");
        let row =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)).with_style(style);
        row.set_prefix(self.head.clone());
        row.set_message(activity.to_owned());
        row.enable_steady_tick(Duration::from_millis(120));
        self.row = Some(row);
    }

    fn end_row(&mut self) {
        if let Some(row) = self.row.take() {
            row.finish_and_clear();
        }
        self.tail.clear();
        self.partial.clear();
        self.below.lock().expect("drawing does not panic").clear();
    }

    fn set_activity(&self, activity: String) {
        if let Some(row) = &self.row {
            row.set_message(activity);
        }
    }

    fn draw_tail(&self) {
        let width = usize::from(console::Term::stderr().size().1).max(20);
        let mut text = String::new();
        for (number, line) in self.tail.iter().enumerate() {
            let lead = if number == 0 { "  └ " } else { "    " };
            let line = truncate_str(line, width.saturating_sub(measure_text_width(lead) + 1), "…");
            text.push_str(&format!("\n{}", self.paint.dim(&format!("{lead}{line}"))));
        }
        *self.below.lock().expect("drawing does not panic") = text;
    }

    fn output(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n' || *byte == b'\r') {
            let room = LONGEST_LINE.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") || piece.ends_with(b"\r") {
                let line = String::from_utf8_lossy(&self.partial).into_owned();
                self.partial.clear();
                let plain = crate::sanitize::final_line(&line);
                if !plain.is_empty() {
                    self.tail.push_back(plain);
                    while self.tail.len() > TAIL {
                        self.tail.pop_front();
                    }
                }
            }
        }
        self.draw_tail();
    }
}

impl Reporter for LiveReporter {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Begin { messages, specs, pending } => {
                self.print(&begin(*messages, *specs, *pending));
                if messages + specs > 0 {
                    self.print(&format!("{}\n", self.paint.dim(EDITED_MEANWHILE)));
                }
            }
            Event::MessageBegins { id, name, routine } => {
                self.head = text::row_head(id.seq, name, routine);
            }
            Event::Checkpointed { .. }
            | Event::AttemptEnds { .. }
            | Event::HookBegins(_)
            | Event::HookEnds => {}
            Event::AttemptBegins(AttemptNumber { number, of, clean_slate }) => {
                self.end_row();
                let slate = if *clean_slate { ", clean slate" } else { "" };
                self.begin_row(&format!("attempt {number} of {of}{slate}"));
            }
            Event::Output(bytes) => self.output(bytes),
            Event::Verifying(command) => self.set_activity(format!("verifying: {command}")),
            Event::Waiting(delay) => {
                self.set_activity(format!("waiting {} before the next attempt", duration(*delay)));
            }
            Event::Reverted { id, attempt, record } => {
                let (except, files) = (record.exceptions(), count(record.verified as usize, "file"));
                self.set_activity(format!("reverted{except}, {files} verified"));
                for line in text::reverted_lines(&record.files, &id.to_string(), *attempt) {
                    self.print(&self.paint.dim(&line));
                }
                for path in &record.set_aside {
                    self.print(&set_aside(path));
                }
            }
            Event::MessageEnds(message) => {
                self.end_row();
                self.print(&text::row(message, self.paint));
            }
            Event::Note(note) => self.print(note),
            Event::Warning(warning) => self.above_row(|| self.ui.warn(warning)),
            Event::End => {
                self.end_row();
                self.print("");
            }
        }
    }

    fn progress(&self) -> &dyn Progress {
        &self.bar
    }
}
