//! The hunks of a text change that fits in memory.

use std::io::{self, Write};
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use super::notes::NO_NEWLINE;

/// The number of context lines around a change, the same as git's default.
pub const CONTEXT: usize = 3;
/// A side with more lines is not compared in memory.
pub const MAX_LINES: usize = 200_000;

/// The number of lines that a change adds and removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    pub added: u64,
    pub removed: u64,
}

/// Writes the hunks of the change from `old` to `new`, both of which begin `skipped` lines into their files.
pub fn write_hunks(out: &mut impl Write, old: &[u8], new: &[u8], skipped: u64) -> io::Result<LineCount> {
    let (old, new) = (lines(old), lines(new));
    let ops = capture_diff_slices(Algorithm::Myers, &old, &new);
    let mut count = LineCount::default();
    for group in group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        write_header(out, &old_range, &new_range, skipped)?;
        for op in &group {
            match op {
                DiffOp::Equal { .. } => write_lines(out, b' ', &old[op.old_range()])?,
                _ => {
                    write_lines(out, b'-', &old[op.old_range()])?;
                    write_lines(out, b'+', &new[op.new_range()])?;
                    count.removed += op.old_range().len() as u64;
                    count.added += op.new_range().len() as u64;
                }
            }
        }
    }
    Ok(count)
}

/// Splits a text into lines, each with its newline. Only `\n` ends a line.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', text) {
        lines.push(&text[start..=newline]);
        start = newline + 1;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

fn write_header(
    out: &mut impl Write,
    old: &Range<usize>,
    new: &Range<usize>,
    skipped: u64,
) -> io::Result<()> {
    let side =
        |range: &Range<usize>| Position { skipped: skipped + range.start as u64, lines: range.len() as u64 };
    writeln!(out, "@@ -{} +{} @@", side(old), side(new))
}

/// One side of a hunk header.
pub struct Position {
    /// The number of lines before the hunk.
    pub skipped: u64,
    pub lines: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lines {
            // No lines on this side: the number of the line *after* which the hunk is.
            0 => write!(f, "{},0", self.skipped),
            1 => write!(f, "{}", self.skipped + 1),
            lines => write!(f, "{},{lines}", self.skipped + 1),
        }
    }
}

fn write_lines(out: &mut impl Write, sign: u8, lines: &[&[u8]]) -> io::Result<()> {
    for line in lines {
        out.write_all(&[sign])?;
        out.write_all(line)?;
        if !line.ends_with(b"\n") {
            out.write_all(b"\n")?;
            out.write_all(NO_NEWLINE.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunks(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        write_hunks(&mut out, old.as_bytes(), new.as_bytes(), 0).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_new_file_is_all_plus() {
        assert_eq!(hunks("", "a\nb"), "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
    }

    #[test]
    fn a_lone_carriage_return_does_not_end_a_line() {
        assert_eq!(hunks("a\rb\n", "a\rc\n"), "@@ -1 +1 @@\n-a\rb\n+a\rc\n");
    }

    #[test]
    fn gaining_a_final_newline_is_a_change() {
        assert_eq!(hunks("a", "a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }

    #[test]
    fn changes_far_apart_get_hunks_of_their_own() {
        let old: String = (0..30).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n3\n", "2\nx\n").replace("28\n", "");
        let text = hunks(&old, &new);
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(text.contains("@@ -26,5 +26,4 @@"), "{text}");
    }
}
