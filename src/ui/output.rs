//! The two streams: data to standard output, everything else to standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use console::{Style, measure_text_width, pad_str};

use super::progress::Bar;
use crate::error::{Error, Result};
use crate::github::in_actions;
use crate::interrupt;
use crate::sanitize::escape_command;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Writes to the two standard streams as the global flags ask for.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    pub color_out: bool,
    pub color_err: bool,
    pub quiet: bool,
}

impl Ui {
    /// Decides about colours from the flag, the terminal and `NO_COLOR`.
    pub fn new(color: Color, quiet: bool) -> Self {
        let use_color = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Ui {
            color_out: use_color(io::stdout().is_terminal()),
            color_err: use_color(io::stderr().is_terminal()),
            quiet,
        }
    }

    /// Prints data to standard output.
    pub fn print(&self, text: &str) -> Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    pub fn print_json(&self, value: &serde_json::Value) -> Result<()> {
        self.print(&format!("{value:#}\n"))
    }

    /// Writes data to standard output piece by piece. A closed pipe is not an error.
    pub fn write(&self, body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        // One answer is enough: from here on, a signal that ends decree at once prints none.
        interrupt::set_last_answer(None);
        interrupt::wait_if_ending();
        let mut out = io::stdout().lock();
        match body(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Error::failed("cannot write to standard output").caused_by(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Prints a message to standard error, unless `--quiet` is set.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.print_message(text);
        }
    }

    /// Prints workflow commands for the CI runner that reads the log. `--quiet` does not apply to them.
    pub fn command(&self, lines: &str) {
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }

    /// Prints a warning, even with `--quiet`.
    pub fn warn(&self, text: &str) {
        let label = self.styled("warning:", Style::new().yellow().bold());
        self.print_message(&format!("{label} {text}"));
    }

    pub fn error(&self, error: &Error) {
        let label = self.styled("error:", Style::new().red().bold());
        let mut text = format!("{label} {error}");
        for line in error.detail_lines() {
            text.push_str("\n  ");
            text.push_str(line);
        }
        if let Some(hint) = error.hint_text() {
            let label = self.styled("hint:", Style::new().cyan());
            text.push_str(&format!("\n  {label} {hint}"));
        }
        self.print_message(&text);
    }

    /// Asks a yes-or-no question on a terminal; without one, the answer is yes.
    pub fn confirm(&self, question: &str) -> Result<bool> {
        if !is_interactive() {
            return Ok(true);
        }
        let answer = ask(&format!("{question} [Y/n] "))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") && !answer.is_empty())
    }

    /// Asks before something that cannot be undone: only an explicit yes counts. The caller checks that there is a terminal.
    pub fn confirm_loss(&self, question: &str) -> Result<bool> {
        let answer = ask(&format!("{question} [y/N] "))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Asks before files are overwritten, on a terminal: only an explicit yes counts there. Without one, the answer is yes.
    pub fn confirm_overwrite(&self, question: &str) -> Result<bool> {
        if is_interactive() { self.confirm_loss(question) } else { Ok(true) }
    }

    /// A progress bar that is drawn only on a terminal.
    pub fn progress(&self) -> Bar {
        Bar::new(!self.quiet && io::stderr().is_terminal())
    }

    fn styled(&self, text: &str, style: Style) -> String {
        style.for_stderr().force_styling(self.color_err).apply_to(text).to_string()
    }

    fn print_message(&self, text: &str) {
        // The text can contain file names and output of other programs, which must not act as workflow commands.
        let text = if in_actions() {
            Cow::Owned(text.split('\n').map(escape_command).collect::<Vec<_>>().join("\n"))
        } else {
            Cow::Borrowed(text)
        };
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Whether a question can be asked and answered.
fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Reads a line from the terminal; Ctrl-C interrupts the wait.
fn ask(question: &str) -> Result<String> {
    let _ = write!(io::stderr().lock(), "{question}");
    let (sender, answer) = mpsc::channel();
    // A signal does not end a blocking read, so another thread reads, and an interrupt does not wait for it.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = sender.send(io::stdin().read_line(&mut line).map(|_| line));
    });
    loop {
        interrupt::check().inspect_err(|_| {
            let _ = writeln!(io::stderr().lock());
        })?;
        match answer.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                return line.map_err(|error| Error::failed("cannot read the answer").caused_by(error));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::failed("cannot read the answer")),
        }
    }
}

/// Aligns columns, with two spaces between them and no trailing spaces.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<_> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| pad_str(cell, *width, console::Alignment::Left, None))
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let rows = vec![vec!["a".into(), "b".into()], vec!["long".into(), String::new()]];
        assert_eq!(table(&rows), "a     b\nlong\n");
    }
}
