//! Rebuilding one side of a file from the other side and the diff: exactly, or not at all.
//!
//! A hunk has to be at its exact line and match to the byte; unlike `patch`, this does not search nearby. The caller checks the
//! result against the hash in the diff before it uses it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

use super::binary::{ContentLines, LINE_BYTES, MAX_LINE, decode_line, zeros_in_line};
use super::notes::NO_NEWLINE;
use super::parse::{Hunk, Recipe};
use crate::checkpoint::path::TreePath;
use crate::error::{Error, FailureReason, IoContext};
use crate::fs::sparse::ZEROS;
use crate::interrupt;

/// Which side of a diff is rebuilt from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From before to after.
    Forward,
    /// From after to before.
    Backward,
}

/// Why a content could not be rebuilt.
#[derive(Debug)]
pub enum RebuildError {
    /// The source or the diff does not have what a hunk expects.
    Mismatch(&'static str),
    /// A file could not be read or written.
    Io(io::Error),
}

type Result<T> = std::result::Result<T, RebuildError>;

impl From<io::Error> for RebuildError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => RebuildError::Mismatch("the diff ends too early"),
            _ => RebuildError::Io(error),
        }
    }
}

impl RebuildError {
    /// The error for the user, where `verb` says what was being done with `path`.
    pub fn into_error(self, verb: &str, path: &TreePath) -> Error {
        let rejected = || Error::integrity(format!("{path} cannot be rebuilt from the diff"));
        let error = match self {
            RebuildError::Mismatch(why) => return rejected().caused_by(why),
            RebuildError::Io(error) => {
                Err::<(), _>(error).at(verb, path.as_path()).expect_err("it is an error")
            }
        };
        if error.is(FailureReason::ChangedWhileRead) { rejected().caused_by(error) } else { error }
    }
}

/// Writes the content that `recipe` describes to `out`. `source` is the other side's content, `patch` the diff.
pub fn rebuild(
    recipe: &Recipe,
    direction: Direction,
    patch: &File,
    source: &mut dyn Read,
    out: &mut impl Write,
) -> Result<()> {
    match recipe {
        Recipe::Nothing => Ok(()),
        Recipe::Same => Ok(io::copy(source, out).map(drop)?),
        Recipe::Hunks(hunks) => apply(hunks, direction, patch, &mut BufReader::new(source), out),
        Recipe::FromNothing(hunks) => apply(hunks, direction, patch, &mut io::empty(), out),
        Recipe::Lines { offset, size } => decode(patch, *offset, *size, out),
    }
}

