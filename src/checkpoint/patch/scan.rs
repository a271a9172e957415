//! Reading a diff once from start to end, with at most one header line of it in memory.

use std::io::{self, BufRead};

use super::notes::NO_NEWLINE;
use crate::checkpoint::hash::{ContentHash, Hasher};

/// No header line is longer: a path has at most 4,096 bytes, and four times that when quoted; an extended attribute at most 64 KiB.
const MAX_HEADER: usize = 16 * 1024 * 1024;

/// Why a diff is rejected.
#[derive(Debug)]
pub enum ParseError {
    Io(io::Error),
    /// The end of the file came before the last line of the diff.
    Truncated,
    /// A line that a diff cannot have there, with the reason.
    Wrong(String),
}

pub fn wrong(why: &str) -> ParseError {
    ParseError::Wrong(why.to_owned())
}

impl From<io::Error> for ParseError {
    fn from(error: io::Error) -> Self {
        ParseError::Io(error)
    }
}

/// A header line, and the hash of all of the diff before it.
pub struct Line {
    /// The line without its newline.
    pub text: Vec<u8>,
    pub hash_before: ContentHash,
}

/// A diff and how far it was read.
pub struct Scanner<R> {
    input: R,
    hasher: Hasher,
    /// The offset of the next byte.
    pub position: u64,
    /// The number of lines that were read.
    pub line: u64,
    pending: Option<Line>,
}

impl<R: BufRead> Scanner<R> {
    pub fn new(input: R) -> Self {
        Scanner { input, hasher: Hasher::new(), position: 0, line: 0, pending: None }
    }

    /// Reads the next header line; `None` at the end.
    pub fn next_line(&mut self) -> Result<Option<Line>, ParseError> {
        if let Some(line) = self.pending.take() {
            return Ok(Some(line));
        }
        let hash_before = self.hasher.clone().finish().0;
        let mut text = Vec::new();
        while text.last() != Some(&b'\n') {
            if text.len() > MAX_HEADER {
                return Err(wrong("a header line that is far too long"));
            }
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return if text.is_empty() { Ok(None) } else { Err(ParseError::Truncated) };
            }
            let n = memchr::memchr(b'\n', buffer).map_or(buffer.len(), |newline| newline + 1);
            text.extend_from_slice(&buffer[..n]);
            self.consume(n);
        }
        text.pop();
        self.line += 1;
        Ok(Some(Line { text, hash_before }))
    }

    /// Reads the next header line, or fails at the end.
    pub fn require_line(&mut self) -> Result<Line, ParseError> {
        self.next_line()?.ok_or(ParseError::Truncated)
    }

    /// Makes [`Scanner::next_line`] return the line that was read last once more.
    pub fn unread(&mut self, line: Line) {
        self.pending = Some(line);
    }

    /// Reads the next line into `text`, without its newline, or fails if it is longer than `longest`. Unlike [`Scanner::next_line`], this
    /// is fast enough for the millions of lines of a large content.
    pub fn read_short_line(&mut self, text: &mut Vec<u8>, longest: usize) -> Result<(), ParseError> {
        debug_assert!(self.pending.is_none());
        text.clear();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(ParseError::Truncated);
            }
            let searched = &buffer[..buffer.len().min(longest + 1 - text.len())];
            let newline = memchr::memchr(b'\n', searched);
            text.extend_from_slice(&searched[..newline.unwrap_or(searched.len())]);
            let n = newline.map_or(searched.len(), |newline| newline + 1);
            self.consume(n);
            if newline.is_some() {
                self.line += 1;
                return Ok(());
            }
            if text.len() > longest {
                return Err(wrong("a line of a binary block that is too long"));
            }
        }
    }

    /// Skips the lines of a hunk, given how many it has of the old side and of the new.
    pub fn skip_hunk(&mut self, mut old: u64, mut new: u64) -> Result<(), ParseError> {
        debug_assert!(self.pending.is_none());
        let mut may_have_marker = true;
        while old > 0 || new > 0 || may_have_marker {
            let Some(sign) = self.peek()? else {
                return if old > 0 || new > 0 { Err(ParseError::Truncated) } else { Ok(()) };
            };
            match sign {
                b' ' if old > 0 && new > 0 => (old, new) = (old - 1, new - 1),
                b'-' if old > 0 => old -= 1,
                b'+' if new > 0 => new -= 1,
                b'\\' => {
                    let line = self.require_line()?;
                    if line.text != NO_NEWLINE.trim_end().as_bytes() {
                        return Err(wrong("a line that begins with a backslash and is no marker"));
                    }
                    continue;
                }
                _ if old == 0 && new == 0 => {
                    may_have_marker = false;
                    continue;
                }
                _ => return Err(wrong("a hunk whose lines do not match its header")),
            }
            self.skip_line()?;
        }
        Ok(())
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn skip_line(&mut self) -> Result<(), ParseError> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(ParseError::Truncated);
            }
            let newline = memchr::memchr(b'\n', buffer);
            let n = newline.map_or(buffer.len(), |newline| newline + 1);
            self.consume(n);
            if newline.is_some() {
                self.line += 1;
                return Ok(());
            }
        }
    }

    /// Consumes and hashes `n` bytes of the buffer.
    fn consume(&mut self, n: usize) {
        // The buffer is filled already, so this does not read.
        if let Ok(buffer) = self.input.fill_buf() {
            self.hasher.update(&buffer[..n]);
        }
        self.input.consume(n);
        self.position += n as u64;
    }
}
