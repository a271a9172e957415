//! The hunks of a text change that does not fit in memory.
//!
//! The common beginning and end of both files are found by reading. What is between is compared in memory if it fits, and
//! replaced as a whole if it does not. Memory does not grow with the files, nor with the length of a line.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use super::hunks::{self, CONTEXT, LineCount, MAX_LINES, Position};
use super::notes::NO_NEWLINE;

/// At most this much of each side is compared in memory.
const WINDOW: u64 = 8 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;

/// A seekable file and its length.
pub struct SizedFile<R> {
    file: R,
    length: u64,
}

impl<R: Read + Seek> SizedFile<R> {
    pub fn new(mut file: R) -> io::Result<Self> {
        let length = file.seek(SeekFrom::End(0))?;
        Ok(SizedFile { file, length })
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(buffer)
    }

    fn begins_line(&mut self, at: u64) -> io::Result<bool> {
        let mut byte = [0];
        if at > 0 {
            self.read_at(at - 1, &mut byte)?;
        }
        Ok(at == 0 || byte == *b"\n")
    }

    /// Calls `take` with a range in pieces, in order.
    fn pieces(&mut self, range: Range<u64>, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(range.start))?;
        let mut left = range.end - range.start;
        let mut buffer = [0; CHUNK];
        while left > 0 {
            let n = left.min(CHUNK as u64) as usize;
            self.file.read_exact(&mut buffer[..n])?;
            take(&buffer[..n])?;
            left -= n as u64;
        }
        Ok(())
    }

    /// The number of lines in a range that begins at a line's start and ends at a line's end or the file's.
    fn count_lines(&mut self, range: Range<u64>) -> io::Result<u64> {
        let (mut newlines, mut last) = (0, b'\n');
        self.pieces(range, |piece| {
            newlines += memchr::memchr_iter(b'\n', piece).count() as u64;
            last = *piece.last().unwrap_or(&last);
            Ok(())
        })?;
        Ok(newlines + u64::from(last != b'\n'))
    }

    /// The start of the `count` lines before `end` (fewer, if the file has fewer), and how many they are.
    fn lines_before(&mut self, end: u64, count: usize) -> io::Result<(u64, u64)> {
        let mut buffer = vec![0; CHUNK];
        let mut found = 0;
        // The newline that ends the last line does not begin another.
        let mut at = end.saturating_sub(1);
        while at > 0 {
            let n = at.min(CHUNK as u64) as usize;
            let start = at - n as u64;
            self.read_at(start, &mut buffer[..n])?;
            for newline in memchr::memrchr_iter(b'\n', &buffer[..n]) {
                found += 1;
                if found == count {
                    return Ok((start + newline as u64 + 1, found as u64));
                }
            }
            at = start;
        }
        Ok((0, found as u64 + u64::from(end > 0)))
    }

    /// The end of the `count` lines from `start` (fewer, if the file has fewer), and how many they are.
    fn lines_after(&mut self, start: u64, count: usize) -> io::Result<(u64, u64)> {
        self.file.seek(SeekFrom::Start(start))?;
        let mut lines = BufReader::with_capacity(CHUNK, &mut self.file);
        let (mut found, mut at) = (0, start);
        while found < count as u64 && at < self.length {
            at += lines.skip_until(b'\n')? as u64;
            found += 1;
        }
        Ok((at, found))
    }

    fn write_lines(&mut self, out: &mut impl Write, sign: u8, range: Range<u64>) -> io::Result<()> {
        let mut begins = true;
        self.pieces(range, |piece| {
            for line in piece.split_inclusive(|&byte| byte == b'\n') {
                if begins {
                    out.write_all(&[sign])?;
                }
                out.write_all(line)?;
                begins = line.ends_with(b"\n");
            }
            Ok(())
        })?;
        if !begins {
            out.write_all(b"\n")?;
            out.write_all(NO_NEWLINE.as_bytes())?;
        }
        Ok(())
    }

    fn read_range(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }
}

