//! Reading a diff once, front to back, without ever holding more than a header line of it.

use std::io::{self, BufRead};

use super::notes::NO_NEWLINE;
use crate::checkpoint::hash::{ContentHash, Hasher};

/// A header line is never longer: a path has at most 4,096 bytes, quoted four times that.
const MAX_HEADER: usize = 64 * 1024;

/// A place in the diff where something is wrong.
#[derive(Debug)]
pub enum Trouble {
    /// The file could not be read.
    Io(io::Error),
    /// Its end came too early.
    Truncated,
    /// It says something it cannot say.
    Wrong(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Io(error)
    }
}

/// A line with what stood before it.
pub struct Line {
    /// Without its newline.
    pub text: Vec<u8>,
    /// Of everything before it.
    pub hash_before: ContentHash,
}

/// A diff that is being read.
pub struct Scanner<R> {
    input: R,
    hasher: Hasher,
    /// How far it has been read.
    pub position: u64,
    /// Which line that is in, from 1.
    pub line: u64,
    pending: Option<Line>,
}

impl<R: BufRead> Scanner<R> {
    /// From the start.
    pub fn new(input: R) -> Self {
        Scanner { input, hasher: Hasher::new(), position: 0, line: 0, pending: None }
    }

    /// The next header line; `None` at the end.
    pub fn next_line(&mut self) -> Result<Option<Line>, Trouble> {
        if let Some(line) = self.pending.take() {
            return Ok(Some(line));
        }
        let hash_before = self.hasher.clone().finish().0;
        let mut text = Vec::new();
        while text.last() != Some(&b'\n') {
            if text.len() > MAX_HEADER {
                return Err(Trouble::Wrong("a header line that is far too long".to_owned()));
            }
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return if text.is_empty() { Ok(None) } else { Err(Trouble::Truncated) };
            }
            let n = memchr::memchr(b'\n', buffer).map_or(buffer.len(), |newline| newline + 1);
            text.extend_from_slice(&buffer[..n]);
            self.consume(n);
        }
        text.pop();
        self.line += 1;
        Ok(Some(Line { text, hash_before }))
    }

    /// The next header line, which has to be there.
    pub fn require_line(&mut self) -> Result<Line, Trouble> {
        self.next_line()?.ok_or(Trouble::Truncated)
    }

    /// Puts a line back; only the one read last, and only one.
    pub fn put_back(&mut self, line: Line) {
        self.pending = Some(line);
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: u64) -> Result<(), Trouble> {
        debug_assert!(self.pending.is_none());
        let mut left = count;
        while left > 0 {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Trouble::Truncated);
            }
            let n = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.line += memchr::memchr_iter(b'\n', &buffer[..n]).count() as u64;
            self.consume(n);
            left -= n as u64;
        }
        Ok(())
    }

    /// Passes over a hunk's lines: so many of the old side, so many of the new.
    pub fn skip_hunk(&mut self, mut old: u64, mut new: u64) -> Result<(), Trouble> {
        debug_assert!(self.pending.is_none());
        let mut open_end = true;
        while old > 0 || new > 0 || open_end {
            let Some(sign) = self.peek()? else {
                return if old > 0 || new > 0 { Err(Trouble::Truncated) } else { Ok(()) };
            };
            match sign {
                b' ' if old > 0 && new > 0 => (old, new) = (old - 1, new - 1),
                b'-' if old > 0 => old -= 1,
                b'+' if new > 0 => new -= 1,
                b'\\' => {
                    let line = self.require_line()?;
                    if line.text != NO_NEWLINE.trim_end().as_bytes() {
                        return Err(Trouble::Wrong("a line that begins with a backslash".to_owned()));
                    }
                    continue;
                }
                _ if old == 0 && new == 0 => {
                    open_end = false;
                    continue;
                }
                _ => return Err(Trouble::Wrong("a hunk with other lines than its header says".to_owned())),
            }
            self.skip_line()?;
        }
        Ok(())
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn skip_line(&mut self) -> Result<(), Trouble> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Err(Trouble::Truncated);
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

    /// Takes `n` bytes of the buffer as read.
    fn consume(&mut self, n: usize) {
        // The buffer is full already, so this cannot fail or block.
        if let Ok(buffer) = self.input.fill_buf() {
            self.hasher.update(&buffer[..n]);
        }
        self.input.consume(n);
        self.position += n as u64;
    }
}
