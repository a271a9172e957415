//! The error of a file that a person or a routine wrote.

use std::fmt;

use crate::error::Error;

/// What is wrong with a text, in which line, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub line: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl Mistake {
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Mistake { line, message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the line of the first byte that is not UTF-8.
    pub fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> Self {
        let before = &bytes[..error.valid_up_to()];
        Mistake::new(memchr::memchr_iter(b'\n', before).count() + 1, "not UTF-8")
    }

    /// The error for the user: `file:line: message`.
    pub fn in_file(self, file: impl fmt::Display) -> Error {
        let error = Error::project(format!("{file}:{}: {}", self.line, self.message));
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}
