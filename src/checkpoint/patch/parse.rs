//! Reading `changes.diff` strictly: a diff that decree would not have written is rejected.
//!
//! The diff is read once to the end before it is used, and has to have the hash that its last line states, so a truncated or
//! edited diff is rejected as a whole. Only the offsets of contents are kept, not the contents: a diff of any size needs little
//! memory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::binary::{ContentLines, MAX_LINE};
use super::notes::{BINARY_END, HEADER, Note, tree_path};
use super::scan::{Line, ParseError, Scanner, wrong};
use super::write::{has_hunks, write_heads};
use crate::checkpoint::attributes::AttributeChange;
use crate::checkpoint::compare::Change;
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};

/// A diff whose hash and structure were checked.
#[derive(Debug)]
pub struct Patch {
    pub path: PathBuf,
    /// The changes, sorted by path.
    pub records: Vec<PatchRecord>,
    /// How many zeros the binary blocks state as numbers. They take no room in the diff, so a small diff may state many.
    pub stated_zeros: u64,
}

impl Patch {
    /// The change of a path.
    pub fn find(&self, path: &TreePath) -> Option<&PatchRecord> {
        let at = self.records.binary_search_by(|record| record.change.path.cmp(path));
        at.ok().map(|at| &self.records[at])
    }
}

/// The change of one path, and how to rebuild either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchRecord {
    pub change: Change,
    /// How to rebuild what was before.
    pub backward: Recipe,
    /// How to rebuild what is after.
    pub forward: Recipe,
}

/// How to rebuild the content of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// There is no content: a directory, or nothing.
    Nothing,
    /// The content of the other side.
    Same,
    /// The other side, changed by these hunks.
    Hunks(Vec<Hunk>),
    /// An empty content, changed by these hunks.
    FromNothing(Vec<Hunk>),
    /// The lines of a binary block at `offset` in the diff, for a content of `size` bytes.
    Lines { offset: u64, size: u64 },
}

/// Where a hunk is in the diff and in both files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Lines before the hunk in the old file.
    pub old_skipped: u64,
    pub old_lines: u64,
    /// Lines before the hunk in the new file.
    pub new_skipped: u64,
    pub new_lines: u64,
    /// Where the hunk's lines begin in the diff.
    pub offset: u64,
}

impl Patch {
    /// Reads a diff and checks it.
    pub fn read(path: &Path) -> Result<Patch> {
        let file = File::open(path).if_exists().at("read", path)?.ok_or_else(|| {
            Error::integrity(format!("{} is missing", path.display())).detail("nothing was touched")
        })?;
        let scanner = Scanner::new(BufReader::with_capacity(1 << 16, file));
        let mut parser = Parser { scanner, records: Vec::new(), attributes: None, stated_zeros: 0 };
        match parser.run() {
            Ok(()) => {
                let Parser { records, stated_zeros, .. } = parser;
                Ok(Patch { path: path.to_owned(), records, stated_zeros })
            }
            Err(error) => Err(parser.explain(path, error)),
        }
    }
}

struct Parser<R> {
    scanner: Scanner<R>,
    records: Vec<PatchRecord>,
    /// Attributes whose path's section has not come yet.
    attributes: Option<(TreePath, Box<AttributeChange>)>,
    stated_zeros: u64,
}

impl<R: BufRead> Parser<R> {
    fn run(&mut self) -> Result<(), ParseError> {
        let Some(first) = self.scanner.next_line()? else {
            return Ok(());
        };
        if first.text != HEADER.trim_end().as_bytes() {
            return Err(foreign(&first)
                .unwrap_or_else(|| wrong("not a diff that decree wrote, or one of another version")));
        }
        loop {
            let line = self.scanner.require_line()?;
            let note = match Note::parse(&line.text) {
                Some(note) => note.map_err(ParseError::Wrong)?,
                None => {
                    return Err(foreign(&line).unwrap_or_else(|| wrong("a line outside of any section")));
                }
            };
            match note {
                Note::File { path, old, new } => self.text(path, old, new)?,
                Note::Binary { path, old, new } => self.binary(path, old, new)?,
                Note::Dir { path, old, new } => {
                    let node = |mode| Node::Dir { mode };
                    let change = self.change(path, old.map(node), new.map(node))?;
                    self.add(PatchRecord { change, backward: Recipe::Nothing, forward: Recipe::Nothing })?;
                }
                Note::Attributes { path, change } => {
                    if self.attributes.is_some() || change.before == change.after {
                        return Err(wrong(&format!("attributes of {path} that are out of place")));
                    }
                    self.attributes = Some((path, Box::new(change)));
                }
                Note::Mode { path, .. } => {
                    return Err(wrong(&format!("a mode of {path} without its section")));
                }
                Note::End { changes, hash } => return self.end(changes, hash == line.hash_before),
            }
        }
    }

