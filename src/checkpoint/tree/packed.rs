//! A tree in memory: its entries, their order, and their compact form.

use std::cmp::Ordering;
use std::sync::OnceLock;

use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;

use super::cursor::Cursor;

/// Everything a checkpoint holds, sorted by path.
///
/// A directory is implied by its contents; it is an entry only if it is empty or its mode is not the default.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(super) chunks: Vec<Chunk>,
    pub(super) len: usize,
    /// Computed on first use.
    pub(super) hash: OnceLock<ContentHash>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Tree {}

/// Consecutive entries of one directory.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub dir: Box<[u8]>,
    pub names: Box<[u8]>,
    pub slots: Box<[Slot]>,
    /// Those of the entries that have any, by index.
    pub attributes: Box<[(u32, Attributes)]>,
}

/// A node and the end of its name, in less space than an enum with fields takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub hash: ContentHash,
    pub size: u64,
    pub name_end: u32,
    pub mode: FileMode,
    pub kind: SlotKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SlotKind {
    File,
    Symlink,
    Dir,
}

impl Slot {
    pub fn new(node: Node, name_end: u32) -> Self {
        let kind = match node {
            Node::File { .. } => SlotKind::File,
            Node::Symlink { .. } => SlotKind::Symlink,
            Node::Dir { .. } => SlotKind::Dir,
        };
        let (hash, size) = node.content().unwrap_or((ContentHash([0; 32]), 0));
        Slot { hash, size, name_end, mode: node.mode().unwrap_or(FileMode::DIR), kind }
    }

    pub fn is_dir(&self) -> bool {
        matches!(self.kind, SlotKind::Dir)
    }

    pub fn node(&self) -> Node {
        let Slot { hash, size, mode, .. } = *self;
        match self.kind {
            SlotKind::File => Node::File { hash, size, mode },
            SlotKind::Symlink => Node::Symlink { hash, size },
            SlotKind::Dir => Node::Dir { mode },
        }
    }
}

impl Chunk {
    fn entry(&self, at: usize) -> Entry<'_> {
        let attributes = self.attributes.binary_search_by_key(&(at as u32), |(index, _)| *index);
        let attributes = attributes.map_or(Attributes::none(), |at| &self.attributes[at].1);
        Entry { dir: &self.dir, name: self.name(at), node: self.slots[at].node(), attributes }
    }

    fn name(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.slots[before].name_end as usize);
        &self.names[start..self.slots[at].name_end as usize]
    }

    /// The index of the first entry that does not sort before `path`. The caller knows that the last one does not.
    fn lower_bound(&self, path: &[u8]) -> usize {
        let name = match path.strip_prefix(&*self.dir) {
            Some(name) if self.dir.is_empty() => name,
            Some([b'/', name @ ..]) => name,
            // None of them sorts before it.
            _ => return 0,
        };
        let (mut low, mut high) = (0, self.slots.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.name(middle) < name {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn is_before(&self, path: &[u8]) -> bool {
        cmp_path(&self.dir, self.name(self.slots.len() - 1), path) == Ordering::Less
    }

    fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.slots.len()).map(|at| self.entry(at))
    }

    pub fn last(&self) -> Entry<'_> {
        self.entry(self.slots.len() - 1)
    }
}

impl Tree {
    /// All entries, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Divides the entries, in order, into parts of about `size`.
    pub fn parts(&self, size: usize) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let (mut start, mut entries) = (0, 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            entries += chunk.slots.len();
            if entries >= size || number + 1 == self.chunks.len() {
                parts.push(Part(&self.chunks[start..=number]));
                (start, entries) = (number + 1, 0);
            }
        }
        parts
    }

    pub fn get(&self, path: &TreePath) -> Option<Node> {
        self.entry(path).map(|entry| entry.node)
    }

    /// The entry at a path.
    pub fn entry(&self, path: &TreePath) -> Option<Entry<'_>> {
        Part(&self.chunks).find(path.as_bytes())
    }

    /// Whether there is an entry or an implied directory at `path`.
    pub fn has(&self, path: &TreePath) -> bool {
        self.get(path).is_some() || self.has_dir(path.as_bytes())
    }

    /// Whether there is a directory at `dir` (without a trailing slash): an entry, or implied by one below it.
    pub fn has_dir(&self, dir: &[u8]) -> bool {
        Part(&self.chunks).has_dir(dir)
    }

    /// Whether `dir` is an entry with nothing below it.
    pub fn is_empty_dir(&self, dir: &TreePath) -> bool {
        self.get(dir).is_some_and(|node| node.is_dir()) && self.below(dir.as_bytes()).0.is_empty()
    }

    /// The entries below a directory (empty: the root), at any depth.
    pub fn below(&self, dir: &[u8]) -> Part<'_> {
        Part(&self.chunks).below(dir)
    }

    /// The number of files and links, and their total size.
    pub fn count(&self) -> (usize, u64) {
        let slots = self.chunks.iter().flat_map(|chunk| &chunk.slots);
        slots
            .filter(|slot| !slot.is_dir())
            .fold((0, 0), |(files, bytes), slot| (files + 1, bytes + slot.size))
    }

    /// The entries that are directories.
    pub fn dirs(&self) -> impl Iterator<Item = Entry<'_>> {
        self.chunks.iter().flat_map(|chunk| {
            let dirs = (0..chunk.slots.len()).filter(|at| chunk.slots[*at].is_dir());
            dirs.map(|at| chunk.entry(at))
        })
    }
}

