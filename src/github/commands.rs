//! Workflow commands: log lines that GitHub's runner executes. Every value in them is escaped, so that no text can become
//! another command.

use crate::sanitize::{strip_controls, truncate};

/// The longest annotation; the runner truncates the rest.
const LONGEST: usize = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

/// A log line that GitHub also shows on the run's page, and in the diff view if it names a file.
pub fn annotation(level: Level, title: &str, file: Option<&str>, message: &str) -> String {
    let word = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let file = file.map(|file| format!("file={},", property(file))).unwrap_or_default();
    let message = strip_controls(message);
    format!(
        "::{word} {file}title={}::{}\n",
        property(&strip_controls(title)),
        data(truncate(&message, LONGEST))
    )
}

/// Starts a group of lines that the log folds under a title, in which the runner ignores commands until [`end_group`] names the
/// same token.
pub fn group(title: &str, token: &str) -> String {
    format!("::group::{}\n::stop-commands::{token}\n", data(&strip_controls(title)))
}

pub fn end_group(token: &str) -> String {
    format!("::{token}::\n::endgroup::\n")
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_command_or_a_property() {
        let line = annotation(
            Level::Error,
            "a: b, c%\n::set-output",
            Some("specs/a,line=1:x.spec.md"),
            "50%\r\n::error::forged",
        );
        assert_eq!(
            line,
            "::error file=specs/a%2Cline=1%3Ax.spec.md,title=a%3A b%2C c%25%0A%3A%3Aset-output::50%25%0A::error::forged\n"
        );
        assert_eq!(group("x\n::error::y", "t"), "::group::x%0A::error::y\n::stop-commands::t\n");
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let line = annotation(Level::Notice, "t", None, &"ä".repeat(10_000));
        assert!(line.chars().count() < 4_096);
        assert!(line.starts_with("::notice title=t::ä") && line.ends_with("ä\n"));
    }
}
