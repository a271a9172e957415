//! What a walk found, and the manifest entries made from it.
//!
//! There is one item for every name in the tree, so items are compact: the names of a directory share one
//! buffer, and a file has only the data that is still needed.

use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::{Fingerprint, IgnoreFile};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::stat_cache::{PackedStat, Stat, Time, path_order};

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
    /// Whether owners and attributes are read.
    pub with_attributes: bool,
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
    /// The attributes of those that have any, by their index.
    pub(super) known_attributes: Vec<(u32, Attributes)>,
    /// The entries of the items that are [`ItemKind::Uncached`], in the same order.
    pub uncached: Vec<UncachedEntry>,
    /// How many of the items are directories.
    pub(super) subdirs: usize,
    /// How many names the cache has for it, if it was made under the same rules.
    pub cached_names: Option<usize>,
    /// What it was before it was listed, if every name in it is an item.
    pub listed: Option<Stat>,
    /// Whether its names were taken from the cache.
    pub listed_from_cache: bool,
    pub(super) mode: FileMode,
    pub(super) attributes: Attributes,
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
    File(PackedStat, ContentHash),
    /// The same for a file that has attributes. Boxed, because few have.
    FileWithAttributes(Box<(Stat, ContentHash, Attributes)>),
    /// A link's target and its hash.
    Link(Box<[u8]>, ContentHash),
}

impl UncachedEntry {
    /// A file that was read.
    pub fn file(stat: Stat, hash: ContentHash, attributes: Attributes) -> Self {
        if attributes.is_none() {
            return UncachedEntry::File(PackedStat::new(&stat), hash);
        }
        UncachedEntry::FileWithAttributes(Box::new((stat, hash, attributes)))
    }

    fn attributes(&self) -> &Attributes {
        match self {
            UncachedEntry::FileWithAttributes(file) => &file.2,
            _ => Attributes::none(),
        }
    }

    fn node(&self) -> Option<Node> {
        let file = |stat: &Stat, hash: &ContentHash| {
            Some(Node::File { hash: *hash, size: stat.size, mode: FileMode::from_bits(stat.mode) })
        };
        match self {
            UncachedEntry::Unread => None,
            UncachedEntry::File(stat, hash) => file(&stat.unpack(), hash),
            UncachedEntry::FileWithAttributes(read) => file(&read.0, &read.1),
            UncachedEntry::Link(target, hash) => {
                Some(Node::Symlink { hash: *hash, size: target.len() as u64 })
            }
        }
    }
}

impl WalkedDir {
    /// Makes room for so many items with names of this length together.
    pub(super) fn reserve(&mut self, items: usize, names_len: usize) {
        self.items.reserve_exact(items);
        self.names.reserve_exact(names_len);
    }

    /// Makes room for so many files: a buffer that grows leaves gaps in memory.
    pub(super) fn reserve_nodes(&mut self, files: usize, are_cached: bool) {
        if are_cached {
            self.known.reserve_exact(files);
        } else {
            self.uncached.reserve_exact(files);
        }
    }

    pub(super) fn add(&mut self, name: &[u8], kind: ItemKind) {
        let start = u32::try_from(self.names.len()).expect("a listing has less than 4 GiB of names");
        self.names.extend_from_slice(name);
        self.items.push(Item { name: Name { start, length: name.len() as u16 }, kind });
        self.subdirs += usize::from(matches!(kind, ItemKind::Dir(_)));
    }

