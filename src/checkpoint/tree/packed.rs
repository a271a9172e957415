//! A tree in memory.

use std::cmp::Ordering;
use std::sync::OnceLock;

use super::entry::{Entry, cmp_path, combined_hash};
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;

/// Everything a checkpoint holds, sorted by path.
///
/// Directories follow from what is below them; only those that need saying are entries.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub(super) runs: Vec<Chunk>,
    pub(super) len: usize,
    /// Worked out when first asked for.
    hash: OnceLock<ContentHash>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Tree {}

/// Entries of one directory with nothing between them.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub dir: Box<[u8]>,
    pub names: Box<[u8]>,
    pub slots: Box<[Slot]>,
}

/// A node, and where its name ends, without the room that an enum would waste.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    hash: ContentHash,
    size: u64,
    pub name_end: u32,
    mode: FileMode,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Symlink,
    Dir,
}

impl Slot {
    pub fn new(node: Node, name_end: u32) -> Self {
        let kind = match node {
            Node::File { .. } => Kind::File,
            Node::Symlink { .. } => Kind::Symlink,
            Node::Dir { .. } => Kind::Dir,
        };
        let (hash, size) = node.content().unwrap_or((ContentHash([0; 32]), 0));
        Slot { hash, size, name_end, mode: node.mode().unwrap_or(FileMode::DIR), kind }
    }

    pub fn node(&self) -> Node {
        let Slot { hash, size, mode, .. } = *self;
        match self.kind {
            Kind::File => Node::File { hash, size, mode },
            Kind::Symlink => Node::Symlink { hash, size },
            Kind::Dir => Node::Dir { mode },
        }
    }
}

impl Chunk {
    fn entry(&self, at: usize) -> Entry<'_> {
        Entry { dir: &self.dir, name: self.name(at), node: self.slots[at].node() }
    }

    fn name(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.slots[before].name_end as usize);
        &self.names[start..self.slots[at].name_end as usize]
    }

    /// The place of the first entry that does not come before `path`; the last one does not.
    fn lower_bound(&self, path: &[u8]) -> usize {
        let name = match path.strip_prefix(&*self.dir) {
            Some(name) if self.dir.is_empty() => name,
            Some([b'/', name @ ..]) => name,
            // All of them come before it, or none.
            _ => return 0,
        };
        let (mut low, mut high) = (0, self.slots.len() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle) < name {
                true => low = middle + 1,
                false => high = middle,
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
    /// All entries, by path.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.runs.iter().flat_map(Chunk::iter)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries in parts of about `size`, in order.
    pub fn parts(&self, size: usize) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let (mut start, mut entries) = (0, 0);
        for (number, run) in self.runs.iter().enumerate() {
            entries += run.slots.len();
            if entries >= size || number + 1 == self.runs.len() {
                parts.push(Part(&self.runs[start..=number]));
                (start, entries) = (number + 1, 0);
            }
        }
        parts
    }

    /// What stands at `path`.
    pub fn get(&self, path: &TreePath) -> Option<Node> {
        Part(&self.runs).find(path.as_bytes())
    }

    /// Whether there was anything at `path`.
    pub fn has(&self, path: &TreePath) -> bool {
        self.get(path).is_some() || self.has_dir(path.as_bytes())
    }

    /// Whether there was a directory at `dir` (bytes without a trailing slash): an entry, or something below it.
    pub fn has_dir(&self, dir: &[u8]) -> bool {
        match Part(&self.runs).find(dir) {
            Some(node) => node.is_dir(),
            None => !self.below(dir).0.is_empty(),
        }
    }

    /// Whether `dir` is an entry with nothing below it.
    pub fn is_empty_dir(&self, dir: &TreePath) -> bool {
        self.get(dir).is_some_and(|node| node.is_dir()) && self.below(dir.as_bytes()).0.is_empty()
    }

    /// The entries below a directory (empty: the root), at any depth.
    pub fn below(&self, dir: &[u8]) -> Part<'_> {
        if dir.is_empty() {
            return Part(&self.runs);
        }
        // Between a directory and what is in it, names such as `dir-x` may stand.
        let start = [dir, b"/"].concat();
        let runs = &self.runs[self.runs.partition_point(|run| run.is_before(&start))..];
        Part(&runs[..runs.partition_point(|run| *run.dir == *dir || run.dir.starts_with(&start))])
    }

    /// How many files and links, and their bytes.
    pub fn count(&self) -> (usize, u64) {
        self.iter()
            .filter_map(|entry| entry.node.content())
            .fold((0, 0), |(files, bytes), (_, size)| (files + 1, bytes + size))
    }

    /// One hash for the whole tree; see [`combined_hash`].
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| combined_hash(self.iter()))
    }
}

/// Some of a tree's entries that follow each other.
#[derive(Clone, Copy)]
pub struct Part<'t>(&'t [Chunk]);

impl<'t> Part<'t> {
    /// The entries, by path.
    pub fn iter(self) -> impl Iterator<Item = Entry<'t>> {
        self.0.iter().flat_map(Chunk::iter)
    }

    /// What stands at `path`, if that is among them.
    pub fn get(self, path: &TreePath) -> Option<Node> {
        self.find(path.as_bytes())
    }

    fn find(self, path: &[u8]) -> Option<Node> {
        let run = self.0.get(self.0.partition_point(|run| run.is_before(path)))?;
        let at = run.lower_bound(path);
        let found = cmp_path(&run.dir, run.name(at), path) == Ordering::Equal;
        found.then(|| run.slots[at].node())
    }
}
