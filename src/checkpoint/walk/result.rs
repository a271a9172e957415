//! What a walk found, and the manifest entries made from it.
//!
//! There is one item for every name in the tree, so items are compact: the names of a directory share one
//! buffer, and a file has only the data that is still needed.

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::{Fingerprint, IgnoreFile};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::stat_cache::{Stat, path_order};

#[derive(Default)]
pub struct Walk {
    /// Every directory entered, parents before children; the root is the first.
    pub dirs: Vec<WalkedDir>,
    /// The ignore files in force.
    pub ignore_files: Vec<IgnoreFile>,
    pub coverage: Coverage,
    /// Files that have one of SQLite's files beside them, by its name.
    pub databases: Vec<TreePath>,
    /// With a baseline: paths out of scope that are new since.
    pub out_of_scope: Vec<TreePath>,
    /// With a baseline: directories that had to be made readable, and the modes they had.
    pub unlocked: Vec<(TreePath, FileMode)>,
}

/// A directory that was entered.
#[derive(Default)]
pub struct WalkedDir {
    /// Relative to the root, which is empty.
    pub path: Box<[u8]>,
    /// Identifies the rules in force in it.
    pub fingerprint: Fingerprint,
    /// The names of the items, concatenated.
    pub names: Vec<u8>,
    /// The entries in scope, sorted by path.
    pub items: Vec<Item>,
    /// The nodes of the items that are [`ItemKind::Known`].
    pub known: Vec<Node>,
    /// The entries of the items that are [`ItemKind::Uncached`], in the same order.
    pub uncached: Vec<UncachedEntry>,
    /// How many names the cache has for it, if it was made under the same rules.
    pub cached_names: Option<usize>,
    pub(super) mode: FileMode,
    /// Whether the manifest has an entry for it when it is empty.
    pub in_scope: bool,
}

/// A name, as its position in a buffer of names.
#[derive(Clone, Copy)]
pub struct Name {
    pub(super) start: u32,
    pub(super) length: u16,
}

impl Name {
    pub fn of(self, names: &[u8]) -> &[u8] {
        &names[self.start as usize..][..usize::from(self.length)]
    }
}

/// An entry in scope.
#[derive(Clone, Copy)]
pub struct Item {
    pub name: Name,
    pub kind: ItemKind,
}

/// What an item is, and where the rest of its data is.
#[derive(Clone, Copy)]
pub enum ItemKind {
    /// The same node as in the baseline.
    Same,
    /// A file or link that the cache has: an index into [`WalkedDir::known`].
    Known(u32),
    /// A file or link that the cache lacks: an index into [`WalkedDir::uncached`].
    Uncached(u32),
    /// A directory: an index into [`Walk::dirs`].
    Dir(u32),
}

/// A file or link that is not in the cache, or changed since.
pub enum UncachedEntry {
    /// A file that is not read yet or, when all have been read, that vanished before.
    Unread,
    /// A file, and its `stat` result just before it was read.
    File(Stat, ContentHash),
    /// A link's target and its hash.
    Link(Box<[u8]>, ContentHash),
}

impl UncachedEntry {
    fn node(&self) -> Option<Node> {
        match self {
            UncachedEntry::Unread => None,
            UncachedEntry::File(stat, hash) => {
                Some(Node::File { hash: *hash, size: stat.size, mode: FileMode::from_bits(stat.mode) })
            }
            UncachedEntry::Link(target, hash) => {
                Some(Node::Symlink { hash: *hash, size: target.len() as u64 })
            }
        }
    }
}

impl WalkedDir {
    pub(super) fn add(&mut self, name: &[u8], kind: ItemKind) {
        let start = u32::try_from(self.names.len()).expect("a listing has less than 4 GiB of names");
        self.names.extend_from_slice(name);
        self.items.push(Item { name: Name { start, length: name.len() as u16 }, kind });
    }

    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.items.shrink_to_fit();
        self.known.shrink_to_fit();
        self.uncached.shrink_to_fit();
    }

    /// Drops the files that vanished before they were read.
    pub fn drop_unread(&mut self) {
        let uncached = &self.uncached;
        self.items.retain(|item| match item.kind {
            ItemKind::Uncached(number) => !matches!(uncached[number as usize], UncachedEntry::Unread),
            _ => true,
        });
    }
}

impl Walk {
    /// Calls `visit` for every manifest entry, in order, with its directory, its name and its node; `None` if the node
    /// is the same as in the baseline. All files must have been read.
    ///
    /// Frees each directory when it is done: a large tree must not be in memory twice.
    pub fn into_entries(mut self, mut visit: impl FnMut(&[u8], &[u8], Option<Node>)) {
        let shown = self.dirs_that_are_entries();
        let mut stack = Vec::new();
        let enter = |dir: &mut WalkedDir| {
            let dir = std::mem::take(dir);
            let steps = dir.steps(&shown).into_iter();
            (dir, steps)
        };
        stack.extend(self.dirs.first_mut().map(enter));
        while let Some((dir, steps)) = stack.last_mut() {
            let Some(step) = steps.next() else {
                stack.pop();
                continue;
            };
            let item = &dir.items[step.item as usize];
            let node = match item.kind {
                ItemKind::Dir(child) if step.descends => {
                    stack.push(enter(&mut self.dirs[child as usize]));
                    continue;
                }
                ItemKind::Dir(child) => Some(Node::Dir { mode: self.dirs[child as usize].mode }),
                ItemKind::Same => None,
                ItemKind::Known(number) => Some(dir.known[number as usize]),
                ItemKind::Uncached(number) => match dir.uncached[number as usize].node() {
                    Some(node) => Some(node),
                    None => continue,
                },
            };
            visit(&dir.path, item.name.of(&dir.names), node);
        }
    }

    /// Which directories are manifest entries: empty ones in scope, and others whose mode is not the default.
    fn dirs_that_are_entries(&self) -> Vec<bool> {
        let mut has_entries = vec![false; self.dirs.len()];
        let mut shown = vec![false; self.dirs.len()];
        for (number, dir) in self.dirs.iter().enumerate().rev() {
            let empty = !dir.items.iter().any(|item| match item.kind {
                ItemKind::Dir(child) => has_entries[child as usize],
                _ => true,
            });
            has_entries[number] = dir.in_scope || !empty;
            shown[number] = if empty { dir.in_scope } else { dir.mode != FileMode::DIR };
        }
        shown
    }
}

/// A step through a directory: to an item as an entry, or down into it.
struct VisitStep {
    item: u32,
    descends: bool,
}

impl WalkedDir {
    fn steps(&self, shown: &[bool]) -> Vec<VisitStep> {
        let mut steps = Vec::with_capacity(self.items.len());
        for (item, number) in self.items.iter().zip(0..) {
            let child = if let ItemKind::Dir(child) = item.kind { Some(child as usize) } else { None };
            steps.push(VisitStep { item: number, descends: child.is_some() });
            if child.is_some_and(|child| shown[child]) {
                steps.push(VisitStep { item: number, descends: false });
            }
        }
        if steps.len() > self.items.len() {
            let key = |step: &VisitStep| (self.items[step.item as usize].name.of(&self.names), step.descends);
            // The entry `a` sorts before `a-b`, and the contents of `a` after it.
            steps.sort_by(|a, b| path_order(key(a), key(b)));
        }
        steps
    }
}
