//! Making one side of a file out of the other and the diff: exactly, or not at all.
//!
//! A hunk has to stand at its very line and match to the byte; there is no searching around. What
//! comes out has to have the hash that the diff claims, or the caller never uses it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

use super::binary::{self, LINE_LEN};
use super::notes::NO_NEWLINE;
use super::parse::{Hunk, Recipe};

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From before to after.
    Forth,
    /// From after to before.
    Back,
}

/// Writes the content that `recipe` makes to `out`. `source` is the other side's content, `patch` the diff.
pub fn rebuild(
    recipe: &Recipe,
    direction: Direction,
    patch: &File,
    source: &mut dyn Read,
    out: &mut impl Write,
) -> io::Result<()> {
    match recipe {
        Recipe::Nothing => Ok(()),
        Recipe::Same => io::copy(source, out).map(drop),
        Recipe::Hunks(hunks) => apply(hunks, direction, patch, &mut BufReader::new(source), out),
        Recipe::FromNothing(hunks) => apply(hunks, direction, patch, &mut io::empty(), out),
        Recipe::Base64 { offset, size } => decode(patch, *offset, *size, out),
    }
}

fn apply(
    hunks: &[Hunk],
    direction: Direction,
    patch: &File,
    source: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut passed = 0;
    for hunk in hunks {
        let (skipped, lines) = match direction {
            Direction::Forth => (hunk.old_skipped, hunk.old_lines),
            Direction::Back => (hunk.new_skipped, hunk.new_lines),
        };
        let between = skipped.checked_sub(passed).ok_or_else(|| mismatch("hunks out of order"))?;
        copy_lines(source, out, between)?;
        let body = ReadFrom { file: patch, position: hunk.offset };
        apply_hunk(hunk, direction, &mut BufReader::new(body), source, out)?;
        passed = skipped + lines;
    }
    io::copy(source, out).map(drop)
}

fn apply_hunk(
    hunk: &Hunk,
    direction: Direction,
    body: &mut impl BufRead,
    source: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<()> {
    let (mut old, mut new) = (hunk.old_lines, hunk.new_lines);
    while old > 0 || new > 0 {
        let mut sign = [0];
        body.read_exact(&mut sign)?;
        let (takes, gives) = match (sign[0], direction) {
            (b' ', _) => (true, true),
            (b'-', Direction::Forth) | (b'+', Direction::Back) => (true, false),
            (b'-', Direction::Back) | (b'+', Direction::Forth) => (false, true),
            _ => return Err(mismatch("a hunk that makes no sense")),
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

/// Hands over the rest of a line, without its newline, piece by piece.
fn each_piece(body: &mut impl BufRead, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    loop {
        let buffer = body.fill_buf()?;
        if buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
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

/// Whether the line just read has no newline of its own; takes the marker that says so.
fn take_marker(body: &mut impl BufRead) -> io::Result<bool> {
    if body.fill_buf()?.first() != Some(&b'\\') {
        return Ok(false);
    }
    let mut marker = vec![0; NO_NEWLINE.len()];
    body.read_exact(&mut marker)?;
    Ok(true)
}

/// The source has to go on with exactly these bytes.
fn expect(source: &mut impl BufRead, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let buffer = source.fill_buf()?;
        let n = buffer.len().min(bytes.len());
        if n == 0 || buffer[..n] != bytes[..n] {
            return Err(mismatch("the file is not what the diff was made from"));
        }
        source.consume(n);
        bytes = &bytes[n..];
    }
    Ok(())
}

fn copy_lines(source: &mut impl BufRead, out: &mut impl Write, count: u64) -> io::Result<()> {
    let mut left = count;
    while left > 0 {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Err(mismatch("the file has fewer lines than the diff says"));
        }
        let newline = memchr::memchr(b'\n', buffer);
        let n = newline.map_or(buffer.len(), |newline| newline + 1);
        out.write_all(&buffer[..n])?;
        source.consume(n);
        left -= u64::from(newline.is_some());
    }
    Ok(())
}

fn decode(patch: &File, offset: u64, size: u64, out: &mut impl Write) -> io::Result<()> {
    let body = ReadFrom { file: patch, position: offset };
    let mut body = BufReader::with_capacity(LINE_LEN * 1024, body).take(binary::encoded_len(size));
    let mut line = Vec::with_capacity(LINE_LEN);
    loop {
        line.clear();
        if body.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let bytes = line
            .strip_suffix(b"\n")
            .and_then(binary::decode_line)
            .ok_or_else(|| mismatch("a binary block that is not base64"))?;
        out.write_all(&bytes)?;
    }
}

/// The diff from some place on, without moving a file position that threads may share.
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

fn mismatch(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
