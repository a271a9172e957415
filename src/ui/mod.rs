//! What people see. Data goes to standard output, everything else to standard error; colours and bars
//! appear on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use console::{Style, measure_text_width, pad_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::checkpoint::progress::Progress;
use crate::error::{Error, Result};

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

    /// A bar for work that takes long, on a terminal.
    pub fn progress(&self) -> Bar {
        Bar { shown: !self.quiet && io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    fn styled(&self, text: &str, style: Style) -> String {
        style.for_stderr().force_styling(self.color_err).apply_to(text).to_string()
    }

    fn say(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// A progress bar that appears only if the work takes a while.
pub struct Bar {
    shown: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress for Bar {
    fn begin(&self, what: &str, total: u64) {
        if !self.shown || total < 2000 {
            return;
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {human_pos} of {human_len} files  {eta}")
            .expect("the template is fixed")
            .progress_chars("━╸ ");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10))
            .with_style(style)
            .with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        *self.bar.lock().expect("drawing does not panic") = Some(bar);
    }

    fn advance(&self, steps: u64) {
        if let Some(bar) = &*self.bar.lock().expect("drawing does not panic") {
            bar.inc(steps);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.lock().expect("drawing does not panic").take() {
            bar.finish_and_clear();
        }
    }
}

/// Columns that line up, two blanks between them, none at the end of a line.
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

/// `78,622`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1.3 GB`.
pub fn bytes(number: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if number < 1000 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value < 10.0 {
        true => format!("{value:.1} {}", units[unit]),
        false => format!("{value:.0} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_290_000_000), "1.3 GB");
        assert_eq!(bytes(999_600), "1.0 MB");
    }

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_blanks() {
        let rows = vec![vec!["a".into(), "b".into()], vec!["long".into(), String::new()]];
        assert_eq!(table(&rows), "a     b\nlong\n");
    }
}