/// Consecutive entries of a tree.
#[derive(Clone, Copy)]
pub struct Part<'t>(pub(super) &'t [Chunk]);

impl<'t> Part<'t> {
    pub fn iter(self) -> impl Iterator<Item = Entry<'t>> {
        self.0.iter().flat_map(Chunk::iter)
    }

    /// Those below a directory (empty: the root), at any depth.
    pub fn below(self, dir: &[u8]) -> Part<'t> {
        if dir.is_empty() {
            return self;
        }
        // Names such as `dir-x` sort between a directory and its contents.
        let start = [dir, b"/"].concat();
        let chunks = &self.0[self.0.partition_point(|chunk| chunk.is_before(&start))..];
        let end = chunks.partition_point(|chunk| *chunk.dir == *dir || chunk.dir.starts_with(&start));
        Part(&chunks[..end])
    }

    /// Whether there is a directory at `dir` (without a trailing slash): an entry, or implied by one below it.
    pub fn has_dir(self, dir: &[u8]) -> bool {
        match self.find(dir) {
            Some(entry) => entry.node.is_dir(),
            None => !self.below(dir).0.is_empty(),
        }
    }

    /// The entry at a path.
    pub fn entry(self, path: &TreePath) -> Option<Entry<'t>> {
        self.find(path.as_bytes())
    }

    /// The same for the path of `name` in `dir`. It takes little time if `cursor` is at the entry before.
    pub fn entry_at(self, (dir, name): (&[u8], &[u8]), cursor: &Cursor) -> Option<Entry<'t>> {
        let (number, at) = cursor.get();
        let is_next = |chunk: &&Chunk| at < chunk.slots.len() && *chunk.dir == *dir && chunk.name(at) == name;
        let (number, at) = match self.0.get(number).filter(is_next) {
            Some(_) => (number, at),
            None => self.position(TreePath::joined(dir, name).as_bytes())?,
        };
        cursor.set(number, at + 1);
        Some(self.0[number].entry(at))
    }

    fn find(self, path: &[u8]) -> Option<Entry<'t>> {
        self.position(path).map(|(number, at)| self.0[number].entry(at))
    }

    /// The chunk that has the entry at a path, and where.
    fn position(self, path: &[u8]) -> Option<(usize, usize)> {
        let number = self.0.partition_point(|chunk| chunk.is_before(path));
        let chunk = self.0.get(number)?;
        let at = chunk.lower_bound(path);
        (cmp_path(&chunk.dir, chunk.name(at), path) == Ordering::Equal).then_some((number, at))
    }
}

/// A path, as its directory and name, and the node at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The directory; empty for the root.
    pub dir: &'t [u8],
    pub name: &'t [u8],
    pub node: Node,
    pub attributes: &'t Attributes,
}

impl<'t> Entry<'t> {
    pub fn at(path: &'t TreePath, node: Node, attributes: &'t Attributes) -> Self {
        let (dir, name) = path.split();
        Entry { dir, name, node, attributes }
    }

    pub fn path(&self) -> TreePath {
        TreePath::joined(self.dir, self.name)
    }

    /// Appends the path to `out`.
    pub fn write_path(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.dir);
        if !self.dir.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(self.name);
    }

    /// Compares its path with that of `name` in `dir`.
    pub fn cmp_in(&self, dir: &[u8], name: &[u8]) -> Ordering {
        if self.dir == dir {
            return self.name.cmp(name);
        }
        let common = self.dir.len().min(dir.len());
        self.dir[..common].cmp(&dir[..common]).then_with(|| {
            let rest = |dir: &[u8], name: &[u8]| {
                if dir.is_empty() { name.to_vec() } else { [&dir[common..], b"/", name].concat() }
            };
            rest(self.dir, self.name).cmp(&rest(dir, name))
        })
    }
}

/// Compares the path of `name` in `dir` with `path`.
fn cmp_path(dir: &[u8], name: &[u8], path: &[u8]) -> Ordering {
    if dir.is_empty() {
        return name.cmp(path);
    }
    match path.split_at_checked(dir.len()) {
        None => dir.cmp(path),
        Some((start, rest)) => dir.cmp(start).then_with(|| match rest.split_first() {
            None => Ordering::Greater,
            Some((next, rest)) => b'/'.cmp(next).then_with(|| name.cmp(rest)),
        }),
    }
}
