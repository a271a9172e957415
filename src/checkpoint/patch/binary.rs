//! The contents of a binary block: base64 in comment lines, and one line for each long run of zeros.

use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::notes::BASE64_LINE;
use crate::fs::atomic::fill;
use crate::fs::sparse::{BLOCK, LONG_RUN, is_zero_block};

/// The number of content bytes in a full line.
pub const LINE_BYTES: usize = BASE64_LINE / 4 * 3;
/// What a line begins with that stands for zeros.
const ZEROS: &str = "# zeros ";
/// No line is longer, without its newline: a full one has 78 bytes, and no number of zeros takes more.
pub const MAX_LINE: usize = 2 + BASE64_LINE;

/// Writes a content as comment lines; returns the size of the content.
pub fn encode(out: &mut impl Write, content: &mut impl Read) -> io::Result<u64> {
    let mut raw = vec![0; 16 * BLOCK];
    let mut lines = LineWriter { out, rest: Vec::with_capacity(LINE_BYTES), text: String::new(), zeros: 0 };
    let mut size = 0;
    loop {
        let filled = fill(content, &mut raw)?;
        size += filled as u64;
        for block in raw[..filled].chunks(BLOCK) {
            if is_zero_block(block) {
                lines.zeros += BLOCK as u64;
            } else {
                lines.end_zeros()?;
                lines.bytes(block)?;
            }
        }
        if filled < raw.len() {
            lines.end_zeros()?;
            lines.end_bytes()?;
            return Ok(size);
        }
    }
}

struct LineWriter<W> {
    out: W,
    /// Bytes that do not fill a line yet.
    rest: Vec<u8>,
    text: String,
    /// Zeros whose line is not written yet.
    zeros: u64,
}

impl<W: Write> LineWriter<W> {
    fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.rest.is_empty() {
            let taken = bytes.len().min(LINE_BYTES - self.rest.len());
            self.rest.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.rest.len() == LINE_BYTES {
                self.end_bytes()?;
            }
        }
        let mut lines = bytes.chunks_exact(LINE_BYTES);
        for line in &mut lines {
            self.line(line)?;
        }
        self.rest.extend_from_slice(lines.remainder());
        Ok(())
    }

    fn end_bytes(&mut self) -> io::Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let rest = std::mem::take(&mut self.rest);
        self.line(&rest)?;
        self.rest = rest;
        self.rest.clear();
        Ok(())
    }

    fn end_zeros(&mut self) -> io::Result<()> {
        let zeros = std::mem::take(&mut self.zeros);
        if zeros >= LONG_RUN {
            self.end_bytes()?;
            return writeln!(self.out, "{ZEROS}{zeros}");
        }
        (0..zeros / BLOCK as u64).try_for_each(|_| self.bytes(&[0; BLOCK]))
    }

    fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.text.clear();
        STANDARD.encode_string(bytes, &mut self.text);
        writeln!(self.out, "# {}", self.text)
    }
}

/// Decodes one line of base64, given without its newline.
pub fn decode_line(line: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(line.strip_prefix(b"# ")?).ok()
}

/// The number that a line of zeros states, given without its newline.
pub fn zeros_in_line(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(ZEROS.as_bytes())?;
    let count = std::str::from_utf8(digits).ok()?.parse().ok()?;
    // Only one text stands for a number: no sign, no leading zeros.
    (count > 0 && format!("{count}").as_bytes() == digits).then_some(count)
}

/// Where a reader is in the lines of a content whose size is known. It accepts only what [`encode`] writes, and what older versions
/// of it wrote: base64 also for zeros.
pub struct ContentLines {
    left: u64,
    at: u64,
    /// How many zeros the lines had.
    pub zeros: u64,
    /// The last line was a short one, or one of zeros: only another kind may follow.
    ended: Option<LineKind>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Base64,
    Zeros,
}

impl ContentLines {
    pub fn of_size(size: u64) -> Self {
        ContentLines { left: size, at: 0, zeros: 0, ended: None }
    }

    /// Whether the lines so far are the whole content.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Takes the next line, given without its newline; `None` if it cannot be there. The base64 itself is not looked at.
    pub fn take(&mut self, line: &[u8]) -> Option<()> {
        let (kind, size) = if line.starts_with(ZEROS.as_bytes()) {
            (LineKind::Zeros, zeros_in_line(line)?)
        } else {
            (LineKind::Base64, base64_size(line)?)
        };
        let is_block = |bytes: u64| bytes.is_multiple_of(BLOCK as u64);
        let is_aligned = kind == LineKind::Base64 || (is_block(self.at) && is_block(size));
        if self.ended == Some(kind) || !is_aligned {
            return None;
        }
        self.left = self.left.checked_sub(size)?;
        self.at += size;
        self.ended = (kind == LineKind::Zeros || size < LINE_BYTES as u64).then_some(kind);
        if kind == LineKind::Zeros {
            self.zeros += size;
        }
        Some(())
    }
}