    fn end(&mut self, changes: u64, hash_matches: bool) -> Result<(), ParseError> {
        if !hash_matches {
            return Err(wrong("it does not have the hash that its last line states: it was edited"));
        }
        if self.attributes.is_some() {
            return Err(wrong("attributes without the section of their path"));
        }
        if changes != self.records.len() as u64 {
            return Err(wrong("it has another number of changes than its last line says"));
        }
        match self.scanner.next_line()? {
            None => Ok(()),
            Some(_) => Err(wrong("there is something after its last line")),
        }
    }

    /// Reads a section in git's format.
    fn text(&mut self, path: TreePath, old: Option<Node>, new: Option<Node>) -> Result<(), ParseError> {
        let mut expected = Vec::new();
        write_heads(&mut expected, &path, old.as_ref(), new.as_ref())?;
        for head in expected.split_inclusive(|&byte| byte == b'\n') {
            let line = self.scanner.require_line()?;
            if line.text != head[..head.len() - 1] {
                return Err(foreign(&line)
                    .unwrap_or_else(|| wrong(&format!("not the line that a section of {path} has here"))));
            }
        }
        let hunks = if has_hunks(old.as_ref(), new.as_ref()) { Some(self.hunks(&path)?) } else { None };
        let (backward, forward) = match (&old, &new, hunks) {
            (Some(_), Some(_), Some(hunks)) => (Recipe::Hunks(hunks.clone()), Recipe::Hunks(hunks)),
            (Some(_), Some(_), None) => (Recipe::Same, Recipe::Same),
            (Some(_), None, hunks) => (Recipe::FromNothing(hunks.unwrap_or_default()), Recipe::Nothing),
            (None, Some(_), hunks) => (Recipe::Nothing, Recipe::FromNothing(hunks.unwrap_or_default())),
            (None, None, _) => {
                return Err(wrong(&format!("a section of {path} without an old or a new side")));
            }
        };
        let change = self.change(path, old, new)?;
        self.add(PatchRecord { change, backward, forward })
    }

    /// A change with the attributes that were noted before it.
    fn change(
        &mut self,
        path: TreePath,
        before: Option<Node>,
        after: Option<Node>,
    ) -> Result<Change, ParseError> {
        let attributes = match self.attributes.take() {
            Some((of, _)) if of != path => {
                return Err(wrong(&format!("attributes of {of} without its section")));
            }
            noted => noted.map(|(_, change)| change),
        };
        Ok(Change { path, before, after, attributes })
    }

    fn hunks(&mut self, path: &TreePath) -> Result<Vec<Hunk>, ParseError> {
        let mut hunks = Vec::new();
        loop {
            let line = self.scanner.require_line()?;
            if !line.text.starts_with(b"@@ ") {
                self.scanner.unread(line);
                break;
            }
            let mut hunk = parse_hunk(&line.text).ok_or_else(|| wrong("an invalid hunk header"))?;
            hunk.offset = self.scanner.position;
            self.scanner.skip_hunk(hunk.old_lines, hunk.new_lines)?;
            hunks.push(hunk);
        }
        if hunks.is_empty() || !add_up(&hunks) {
            return Err(wrong(&format!("a section of {path} whose hunks do not add up")));
        }
        // There may be very many files, each with one hunk.
        hunks.shrink_to_fit();
        Ok(hunks)
    }

    fn binary(&mut self, path: TreePath, old: Option<Node>, new: Option<Node>) -> Result<(), ParseError> {
        let backward = self.content(&old, b"# old")?;
        let forward = self.content(&new, b"# new")?;
        self.expect(BINARY_END.trim_end().as_bytes())?;
        let change = self.change(path, old, new)?;
        self.add(PatchRecord { change, backward, forward })
    }

