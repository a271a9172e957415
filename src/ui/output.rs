//! The two streams: data to standard output, everything else to standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use console::Style;

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
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    color_out: bool,
    color_err: bool,
    quiet: bool,
}

impl Ui {
    /// From the global flags.
    pub fn new(color: Color, quiet: bool) -> Self {
        let wanted = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Ui {
            color_out: wanted(io::stdout().is_terminal()),
            color_err: wanted(io::stderr().is_terminal()),
            quiet,
        }
    }

    /// Data, on standard output.
    pub fn print(&self, text: &str) -> Result<()> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Data that is written piece by piece. A reader that has gone away is nobody's error.
    pub fn write(&self, body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut out = io::stdout().lock();
        match body(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Error::failed("cannot write to standard output").caused_by(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Whether standard output takes colours.
    pub fn colors_output(&self) -> bool {
        self.color_out
    }

    /// Something people may want to know.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// Lines for the program that reads the log: commands of a CI runner. Not for people, so `--quiet` does not matter.
    pub fn command(&self, lines: &str) {
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }

    /// Something people have to know.
    pub fn warn(&self, text: &str) {
        let word = self.styled("warning:", Style::new().yellow().bold());
        self.say(&format!("{word} {text}"));
    }

    /// An error: what, where, why, and what to do next.
    pub fn error(&self, error: &Error) {
        let word = self.styled("error:", Style::new().red().bold());
        let mut text = format!("{word} {error}");
        for line in error.detail_lines() {
            text.push_str("\n  ");
            text.push_str(line);
        }
        if let Some(hint) = error.hint_text() {
            let word = self.styled("hint:", Style::new().cyan());
            text.push_str(&format!("\n  {word} {hint}"));
        }
        self.say(&text);
    }

    /// Asks a yes-or-no question, on a terminal; elsewhere the answer is yes.
    pub fn confirm(&self, question: &str) -> Result<bool> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(true);
        }
        let answer = ask(&format!("{question} [Y/n] "))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") && !answer.is_empty())
    }

    /// The same for what cannot be undone: only a clear yes is one, and whoever asks makes sure that there is a terminal.
    pub fn confirm_loss(&self, question: &str) -> Result<bool> {
        let answer = ask(&format!("{question} [y/N] "))?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// A bar for work that takes long, on a terminal.
    pub fn progress(&self) -> Bar {
        Bar::new(!self.quiet && io::stderr().is_terminal())
    }

    /// Whether people asked not to be told everything.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether standard error takes colours.
    pub fn colors_messages(&self) -> bool {
        self.color_err
    }

    fn styled(&self, text: &str, style: Style) -> String {
        style.for_stderr().force_styling(self.color_err).apply_to(text).to_string()
    }

    fn say(&self, text: &str) {
        // There are names of files and words of other programs in it.
        let text = match in_actions() {
            true => Cow::Owned(text.split('\n').map(escape_command).collect::<Vec<_>>().join("\n")),
            false => Cow::Borrowed(text),
        };
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}
/// A line from the terminal; Ctrl-C is an answer, too.
fn ask(question: &str) -> Result<String> {
    let _ = write!(io::stderr().lock(), "{question}");
    let (heard, answer) = mpsc::channel();
    // A read goes on after a signal. Whoever is interrupted does not wait for this thread.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = heard.send(io::stdin().read_line(&mut line).map(|_| line));
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
