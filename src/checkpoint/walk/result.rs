//! What a walk found, and the entries that it makes.
//!
//! There is one of these for every name in the tree, so they are packed: the names of a directory are in one
//! buffer, and a file takes only what is still needed of it.

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::stat_cache::{Stat, path_order};

/// A finished walk.
#[derive(Default)]
pub struct Walk {
    /// Every directory entered, parents before children; the root is the first.
    pub dirs: Vec<WalkedDir>,
    /// The ignore files in force.
    pub ignore_files: Vec<IgnoreFile>,
    /// What was left out.
    pub coverage: Coverage,
    /// With a baseline: things out of scope that were not there before.
    pub beside: Vec<TreePath>,
    /// With a baseline: directories that had to be made readable, and the modes they had.
    pub opened: Vec<(TreePath, FileMode)>,
}

/// One directory.
#[derive(Default)]
pub struct WalkedDir {
    /// Relative to the root, which is empty.
    pub path: Box<[u8]>,
    /// The rules in force in it.
    pub fingerprint: [u8; 16],
    /// Of the items, one after the other.
    pub names: Vec<u8>,
    /// Its entries in scope, in the order of their paths.
    pub items: Vec<Item>,
    /// Of the items that are [`ItemKind::Known`].
    pub known: Vec<Node>,
    /// Of the items that are [`ItemKind::Uncached`], in their order.
    pub news: Vec<UncachedEntry>,
    /// How many names the cache has here, if it was made under the same rules.
    pub cached_names: Option<usize>,
    /// Permissions.
    pub(super) mode: FileMode,
    /// Whether it has to be an entry when it is empty.
    pub in_scope: bool,
}

/// Where a name is in [`WalkedDir::names`].
#[derive(Clone, Copy)]
pub struct Name {
    start: u32,
    length: u16,
}

impl Name {
    /// The name itself.
    pub fn of(self, names: &[u8]) -> &[u8] {
        &names[self.start as usize..][..usize::from(self.length)]
    }
}

/// One entry in scope.
#[derive(Clone, Copy)]
pub struct Item {
    /// In its directory.
    pub name: Name,
    /// What it is.
    pub kind: ItemKind,
}

/// What an entry is.
#[derive(Clone, Copy)]
pub enum ItemKind {
    /// Exactly what the baseline has there.
    Same,
    /// A file or link of which the cache knows everything, by its number in [`WalkedDir::known`].
    Known(u32),
    /// A file or link of which it does not, by its number in [`WalkedDir::news`].
    Uncached(u32),
    /// A directory, by its number in [`Walk::dirs`].
    Dir(u32),
}

/// A file or link that the cache does not know, or knows as something else.
pub enum UncachedEntry {
    /// A file that was not read yet; or, when all have been, one that was gone by then.
    Unread,
    /// A file, and what `stat` said just before it was read.
    File(Stat, ContentHash),
    /// A link: where it leads, and the hash of that.
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

impl Item {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, ItemKind::Dir(_))
    }
}

impl WalkedDir {
    /// Adds a name to the buffer.
    pub(super) fn name(&mut self, name: &[u8]) -> Name {
        let start = u32::try_from(self.names.len()).expect("a listing has less than 4 GiB of names");
        self.names.extend_from_slice(name);
        Name { start, length: name.len() as u16 }
    }

    /// Gives back what was reserved and not used.
    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.items.shrink_to_fit();
        self.known.shrink_to_fit();
        self.news.shrink_to_fit();
    }

    /// Forgets the files that were gone when they were to be read.
    pub fn drop_unread(&mut self) {
        let news = &self.news;
        self.items.retain(|item| match item.kind {
            ItemKind::Uncached(number) => !matches!(news[number as usize], UncachedEntry::Unread),
            _ => true,
        });
    }
}

impl Walk {
    /// Calls `take` for every entry of a manifest, in order: with the directory it is in, its name, and what it is;
    /// `None` if it is what the baseline has. Every file has to have been read by now.
    ///
    /// Consumes the walk directory by directory: a large tree should not be in memory twice.
    pub fn into_entries(mut self, mut take: impl FnMut(&[u8], &[u8], Option<Node>)) {
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
                ItemKind::Uncached(number) => match dir.news[number as usize].node() {
                    Some(node) => Some(node),
                    None => continue,
                },
            };
            take(&dir.path, item.name.of(&dir.names), node);
        }
    }

    /// Which directories have to be entries themselves: those in scope that have none, and those that have some and
    /// a mode of their own.
    fn dirs_that_are_entries(&self) -> Vec<bool> {
        let mut yields = vec![false; self.dirs.len()];
        let mut shown = vec![false; self.dirs.len()];
        for (number, dir) in self.dirs.iter().enumerate().rev() {
            let empty = !dir.items.iter().any(|item| match item.kind {
                ItemKind::Dir(child) => yields[child as usize],
                _ => true,
            });
            yields[number] = dir.in_scope || !empty;
            shown[number] = if empty { dir.in_scope } else { dir.mode != FileMode::DIR };
        }
        shown
    }
}

/// A step of going through a directory: an item as an entry, or down into it.
struct Step {
    item: u32,
    descends: bool,
}

impl WalkedDir {
    fn steps(&self, shown: &[bool]) -> Vec<Step> {
        let steps =
            self.items.iter().zip(0..).map(|(item, number)| Step { item: number, descends: item.is_dir() });
        let mut steps: Vec<Step> = steps.collect();
        let entries = steps.len();
        for (item, number) in self.items.iter().zip(0..) {
            if let ItemKind::Dir(child) = item.kind
                && shown[child as usize]
            {
                steps.push(Step { item: number, descends: false });
            }
        }
        if steps.len() > entries {
            let place = |step: &Step| (self.items[step.item as usize].name.of(&self.names), step.descends);
            // An entry `a` comes before `a-b`, and what is in it after.
            steps.sort_by(|a, b| path_order(place(a), place(b)));
        }
        steps
    }
}