    /// What the directory was when it had these names and no others, and no attributes. It says nothing if the directory may have changed in
    /// the clock tick in which the walk `began`.
    pub fn settled_listing(&self, began: Time) -> Option<&Stat> {
        let is_settled = |stat: &&Stat| stat.ctime < began;
        self.listed.as_ref().filter(is_settled).filter(|_| self.attributes.values().is_empty())
    }

    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.items.shrink_to_fit();
        self.known.shrink_to_fit();
        self.known_attributes.shrink_to_fit();
        self.uncached.shrink_to_fit();
    }

    /// Notes the attributes of a known item. Neighbours often have the same.
    pub(super) fn add_known_attributes(&mut self, number: u32, attributes: Attributes) {
        let last = self.known_attributes.last().map_or(Attributes::none(), |(_, last)| last);
        let attributes = attributes.shared_with(last);
        self.known_attributes.push((number, attributes));
    }

    fn known_attributes(&self, number: u32) -> &Attributes {
        let at = self.known_attributes.binary_search_by_key(&number, |(index, _)| *index);
        at.map_or(Attributes::none(), |at| &self.known_attributes[at].1)
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
    /// Takes the files whose content is a secret out of what is in scope, and returns their paths. All files must have been read.
    pub fn withhold(&mut self, is_secret: impl Fn(&ContentHash) -> bool) -> Vec<TreePath> {
        let mut withheld = Vec::new();
        let has_nodes = |dir: &&mut WalkedDir| !dir.known.is_empty() || !dir.uncached.is_empty();
        for WalkedDir { path, names, items, known, uncached, .. } in self.dirs.iter_mut().filter(has_nodes) {
            items.retain(|item| {
                let node = match item.kind {
                    ItemKind::Known(number) => Some(known[number as usize]),
                    ItemKind::Uncached(number) => uncached[number as usize].node(),
                    ItemKind::Same | ItemKind::Dir(_) => None,
                };
                let found = matches!(node, Some(Node::File { hash, .. }) if is_secret(&hash));
                if found {
                    withheld.push(TreePath::joined(path, item.name.of(names)));
                }
                !found
            });
        }
        withheld
    }

    /// How many files and links there are, if all of them are the same as in the baseline.
    pub fn only_same_files(&self) -> Option<usize> {
        let is_same = |dir: &WalkedDir| dir.known.is_empty() && dir.uncached.is_empty();
        let count = |dir: &WalkedDir| is_same(dir).then(|| dir.items.len() - dir.subdirs);
        self.dirs.iter().map(count).sum()
    }

    /// Calls `visit` for every manifest entry, in order, with its directory, its name, its node and its attributes; `None`
    /// instead of the node if both are the same as in the baseline. All files must have been read.
    ///
    /// Frees each directory when it is done: a large tree must not be in memory twice.
    pub fn into_entries(self, visit: impl FnMut(&[u8], &[u8], Option<Node>, &Attributes)) {
        self.visit_entries(true, visit);
    }

    /// The same without files and links that are the same as in the baseline.
    pub fn into_other_entries(self, visit: impl FnMut(&[u8], &[u8], Option<Node>, &Attributes)) {
        self.visit_entries(false, visit);
    }

    fn visit_entries(
        mut self,
        with_same: bool,
        mut visit: impl FnMut(&[u8], &[u8], Option<Node>, &Attributes),
    ) {
        let shown = self.dirs_that_are_entries();
        let dir_entries: Vec<(FileMode, Attributes)> =
            self.dirs.iter().map(|dir| (dir.mode, dir.attributes.clone())).collect();
        let mut stack = Vec::new();
        let enter = |dir: &mut WalkedDir| {
            let dir = std::mem::take(dir);
            let steps = dir.steps(&shown, with_same).into_iter();
            (dir, steps)
        };
        stack.extend(self.dirs.first_mut().map(enter));
        while let Some((dir, steps)) = stack.last_mut() {
            let Some(step) = steps.next() else {
                stack.pop();
                continue;
            };
            let item = &dir.items[step.item as usize];
            let (node, attributes) = match item.kind {
                ItemKind::Dir(child) if step.descends => {
                    stack.push(enter(&mut self.dirs[child as usize]));
                    continue;
                }
                ItemKind::Dir(child) => {
                    let (mode, attributes) = &dir_entries[child as usize];
                    (Some(Node::Dir { mode: *mode }), attributes)
                }
                ItemKind::Same => (None, Attributes::none()),
                ItemKind::Known(number) => (Some(dir.known[number as usize]), dir.known_attributes(number)),
                ItemKind::Uncached(number) => {
                    let entry = &dir.uncached[number as usize];
                    match entry.node() {
                        Some(node) => (Some(node), entry.attributes()),
                        None => continue,
                    }
                }
            };
            visit(&dir.path, item.name.of(&dir.names), node, attributes);
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
            shown[number] =
                if empty { dir.in_scope } else { dir.mode != FileMode::DIR || !dir.attributes.is_none() };
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
    fn steps(&self, shown: &[bool], with_same: bool) -> Vec<VisitStep> {
        let mut steps = Vec::with_capacity(if with_same { self.items.len() } else { self.subdirs });
        let mut is_sorted = true;
        for (item, number) in self.items.iter().zip(0..) {
            if !with_same && matches!(item.kind, ItemKind::Same) {
                continue;
            }
            let child = if let ItemKind::Dir(child) = item.kind { Some(child as usize) } else { None };
            steps.push(VisitStep { item: number, descends: child.is_some() });
            if child.is_some_and(|child| shown[child]) {
                steps.push(VisitStep { item: number, descends: false });
                is_sorted = false;
            }
        }
        if !is_sorted {
            let key = |step: &VisitStep| (self.items[step.item as usize].name.of(&self.names), step.descends);
            // The entry `a` sorts before `a-b`, and the contents of `a` after it.
            steps.sort_by(|a, b| path_order(key(a), key(b)));
        }
        steps
    }
}
