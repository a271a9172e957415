//! The one error type: what failed, on what, why, and what to do next.
//!
//! Errors are written beside the code that raises them and rendered in one place
//! ([`crate::ui`]). The [`ErrorKind`] decides the exit code, so the table of exit codes
//! is [`ErrorKind::exit_code`] and nothing else.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// The result of everything that can fail in decree.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The sort of failure; each has its own exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command could not be carried out: the tree has changed since, or the OS refused.
    Failed,
    /// The command line is invalid.
    Usage,
    /// Not a decree project, or a bad config, spec, message or id.
    Project,
    /// A checkpoint or a revert is not, or would not be, what it has to be.
    Integrity,
    /// Another decree process is working in this project.
    Locked,
    /// A signal asked decree to stop.
    Interrupted { signal: u8 },
}

impl ErrorKind {
    /// The exit code that a user's script sees. clap itself reports most of wrong usage, with the same code.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Project => 3,
            ErrorKind::Integrity => 4,
            ErrorKind::Locked => 5,
            ErrorKind::Interrupted { signal } => 128 + signal,
        }
    }

    /// The word that answers to programs use.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Failed => "failed",
            ErrorKind::Usage => "usage",
            ErrorKind::Project => "project",
            ErrorKind::Integrity => "integrity",
            ErrorKind::Locked => "locked",
            ErrorKind::Interrupted { .. } => "interrupted",
        }
    }
}

/// A failure that some caller handles, instead of only reporting it. The kind and the message are for the user; this is for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
    /// Another process wrote to a file while it was read, so the caller may compare the tree again and retry.
    ChangedWhileRead,
    /// The tree is not what a diff expects, so nothing was touched.
    Conflict,
    /// The store lacks content that a restore needs, so only a part can be restored.
    ContentLost,
}

/// An error with its details, hint and cause. Boxed, so that a `Result` stays small.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    reason: Option<FailureReason>,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
    answered: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of the given kind; the message names what failed and on what.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            reason: None,
            message: message.into(),
            details: Vec::new(),
            hint: None,
            answered: false,
            source: None,
        }))
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    pub fn project(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Project, message)
    }

    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Integrity, message)
    }

    /// A file of decree's own that is not what decree wrote.
    pub fn damaged(path: &Path, why: impl fmt::Display) -> Self {
        Self::integrity(format!("{} is damaged: {why}", path.display())).detail("nothing was touched")
    }

    /// Adds a line below the message.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.0.details.push(line.into());
        self
    }

    /// Drops a detail that is no longer true.
    pub fn without_detail(mut self, line: &str) -> Self {
        self.0.details.retain(|detail| detail != line);
        self
    }

    /// Adds lines below the message, at most `limit` of them, then how many more there are.
    pub fn details<T: Into<String>>(mut self, lines: Vec<T>, limit: usize) -> Self {
        let more = lines.len().saturating_sub(limit);
        self.0.details.extend(lines.into_iter().take(limit).map(Into::into));
        if more > 0 {
            self.0.details.push(format!("… and {more} more"));
        }
        self
    }

    /// Sets the line that says what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Marks the error as one that a caller recognises by [`Error::is`].
    pub fn because(mut self, reason: FailureReason) -> Self {
        self.0.reason = Some(reason);
        self
    }

    /// Appends an underlying error to the message.
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Changes the kind, for a caller to which the failure means something else than to the code that raised it.
    pub fn into_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The same error for a command that goes back: if the disk is full, the tree is not what it has to be.
    pub fn if_not_restored(self) -> Self {
        let full = matches!(self.io_kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
        if full && self.kind() == ErrorKind::Failed { self.into_kind(ErrorKind::Integrity) } else { self }
    }

    /// Marks an error that the command's own answer on standard output contains, so that it is not answered twice.
    pub fn answered(mut self) -> Self {
        self.0.answered = true;
        self
    }

    pub fn is_answered(&self) -> bool {
        self.0.answered
    }

    /// The error as answers to programs have it.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": self.kind().word(),
            "message": self.to_string(),
            "details": self.detail_lines(),
            "hint": self.hint_text(),
        })
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether this is the failure that [`Error::because`] named.
    pub fn is(&self, reason: FailureReason) -> bool {
        self.0.reason == Some(reason)
    }

    /// The lines below the message.
    pub fn detail_lines(&self) -> &[String] {
        &self.0.details
    }

    /// What to do next, if the error knows.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The kind of the OS error that caused this one, if one did.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.0.source.as_ref()?.downcast_ref::<io::Error>().map(io::Error::kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Adds to an OS error what was being done, and to which path.
pub trait IoContext<T> {
    /// `fs::read(p).at("read", p)` reads "cannot read p: Permission denied".
    fn at(self, verb: &str, path: impl AsRef<Path>) -> Result<T>;

    /// A missing file or directory as `None`.
    fn if_exists(self) -> io::Result<Option<T>>;

    /// Whether it was done; `false` if something has the name already.
    fn unless_exists(self) -> io::Result<bool>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, verb: &str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| {
            // An `Error` that passed through code which knows only `io::Error` names its own path and cause.
            let error = match error.into().downcast::<Error>() {
                Ok(own) => return own,
                Err(error) => error,
            };
            let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let failure =
                Error::failed(format!("cannot {verb} {}", path.as_ref().display())).caused_by(error);
            if full { failure.hint("free some disk space, then run the same command again") } else { failure }
        })
    }

    fn if_exists(self) -> io::Result<Option<T>> {
        match self.map_err(Into::into) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result.map(Some),
        }
    }

    fn unless_exists(self) -> io::Result<bool> {
        match self.map_err(Into::into) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|_| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_one_sentence_with_its_causes() {
        let error = std::fs::read("/nowhere/at/all")
            .at("read", "/nowhere/at/all")
            .expect_err("the path does not exist");
        let text = error.to_string();
        assert!(text.starts_with("cannot read /nowhere/at/all: "), "{text}");
        assert_eq!(error.kind().exit_code(), 1);
        assert_eq!(error.io_kind(), Some(io::ErrorKind::NotFound));
    }

    #[test]
    fn long_detail_lists_are_cut_and_counted() {
        let error = Error::failed("x").details(vec!["a", "b", "c"], 2);
        assert_eq!(error.detail_lines(), ["a", "b", "… and 1 more"]);
    }
}