    /// Skips the lines of one side of a binary block, which have to be those of a content of the recorded size.
    fn content(&mut self, node: &Option<Node>, label: &[u8]) -> Result<Recipe, ParseError> {
        let Some((_, size)) = node.as_ref().and_then(Node::content) else {
            return Ok(Recipe::Nothing);
        };
        self.expect(label)?;
        let offset = self.scanner.position;
        let (mut lines, mut text) = (ContentLines::of_size(size), Vec::with_capacity(MAX_LINE + 1));
        while !lines.is_complete() {
            self.scanner.read_short_line(&mut text, MAX_LINE)?;
            lines.take(&text).ok_or_else(|| wrong("not a line that a binary block has here"))?;
        }
        self.stated_zeros = self.stated_zeros.saturating_add(lines.zeros);
        Ok(Recipe::Lines { offset, size })
    }

    fn expect(&mut self, text: &[u8]) -> Result<(), ParseError> {
        match self.scanner.require_line()? {
            line if line.text == text => Ok(()),
            _ => Err(wrong(&format!("a binary block without its line `{}`", String::from_utf8_lossy(text)))),
        }
    }

    /// Adds a record. The two records of a change of type become one.
    fn add(&mut self, record: PatchRecord) -> Result<(), ParseError> {
        let Some(last) = self.records.last_mut() else {
            self.records.push(record);
            return Ok(());
        };
        let path = &record.change.path;
        if last.change.path < *path {
            self.records.push(record);
            return Ok(());
        }
        let joins = last.change.path == *path
            && last.change.after.is_none()
            && record.change.before.is_none()
            && record.change.attributes.is_none();
        if !joins {
            return Err(wrong(&format!("{path} is out of order, or a duplicate")));
        }
        last.change.after = record.change.after;
        last.forward = record.forward;
        Ok(())
    }

    fn explain(&self, path: &Path, error: ParseError) -> Error {
        let shown = path.display();
        let line = self.scanner.line;
        let error = match error {
            ParseError::Io(error) => Error::failed(format!("cannot read {shown}")).caused_by(error),
            ParseError::Truncated => Error::integrity(format!(
                "{shown} is truncated: it ends after line {line} without its last line"
            )),
            ParseError::Wrong(why) => Error::integrity(format!("{shown} is damaged: line {line}: {why}")),
        };
        error.detail("nothing was touched")
    }
}

/// For a header that decree did not write: the error names its path, so that the user sees what the diff would have changed.
fn foreign(line: &Line) -> Option<ParseError> {
    let rest =
        [&b"diff --git "[..], b"--- ", b"+++ "].iter().find_map(|start| line.text.strip_prefix(*start))?;
    let name = match quote::unquote(rest) {
        Some((name, _)) => name,
        None => rest.split(|&byte| byte == b' ').next().unwrap_or(rest).to_vec(),
    };
    let name = name.strip_prefix(b"a/").or(name.strip_prefix(b"b/")).unwrap_or(&name);
    Some(match tree_path(name) {
        Err(why) => ParseError::Wrong(why),
        Ok(path) => wrong(&format!("a section of {path} that decree did not write")),
    })
}

/// Whether the hunks are in order, and the lines between them are as many in the old file as in the new one.
fn add_up(hunks: &[Hunk]) -> bool {
    let (mut old_end, mut new_end) = (0u64, 0u64);
    hunks.iter().all(|hunk| {
        let between = hunk.old_skipped.checked_sub(old_end);
        let fits = between.is_some() && between == hunk.new_skipped.checked_sub(new_end);
        old_end = hunk.old_skipped.saturating_add(hunk.old_lines);
        new_end = hunk.new_skipped.saturating_add(hunk.new_lines);
        fits && old_end < u64::MAX && new_end < u64::MAX
    })
}

fn parse_hunk(line: &[u8]) -> Option<Hunk> {
    let text = std::str::from_utf8(line).ok()?;
    let (old, new) = text.strip_prefix("@@ -")?.strip_suffix(" @@")?.split_once(" +")?;
    let side = |text: &str| -> Option<(u64, u64)> {
        let (start, lines) = text.split_once(',').unwrap_or((text, "1"));
        let (start, lines): (u64, u64) = (start.parse().ok()?, lines.parse().ok()?);
        let skipped = if lines == 0 { start } else { start.checked_sub(1)? };
        Some((skipped, lines))
    };
    let ((old_skipped, old_lines), (new_skipped, new_lines)) = (side(old)?, side(new)?);
    Some(Hunk { old_skipped, old_lines, new_skipped, new_lines, offset: 0 })
}