/// How many bytes a line of base64 stands for, by its length.
fn base64_size(line: &[u8]) -> Option<u64> {
    let text = line.strip_prefix(b"# ")?;
    if text.is_empty() || text.len() > BASE64_LINE || !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    Some((text.len() / 4 * 3 - padding) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(content: &[u8]) -> String {
        let mut out = Vec::new();
        assert_eq!(encode(&mut out, &mut &content[..]).unwrap(), content.len() as u64);
        String::from_utf8(out).unwrap()
    }

    fn decoded(text: &str, size: usize) -> Option<Vec<u8>> {
        let (mut lines, mut back) = (ContentLines::of_size(size as u64), Vec::new());
        for line in text.lines() {
            lines.take(line.as_bytes())?;
            match zeros_in_line(line.as_bytes()) {
                Some(zeros) => back.resize(back.len() + zeros as usize, 0),
                None => back.extend(decode_line(line.as_bytes())?),
            }
        }
        lines.is_complete().then_some(back)
    }

    #[test]
    fn lines_are_76_characters_and_read_back() {
        for size in [0_usize, 1, 2, 3, 56, 57, 58, 114, 115, 60_000, 200_001] {
            let content: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
            let text = encoded(&content);
            assert_eq!(text.lines().count(), size.div_ceil(LINE_BYTES));
            assert!(text.lines().all(|line| line.len() <= MAX_LINE));
            assert!(decoded(&text, size).unwrap() == content, "{size}");
        }
    }

    #[test]
    fn a_long_run_of_zeros_is_one_line_and_everything_else_is_base64() {
        let data = vec![7; 100];
        let zeros = |count: usize| vec![0; count];
        let cases = [
            (zeros(BLOCK - 1), vec![]),
            (zeros(15 * BLOCK + 100), vec![]),
            (zeros(16 * BLOCK), vec![16 * 4096]),
            (zeros(40 * BLOCK + 1), vec![40 * 4096]),
            ([data.clone(), zeros(17 * BLOCK)].concat(), vec![16 * 4096]),
            ([data.clone(), zeros(3 * BLOCK), data.clone(), zeros(5 * BLOCK)].concat(), vec![]),
            (
                [zeros(17 * BLOCK), data.clone(), zeros(BLOCK - 100 + 20 * BLOCK), data].concat(),
                vec![17 * 4096, 20 * 4096],
            ),
        ];
        for (content, runs) in cases {
            let text = encoded(&content);
            let found: Vec<u64> = text.lines().filter_map(|line| zeros_in_line(line.as_bytes())).collect();
            assert_eq!(found, runs, "{} bytes", content.len());
            assert!(decoded(&text, content.len()).unwrap() == content);
        }
    }

    #[test]
    fn base64_may_stand_for_zeros_as_in_older_diffs() {
        let line = format!("# {}\n", STANDARD.encode([0; LINE_BYTES]));
        assert_eq!(decoded(&line.repeat(144), LINE_BYTES * 144), Some(vec![0; LINE_BYTES * 144]));
    }

    #[test]
    fn what_is_never_written_is_refused() {
        let (full, short) = (format!("# {}\n", "A".repeat(76)), "# AAAA\n".to_owned());
        let block = "# zeros 4096\n";
        let sound = |text: &str, size: usize| decoded(text, size).is_some();
        assert!(sound(&format!("{full}{short}"), 60) && sound(&format!("{block}{short}"), 4099));
        for (text, size) in [
            (format!("{short}{short}"), 6),
            (format!("{short}{full}"), 60),
            (format!("{block}{block}"), 8192),
            (format!("{short}{block}"), 4099),
            ("# zeros 4095\n".to_owned(), 4095),
            ("# zeros 0\n".to_owned(), 0),
            ("# zeros 04096\n".to_owned(), 4096),
            ("# zeros +4096\n".to_owned(), 4096),
            ("# zeros 00\n".to_owned(), 6),
            ("# zeros 8192\n".to_owned(), 4096),
            (block.to_owned(), 8192),
            ("# zeros 18446744073709551615\n".to_owned(), 4096),
            ("# zeros 18446744073709551616\n".to_owned(), 4096),
            (format!("# {}\n", "A".repeat(80)), 60),
            ("# \n".to_owned(), 0),
            ("AAAA\n".to_owned(), 3),
        ] {
            assert!(!sound(&text, size), "{text}");
        }
    }
}
