//! Splits a `changes.diff` into files and hunks for display. This reader is lenient, because a diff may be truncated; to apply
//! one, [`crate::checkpoint::patch::parse`] is strict.

use std::io::{self, BufRead, Read};

use crate::checkpoint::attributes::{AttributeChange, Attributes};
use crate::checkpoint::entry::Node;
use crate::checkpoint::patch::notes::{BINARY_END, Note};
use crate::checkpoint::quote;

/// A line is read in pieces of at most this size: it may be a gigabyte long.
const PIECE: u64 = 64 * 1024;

/// A diff, possibly truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The files, sorted by path.
    pub files: Vec<FileDiff>,
    /// Whether the limit truncated the diff.
    pub cut: bool,
}

/// The section of a diff for one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// The path, quoted where necessary as in `summary.json`.
    pub path: String,
    /// A change that git's format cannot express: binary content, an empty directory, an unusual mode.
    pub note: String,
    /// The header lines from `diff --git` to `+++`.
    pub head: String,
    /// The hunks, each beginning with its `@@` line, decoded as UTF-8 with replacement characters.
    pub hunks: Vec<String>,
}

/// The reader's position within a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Between,
    Head,
    Hunk,
    Binary,
}

impl Diff {
    /// Reads at most `limit` bytes of text. Binary content is skipped and does not count.
    pub fn read(mut reader: impl BufRead, limit: usize) -> io::Result<Diff> {
        let mut diff = Diff::default();
        let mut at = Position::Between;
        let mut next_head = String::new();
        let (mut kept, mut begins) = (0, true);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if reader.by_ref().take(PIECE).read_until(b'\n', &mut bytes)? == 0 {
                return Ok(diff);
            }
            let starts_line = std::mem::replace(&mut begins, bytes.ends_with(b"\n"));
            if at == Position::Binary {
                if starts_line && bytes == BINARY_END.as_bytes() {
                    at = Position::Between;
                }
                continue;
            }
            kept += bytes.len();
            if kept > limit {
                diff.cut = true;
                return Ok(diff);
            }
            if starts_line {
                at = diff.begin_line(at, &bytes, &mut next_head);
            }
            diff.add(at, &String::from_utf8_lossy(&bytes), &mut next_head);
        }
    }

    /// Decides to which part of a section a new line belongs.
    fn begin_line(&mut self, at: Position, line: &[u8], next_head: &mut String) -> Position {
        if let Some(note) = Note::parse(line.strip_suffix(b"\n").unwrap_or(line)) {
            return note.map_or(Position::Between, |note| self.begin_file(note));
        }
        let Some(file) = self.files.last_mut() else {
            return Position::Between;
        };
        match at {
            _ if line.starts_with(b"diff --git ") => Position::Head,
            Position::Head | Position::Hunk if line.starts_with(b"@@ ") => {
                file.hunks.push(std::mem::take(next_head));
                Position::Hunk
            }
            _ if line.starts_with(b"#") => Position::Between,
            at => at,
        }
    }

    fn begin_file(&mut self, note: Note) -> Position {
        let (path, text, next) = match note {
            Note::End { .. } => return Position::Between,
            Note::File { path, .. } => (path, String::new(), Position::Between),
            Note::Mode { path, old, new } => {
                let mode = |mode: Option<_>| mode.map_or("-".to_owned(), |mode| format!("{mode}"));
                (path, format!("mode {} → {}", mode(old), mode(new)), Position::Between)
            }
            Note::Attributes { path, change } => (path, attributes(&change), Position::Between),
            Note::Dir { path, old, new } if old == new => (path, String::new(), Position::Between),
            Note::Dir { path, old, new } => {
                (path, directory(old.is_some(), new.is_some()), Position::Between)
            }
            Note::Binary { path, old, new } => (path, binary(old.as_ref(), new.as_ref()), Position::Binary),
        };
        let path = quote::in_json(path.as_bytes());
        match self.files.last_mut().filter(|file| file.path == path) {
            // The attributes come first.
            Some(file) if file.note.starts_with(ATTRIBUTES) => {
                if !text.is_empty() {
                    file.note = format!("{}; {text}", file.note);
                }
            }
            Some(file) => file.note = text,
            None => self.files.push(FileDiff { path: path.into_owned(), note: text, ..FileDiff::default() }),
        }
        next
    }

    fn add(&mut self, at: Position, text: &str, next_head: &mut String) {
        let Some(file) = self.files.last_mut() else {
            return;
        };
        match (at, file.hunks.last_mut()) {
            (Position::Hunk, Some(hunk)) => hunk.push_str(text),
            // A file that became a link has a second header, which belongs to the next hunk.
            (Position::Head, Some(_)) => next_head.push_str(text),
            (Position::Head, None) => file.head.push_str(text),
            _ => {}
        }
    }
}

