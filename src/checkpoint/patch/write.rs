//! Writing `changes.diff`, with at most one batch of small changes in memory.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::Path;

use rayon::prelude::*;

use super::hunks::{self, LineCount, MAX_LINES};
use super::large::{self, SizedFile};
use super::notes::{BINARY_END, HEADER, Note};
use super::{BINARY_PROBE, binary, is_binary};
use crate::checkpoint::compare::Change;
use crate::checkpoint::content_source::ContentSource;
use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::Hashing;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::in_diff_header;
use crate::error::{IoContext, Result};
use crate::fs::sparse::{SparseWriter, has_long_run};
use crate::fs::{atomic, random_hex};
use crate::interrupt::{self, Interruptible};

/// A change whose sides are both at most this large is diffed in memory.
const SMALL: u64 = 4 * 1024 * 1024;
/// How many small changes are diffed in parallel before they are written.
const BATCH: usize = 32;

/// What a diff changes at one path, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCount {
    pub lines: LineCount,
    pub binary: bool,
}

/// Writes a diff of two content sources.
pub struct PatchWriter<'w> {
    pub old: &'w dyn ContentSource,
    pub new: &'w dyn ContentSource,
    /// A directory for the temporary files of large changes.
    pub scratch: &'w Path,
}

impl PatchWriter<'_> {
    /// Writes the whole diff, which is empty if there are no changes. Returns a count for each change.
    pub fn write(&self, out: &mut impl Write, changes: &[Change]) -> Result<Vec<ChangeCount>> {
        let mut counts = Vec::with_capacity(changes.len());
        if changes.is_empty() {
            return Ok(counts);
        }
        let out = &mut Hashing::new(out);
        out.write_all(HEADER.as_bytes()).at("write", "the diff")?;
        for batch in changes.chunk_by(|a, b| is_small(a) == is_small(b)) {
            if is_small(&batch[0]) {
                for batch in batch.chunks(BATCH) {
                    interrupt::check()?;
                    let sections: Vec<Result<(Vec<u8>, ChangeCount)>> =
                        batch.par_iter().map(|change| self.small(change)).collect();
                    for section in sections {
                        let (bytes, count) = section?;
                        out.write_all(&bytes).at("write", "the diff")?;
                        counts.push(count);
                    }
                }
            } else {
                for change in batch {
                    counts.push(self.large(out, change)?);
                }
            }
        }
        let (hash, _) = out.hasher.clone().finish();
        let end = Note::End { changes: changes.len() as u64, hash };
        out.write_all(end.line().as_bytes()).at("write", "the diff")?;
        Ok(counts)
    }

    /// The section of a change whose sides fit in memory.
    fn small(&self, change: &Change) -> Result<(Vec<u8>, ChangeCount)> {
        let Change { path, .. } = change;
        let (before, after) = contents_of(change);
        let read = |side: &dyn ContentSource, node: Option<&Node>| {
            node.map_or(Ok(Vec::new()), |node| side.read(path, node))
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        if !same_content(before, after) {
            old = read(self.old, before)?;
            new = read(self.new, after)?;
        }
        let mut out = Vec::with_capacity(512);
        write_attributes(&mut out, change).at("write", "the diff")?;
        if is_block_content(&old) || is_block_content(&new) {
            let count =
                binary_section(&mut out, change, &mut &old[..], &mut &new[..]).at("write", "the diff")?;
            return Ok((out, count));
        }
        let many = |text: &[u8]| memchr::memchr_iter(b'\n', text).count() > MAX_LINES;
        let hunks = |out: &mut Vec<u8>, old: &[u8], new: &[u8]| {
            if many(old) || many(new) {
                large::write_hunks(out, SizedFile::new(Cursor::new(old))?, SizedFile::new(Cursor::new(new))?)
            } else {
                hunks::write_hunks(out, old, new, 0)
            }
        };
        let count = text_sections(&mut out, change, |out, part| match part {
            Part::Deleted => hunks(out, &old, b""),
            Part::Created => hunks(out, b"", &new),
            Part::Modified => hunks(out, &old, &new),
        });
        Ok((out, count.at("write", "the diff")?))
    }

    /// Writes the section of a change whose sides do not fit in memory.
    fn large(&self, out: &mut impl Write, change: &Change) -> Result<ChangeCount> {
        let what = format!("the diff of {}", change.path);
        write_attributes(out, change).at("write", &what)?;
        let (before, after) = contents_of(change);
        if same_content(before, after) {
            return text_sections(out, change, |_, _| Ok(LineCount::default())).at("write", &what);
        }
        if self.has_binary_head(self.old, change, before)? || self.has_binary_head(self.new, change, after)? {
            let mut old = Interruptible(self.open(self.old, change, before)?);
            let mut new = Interruptible(self.open(self.new, change, after)?);
            return binary_section(out, change, &mut old, &mut new).at("write", &what);
        }
        let (old, zeros_in_old) = self.spool(self.old, change, before).at("write", &what)?;
        let (new, zeros_in_new) = self.spool(self.new, change, after).at("write", &what)?;
        if zeros_in_old || zeros_in_new {
            let (mut old, mut new) = (Interruptible(&old), Interruptible(&new));
            return binary_section(out, change, &mut old, &mut new).at("write", &what);
        }
        let count = text_sections(out, change, |out, part| match part {
            Part::Deleted => large::write_hunks(out, SizedFile::new(&old)?, SizedFile::new(io::empty())?),
            Part::Created => large::write_hunks(out, SizedFile::new(io::empty())?, SizedFile::new(&new)?),
            Part::Modified => large::write_hunks(out, SizedFile::new(&old)?, SizedFile::new(&new)?),
        });
        count.at("write", &what)
    }

    fn open<'c>(
        &self,
        side: &'c dyn ContentSource,
        change: &Change,
        node: Option<&Node>,
    ) -> Result<Box<dyn Read + 'c>> {
        node.map_or_else(|| Ok(Box::new(io::empty()) as Box<dyn Read>), |node| side.open(&change.path, node))
    }

    fn has_binary_head(
        &self,
        side: &dyn ContentSource,
        change: &Change,
        node: Option<&Node>,
    ) -> Result<bool> {
        let mut head = Vec::new();
        let mut start = self.open(side, change, node)?.take(BINARY_PROBE as u64);
        start.read_to_end(&mut head).at("read", change.path.as_path())?;
        Ok(is_binary(&head))
    }

    /// Copies a side to a seekable file without a name, so the OS removes it when it is closed. Also says whether it has whole blocks of
    /// zeros, which take no room in that file.
    fn spool(
        &self,
        side: &dyn ContentSource,
        change: &Change,
        node: Option<&Node>,
    ) -> io::Result<(File, bool)> {
        let path = self.scratch.join(format!("{}spool-{}", atomic::TEMPORARY, random_hex()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let mut content = Interruptible(self.open(side, change, node).map_err(io::Error::other)?);
        let mut spool = SparseWriter::new(file);
        io::copy(&mut content, &mut spool)?;
        let (mut file, has_long_run) = spool.finish()?;
        file.rewind()?;
        Ok((file, has_long_run))
    }
}

/// Whether a content goes into a binary block: in a hunk, blocks of zeros would be one long line.
fn is_block_content(content: &[u8]) -> bool {
    is_binary(content) || has_long_run(content)
}

fn is_small(change: &Change) -> bool {
    let size = |node: &Option<Node>| node.as_ref().and_then(Node::content).map_or(0, |(_, size)| size);
    size(&change.before) <= SMALL && size(&change.after) <= SMALL
}

/// The sides that have content; a directory has none.
fn contents_of(change: &Change) -> (Option<&Node>, Option<&Node>) {
    let file = |node: &'_ Option<Node>| node.as_ref().is_some_and(|node| !node.is_dir());
    (
        change.before.as_ref().filter(|_| file(&change.before)),
        change.after.as_ref().filter(|_| file(&change.after)),
    )
}

fn same_content(before: Option<&Node>, after: Option<&Node>) -> bool {
    match (before, after) {
        (Some(a), Some(b)) => a.content() == b.content() && a.type_name() == b.type_name(),
        (None, None) => true,
        _ => false,
    }
}

/// Whether a section of a text change deletes, creates or modifies the file.
#[derive(Clone, Copy)]
enum Part {
    Deleted,
    Created,
    Modified,
}

/// Writes the sections of a text change: usually one; two if the type changed, as git and patch accept that only so.
fn text_sections<W: Write>(
    out: &mut W,
    change: &Change,
    mut hunks: impl FnMut(&mut W, Part) -> io::Result<LineCount>,
) -> io::Result<ChangeCount> {
    let (before, after) = contents_of(change);
    let mut lines = LineCount::default();
    let mut section = |out: &mut W, part, old: Option<&Node>, new: Option<&Node>| {
        let note = Note::File { path: change.path.clone(), old: old.copied(), new: new.copied() };
        out.write_all(note.line().as_bytes())?;
        write_heads(out, &change.path, old, new)?;
        if has_hunks(old, new) {
            let count = hunks(out, part)?;
            lines.added += count.added;
            lines.removed += count.removed;
        }
        io::Result::Ok(())
    };
    match (before, after) {
        (Some(old), Some(new)) if old.type_name() == new.type_name() => {
            section(out, Part::Modified, Some(old), Some(new))?;
        }
        _ => {
            if before.is_some() {
                section(out, Part::Deleted, before, None)?;
            }
            write_dir_note(out, change)?;
            if after.is_some() {
                section(out, Part::Created, None, after)?;
            }
        }
    }
    Ok(ChangeCount { lines, binary: false })
}

fn is_empty(node: Option<&Node>) -> bool {
    node.and_then(Node::content).is_none_or(|(_, size)| size == 0)
}

fn write_attributes(out: &mut impl Write, change: &Change) -> io::Result<()> {
    let Some(attributes) = &change.attributes else { return Ok(()) };
    let note = Note::Attributes { path: change.path.clone(), change: (**attributes).clone() };
    out.write_all(note.line().as_bytes())
}

fn write_dir_note(out: &mut impl Write, change: &Change) -> io::Result<()> {
    let mode = |node: &Option<Node>| match node {
        Some(Node::Dir { mode }) => Some(*mode),
        _ => None,
    };
    let (old, new) = (mode(&change.before), mode(&change.after));
    if old.is_none() && new.is_none() {
        return Ok(());
    }
    let note = Note::Dir { path: change.path.clone(), old, new };
    out.write_all(note.line().as_bytes())
}

/// Writes the lines of a section between its note and its hunks.
pub(super) fn write_heads(
    out: &mut impl Write,
    path: &TreePath,
    old: Option<&Node>,
    new: Option<&Node>,
) -> io::Result<()> {
    let mode = |node: Option<&Node>| node.and_then(Node::mode);
    if [mode(old), mode(new)].into_iter().flatten().any(|mode| !mode.is_plain()) {
        let note = Note::Mode { path: path.clone(), old: mode(old), new: mode(new) };
        out.write_all(note.line().as_bytes())?;
    }
    let (old_mode, new_mode) = (old.map(git_mode), new.map(git_mode));
    if old_mode == new_mode && same_content(old, new) {
        // git's format cannot express this change.
        return Ok(());
    }
    let of = |prefix| in_diff_header(prefix, path.as_bytes());
    writeln!(out, "diff --git {} {}", of("a/"), of("b/"))?;
    match (old_mode, new_mode) {
        (Some(mode), None) => writeln!(out, "deleted file mode {mode:06o}")?,
        (None, Some(mode)) => writeln!(out, "new file mode {mode:06o}")?,
        (Some(old), Some(new)) if old != new => {
            writeln!(out, "old mode {old:06o}\nnew mode {new:06o}")?;
        }
        _ => {}
    }
    // Without an `index` line, patch takes a link for a file, and does not delete an empty file.
    let is_link = matches!((old, new), (Some(Node::Symlink { .. }), Some(Node::Symlink { .. })));
    if is_link || !(has_hunks(old, new) || same_content(old, new)) {
        writeln!(out, "index {}..{}{}", short(old), short(new), if is_link { " 120000" } else { "" })?;
    }
    if !has_hunks(old, new) {
        return Ok(());
    }
    let name = |node: Option<&Node>, name: String| node.map_or("/dev/null".to_owned(), |_| name);
    writeln!(out, "--- {}\n+++ {}", name(old, of("a/")), name(new, of("b/")))
}

/// The abbreviated hash of a content for an `index` line; zeros for no content, as in git.
fn short(node: Option<&Node>) -> String {
    match node.and_then(Node::content) {
        // git's hash of the empty content, by which patch recognises an empty file.
        Some((_, 0)) => "e69de29bb2d1".to_owned(),
        Some((hash, _)) => hash.to_string()[..12].to_owned(),
        None => "0".repeat(12),
    }
}

/// Whether a section has hunks: not if only the mode changed, or an empty file was created or deleted.
pub(super) fn has_hunks(old: Option<&Node>, new: Option<&Node>) -> bool {
    let none = is_empty(old) && is_empty(new);
    !none && !same_content(old, new)
}

/// The mode in git's format.
pub(super) fn git_mode(node: &Node) -> u32 {
    match node {
        Node::File { mode, .. } => mode.for_git(),
        Node::Symlink { .. } => 0o120000,
        Node::Dir { .. } => 0o040000,
    }
}

fn binary_section(
    out: &mut impl Write,
    change: &Change,
    old: &mut impl Read,
    new: &mut impl Read,
) -> io::Result<ChangeCount> {
    let (before, after) = contents_of(change);
    if change.before.as_ref().is_some_and(Node::is_dir) {
        write_dir_note(out, change)?;
    }
    let note = Note::Binary { path: change.path.clone(), old: before.copied(), new: after.copied() };
    out.write_all(note.line().as_bytes())?;
    if before.is_some() {
        writeln!(out, "# old")?;
        binary::encode(out, old)?;
    }
    if after.is_some() {
        writeln!(out, "# new")?;
        binary::encode(out, new)?;
    }
    out.write_all(BINARY_END.as_bytes())?;
    if change.after.as_ref().is_some_and(Node::is_dir) {
        write_dir_note(out, change)?;
    }
    Ok(ChangeCount { lines: LineCount::default(), binary: true })
}
