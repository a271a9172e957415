//! The one error type: what failed, on what, why, and what to do next.
//!
//! Errors are written beside the code that raises them and rendered in one place
//! ([`crate::ui`]). The [`ErrorKind`] decides the exit code, so the table of exit codes
//! is [`ErrorKind::exit_code`] and nothing else.

use std::fmt;
use std::io;
use std::path::Path;

/// The result of everything that can fail in decree.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure this is; one exit code each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked for could not be done: the tree has moved on, or the system said no.
    Failed,
    /// The command line does not make sense.
    Usage,
    /// Not a decree project, or a bad config, spec, message or id.
    Project,
    /// A checkpoint or a revert is not, or would not be, what it has to be.
    Integrity,
    /// Another decree is working in this project.
    Locked,
    /// A signal asked us to stop.
    Interrupted {
        /// Which one.
        signal: u8,
    },
}

impl ErrorKind {
    /// The exit code that a user's script sees. Most of wrong usage is clap's to tell.
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
}

/// An error with its details, hint and cause. Boxed, so that a `Result` stays small.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of the given kind; the message names what failed and on what.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            details: Vec::new(),
            hint: None,
            source: None,
        }))
    }

    /// [`ErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// [`ErrorKind::Project`].
    pub fn project(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Project, message)
    }

    /// [`ErrorKind::Integrity`].
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Integrity, message)
    }

    /// Adds a line below the message.
    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.0.details.push(line.into());
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

    /// Says what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Names the cause.
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error, as another kind: the caller knows what is at stake.
    pub fn into_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The lines below the message.
    pub fn detail_lines(&self) -> &[String] {
        &self.0.details
    }

    /// What to do next, if the error knows.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The operating system's error behind this one, if that is the cause.
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
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

/// Says what was being done, and to which path, when the system refused.
pub trait IoContext<T> {
    /// `fs::read(p).at("read", p)` reads "cannot read p: Permission denied".
    fn at(self, verb: &str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, verb: &str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| {
            // An error of our own that had to pass through somebody else's code knows best.
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