/// Writes the hunks of the change from `old` to `new`.
pub fn write_hunks<A: Read + Seek, B: Read + Seek>(
    out: &mut impl Write,
    mut old: SizedFile<A>,
    mut new: SizedFile<B>,
) -> io::Result<LineCount> {
    let prefix = common_prefix(&mut old, &mut new)?;
    let suffix = common_suffix(&mut old, &mut new, prefix)?;
    let (old_end, new_end) = (old.length - suffix, new.length - suffix);
    let (start, lead) = old.lines_before(prefix, CONTEXT)?;
    let (stop, trail) = old.lines_after(old_end, CONTEXT)?;
    let new_stop = new_end + (stop - old_end);
    let skipped = old.count_lines(0..start)?;

    let removed = old.count_lines(prefix..old_end)?;
    let added = new.count_lines(prefix..new_end)?;
    let fits = (stop - start).max(new_stop - start) <= WINDOW
        && removed.max(added) + lead + trail <= MAX_LINES as u64;
    if fits {
        let (old, new) = (old.read_range(start..stop)?, new.read_range(start..new_stop)?);
        return hunks::write_hunks(out, &old, &new, skipped);
    }
    let position = |lines| Position { skipped, lines: lead + lines + trail };
    writeln!(out, "@@ -{} +{} @@", position(removed), position(added))?;
    old.write_lines(out, b' ', start..prefix)?;
    old.write_lines(out, b'-', prefix..old_end)?;
    new.write_lines(out, b'+', prefix..new_end)?;
    old.write_lines(out, b' ', old_end..stop)?;
    Ok(LineCount { added, removed })
}

/// The length of the whole lines that both begin with.
fn common_prefix<A: Read + Seek, B: Read + Seek>(
    old: &mut SizedFile<A>,
    new: &mut SizedFile<B>,
) -> io::Result<u64> {
    let shorter = old.length.min(new.length);
    let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut at, mut lines_end) = (0, 0);
    while at < shorter {
        let n = (shorter - at).min(CHUNK as u64) as usize;
        old.read_at(at, &mut a[..n])?;
        new.read_at(at, &mut b[..n])?;
        let same = a[..n].iter().zip(&b[..n]).take_while(|(x, y)| x == y).count();
        if let Some(newline) = memchr::memrchr(b'\n', &a[..same]) {
            lines_end = at + newline as u64 + 1;
        }
        if same < n {
            break;
        }
        at += n as u64;
    }
    Ok(lines_end)
}

/// The length of the whole lines that both end with, after the first `prefix` bytes.
fn common_suffix<A: Read + Seek, B: Read + Seek>(
    old: &mut SizedFile<A>,
    new: &mut SizedFile<B>,
    prefix: u64,
) -> io::Result<u64> {
    let shorter = old.length.min(new.length) - prefix;
    let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut raw, mut lines) = (0, 0);
    while raw < shorter {
        let n = (shorter - raw).min(CHUNK as u64) as usize;
        old.read_at(old.length - raw - n as u64, &mut a[..n])?;
        new.read_at(new.length - raw - n as u64, &mut b[..n])?;
        let same = a[..n].iter().rev().zip(b[..n].iter().rev()).take_while(|(x, y)| x == y).count();
        let tail = &a[n - same..n];
        if let Some(newline) = memchr::memchr(b'\n', tail) {
            // Only whole lines follow this newline.
            lines = raw + (tail.len() - newline - 1) as u64;
        }
        raw += same as u64;
        if same < n {
            break;
        }
    }
    let whole = old.begins_line(old.length - raw)? && new.begins_line(new.length - raw)?;
    Ok(if whole { raw } else { lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn hunks(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        let side = |text: &str| SizedFile::new(Cursor::new(text.as_bytes().to_vec())).unwrap();
        write_hunks(&mut out, side(old), side(new)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn in_memory(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        hunks::write_hunks(&mut out, old.as_bytes(), new.as_bytes(), 0).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_small_change_in_a_large_file_reads_as_if_compared_whole() {
        let old: String = (0..5000).map(|n| format!("line {n}\n")).collect();
        for new in [
            old.replace("line 2500\n", "changed\n"),
            old.replace("line 2500\n", ""),
            old.replace("line 2500\n", "line 2500\nline 2500\n"),
            old.trim_end().to_owned(),
            format!("first\n{old}"),
            format!("{old}last"),
        ] {
            assert_eq!(hunks(&old, &new), in_memory(&old, &new));
        }
    }

    #[test]
    fn what_does_not_fit_is_replaced_whole() {
        let old: String = (0..MAX_LINES + 10).map(|n| format!("{n}\n")).collect();
        let new: String = (0..MAX_LINES + 10).map(|n| format!("x{n}\n")).collect();
        let text = hunks(&format!("a\n{old}z"), &format!("a\n{new}z"));
        let lines = MAX_LINES + 12;
        assert!(text.starts_with(&format!("@@ -1,{lines} +1,{lines} @@\n a\n-0\n")), "{}", &text[..60]);
        assert!(text.ends_with("\n z\n\\ No newline at end of file\n"));
    }

    #[test]
    fn one_side_may_be_empty_or_have_no_newline_at_all() {
        for (old, new) in [("", "a"), ("a", ""), ("a", "b"), ("a\n", "a"), ("\n", "\n\n"), ("a\na\n", "a\n")]
        {
            assert_eq!(hunks(old, new), in_memory(old, new), "{old:?} {new:?}");
        }
    }
}