/// How the note about attributes begins.
const ATTRIBUTES: &str = "attributes: ";

fn attributes(change: &AttributeChange) -> String {
    let names = |attributes: &Attributes| match &attributes.names()[..] {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    format!("{ATTRIBUTES}{} → {}", names(&change.before), names(&change.after))
}

fn directory(was: bool, is: bool) -> String {
    match (was, is) {
        (false, true) => "a new empty directory",
        (true, false) => "an empty directory was removed",
        _ => "a directory's mode changed",
    }
    .to_owned()
}

fn binary(old: Option<&Node>, new: Option<&Node>) -> String {
    let size = |node: Option<&Node>| {
        let size = node.and_then(Node::content).map(|(_, size)| size);
        size.map_or("nothing".to_owned(), crate::humanize::bytes)
    };
    format!("binary: {} → {}", size(old), size(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn sample() -> String {
        let file = format!("old={HASH} new={HASH} size=1:2 mode=100644:100644");
        format!(
            "# decree-diff 1\n\
             # decree-binary \"logo\" {file}\n# old\n# AAAA\n# new\n# AAAA\n# end\n\
             # decree-file \"src/a b\" {file}\ndiff --git \"a/src/a b\" \"b/src/a b\"\n--- \"a/src/a b\"\n+++ \"b/src/a b\"\n\
             @@ -1,2 +1,2 @@\n--- an SQL comment\n+++ one more\n@@ -9 +9 @@\n-x\n+y\n\\ No newline at end of file\n\
             # decree-dir \"tmp\" old=- new=755\n\
             # decree-end changes=3 sha256={HASH}\n"
        )
    }

    #[test]
    fn a_diff_is_split_into_files_and_hunks() {
        let diff = Diff::read(sample().as_bytes(), 1 << 20).unwrap();
        let paths: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["logo", "src/a b", "tmp"]);
        assert_eq!((diff.files[0].note.as_str(), diff.files[0].hunks.len()), ("binary: 1 B → 2 B", 0));
        assert_eq!(diff.files[1].head.lines().count(), 3);
        assert_eq!(
            diff.files[1].hunks,
            [
                "@@ -1,2 +1,2 @@\n--- an SQL comment\n+++ one more\n",
                "@@ -9 +9 @@\n-x\n+y\n\\ No newline at end of file\n"
            ]
        );
        assert_eq!(diff.files[2].note, "a new empty directory");
        assert!(!diff.cut);
    }

    #[test]
    fn a_diff_of_any_bytes_is_read_up_to_the_limit() {
        for limit in 0..sample().len() {
            let diff = Diff::read(sample().as_bytes(), limit).unwrap();
            let size: usize = diff.files.iter().flat_map(|file| &file.hunks).map(String::len).sum();
            assert!(size <= limit);
        }
        assert!(Diff::read(sample().as_bytes(), 200).unwrap().cut);
        let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        Diff::read(noise.as_slice(), 1 << 20).unwrap();
    }

    #[test]
    fn a_line_longer_than_a_piece_stays_in_its_hunk() {
        let long = format!("+{}# decree-end\n", "x".repeat(3 * PIECE as usize));
        let text = sample().replace("+y\n", &long);
        let diff = Diff::read(text.as_bytes(), 1 << 20).unwrap();
        assert!(diff.files[1].hunks[1].contains(&long));
        assert_eq!(diff.files.len(), 3);
    }
}