fn apply(
    hunks: &[Hunk],
    direction: Direction,
    patch: &File,
    source: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<()> {
    let mut passed = 0;
    for hunk in hunks {
        let (skipped, lines) = match direction {
            Direction::Forward => (hunk.old_skipped, hunk.old_lines),
            Direction::Backward => (hunk.new_skipped, hunk.new_lines),
        };
        let between = skipped.checked_sub(passed).ok_or(RebuildError::Mismatch("hunks out of order"))?;
        copy_lines(source, out, between)?;
        let body = ReadFrom { file: patch, position: hunk.offset };
        apply_hunk(hunk, direction, &mut BufReader::new(body), source, out)?;
        passed = skipped + lines;
    }
    Ok(io::copy(source, out).map(drop)?)
}

fn apply_hunk(
    hunk: &Hunk,
    direction: Direction,
    body: &mut impl BufRead,
    source: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<()> {
    let (mut old, mut new) = (hunk.old_lines, hunk.new_lines);
    while old > 0 || new > 0 {
        let mut sign = [0];
        body.read_exact(&mut sign)?;
        let (takes, gives) = match (sign[0], direction) {
            (b' ', _) => (true, true),
            (b'-', Direction::Forward) | (b'+', Direction::Backward) => (true, false),
            (b'-', Direction::Backward) | (b'+', Direction::Forward) => (false, true),
            _ => return Err(RebuildError::Mismatch("a hunk line without a sign")),
        };
        old -= u64::from(sign[0] != b'+');
        new -= u64::from(sign[0] != b'-');
        each_piece(body, |piece| {
            if takes {
                expect(source, piece)?;
            }
            if gives {
                out.write_all(piece)?;
            }
            Ok(())
        })?;
        let newline: &[u8] = if take_marker(body)? { b"" } else { b"\n" };
        if takes {
            expect(source, newline)?;
        }
        if gives {
            out.write_all(newline)?;
        }
    }
    Ok(())
}

/// Calls `take` with the rest of a line, without its newline, in pieces: a line may be of any length.
fn each_piece(body: &mut impl BufRead, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    loop {
        let buffer = body.fill_buf()?;
        if buffer.is_empty() {
            return Err(RebuildError::Mismatch("the diff ends too early"));
        }
        let newline = memchr::memchr(b'\n', buffer);
        take(&buffer[..newline.unwrap_or(buffer.len())])?;
        let n = newline.map_or(buffer.len(), |newline| newline + 1);
        body.consume(n);
        if newline.is_some() {
            return Ok(());
        }
    }
}

/// Consumes the marker that the line just read has no newline, and returns whether there was one.
fn take_marker(body: &mut impl BufRead) -> Result<bool> {
    if body.fill_buf()?.first() != Some(&b'\\') {
        return Ok(false);
    }
    let mut marker = vec![0; NO_NEWLINE.len()];
    body.read_exact(&mut marker)?;
    Ok(true)
}

/// Consumes exactly these bytes from the source, or fails.
fn expect(source: &mut impl BufRead, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let buffer = source.fill_buf()?;
        let n = buffer.len().min(bytes.len());
        if n == 0 || buffer[..n] != bytes[..n] {
            return Err(RebuildError::Mismatch("the file is not what the diff was made from"));
        }
        source.consume(n);
        bytes = &bytes[n..];
    }
    Ok(())
}

fn copy_lines(source: &mut impl BufRead, out: &mut impl Write, count: u64) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Err(RebuildError::Mismatch("the file has fewer lines than the diff says"));
        }
        let newline = memchr::memchr(b'\n', buffer);
        let n = newline.map_or(buffer.len(), |newline| newline + 1);
        out.write_all(&buffer[..n])?;
        source.consume(n);
        left -= u64::from(newline.is_some());
    }
    Ok(())
}

/// Writes the content of a binary block's lines, never more than its recorded size.
fn decode(patch: &File, offset: u64, size: u64, out: &mut impl Write) -> Result<()> {
    const INVALID: RebuildError = RebuildError::Mismatch("a binary block with an invalid line");
    let body = ReadFrom { file: patch, position: offset };
    let mut body = BufReader::with_capacity(LINE_BYTES * 1024, body);
    let mut lines = ContentLines::of_size(size);
    let mut line = Vec::with_capacity(MAX_LINE + 1);
    while !lines.is_complete() {
        line.clear();
        (&mut body).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        let text = line.strip_suffix(b"\n").ok_or(INVALID)?;
        lines.take(text).ok_or(INVALID)?;
        match zeros_in_line(text) {
            Some(count) => write_zeros(out, count)?,
            None => out.write_all(&decode_line(text).ok_or(INVALID)?)?,
        }
    }
    Ok(())
}

/// There may be so many that a signal has to end it.
fn write_zeros(out: &mut impl Write, count: u64) -> Result<()> {
    let mut left = count;
    while left > 0 {
        interrupt::check().map_err(io::Error::other)?;
        let piece = left.min(ZEROS.len() as u64) as usize;
        out.write_all(&ZEROS[..piece])?;
        left -= piece as u64;
    }
    Ok(())
}

/// Reads the diff from an offset, without the file position that several threads share.
struct ReadFrom<'f> {
    file: &'f File,
    position: u64,
}

impl Read for ReadFrom<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(out, self.position)?;
        self.position += n as u64;
        Ok(n)
    }
}
