//! What a walk found, and the tree that it makes.

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{Entry, Mode, Node, Tree};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::stat_cache::Stat;

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
    pub opened: Vec<(TreePath, Mode)>,
}

/// One directory.
pub struct WalkedDir {
    /// Relative to the root, which is empty.
    pub path: Box<[u8]>,
    /// The rules in force in it.
    pub fingerprint: [u8; 16],
    /// Its entries in scope, in the order of their paths.
    pub items: Vec<Item>,
    /// How many names the cache has here, if it was made under the same rules.
    pub cached_names: Option<usize>,
    /// Permissions.
    pub(super) mode: Mode,
    /// Whether it has to be an entry when it is empty.
    pub in_scope: bool,
}

/// One entry in scope.
pub struct Item {
    /// In its directory.
    pub name: Box<[u8]>,
    /// What it is.
    pub kind: ItemKind,
}

/// What an entry is.
pub enum ItemKind {
    /// A file; its hash if the cache knows it.
    File {
        /// Before its content was read.
        stat: Stat,
        /// Of its content.
        hash: Option<ContentHash>,
        /// Whether the cache already says so, to be trusted.
        cached: bool,
    },
    /// A link.
    Symlink {
        /// Where it leads.
        target: Box<[u8]>,
        /// Of its target.
        hash: ContentHash,
        /// Whether the cache already says so.
        cached: bool,
    },
    /// A directory, by its number in [`Walk::dirs`].
    Dir(usize),
}

impl Item {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, ItemKind::Dir(_))
    }
}

impl Walk {
    /// The entries of a manifest. Every file's hash has to be known by now.
    ///
    /// Consumes the walk directory by directory: a large tree should not be in memory twice.
    pub fn into_tree(mut self) -> Tree {
        let yields = self.dirs_that_yield();
        let mut entries = Vec::with_capacity(self.dirs.iter().map(|dir| dir.items.len()).sum());
        let mut stack = vec![(0, std::mem::take(&mut self.dirs[0].items).into_iter())];
        while let Some((number, items)) = stack.last_mut() {
            let Some(item) = items.next() else {
                stack.pop();
                continue;
            };
            let path = TreePath::joined(&self.dirs[*number].path, &item.name);
            match item.kind {
                ItemKind::File { stat, hash, .. } => entries.push(Entry {
                    path,
                    node: Node::File {
                        hash: hash.expect("hashed before the tree is asked for"),
                        size: stat.size,
                        mode: Mode::from_bits(stat.mode),
                    },
                }),
                ItemKind::Symlink { target, hash, .. } => {
                    let size = target.len() as u64;
                    entries.push(Entry { path, node: Node::Symlink { hash, size } });
                }
                ItemKind::Dir(child) => {
                    let inner = &self.dirs[child];
                    let empty = !inner.items.iter().any(|item| match item.kind {
                        ItemKind::Dir(grandchild) => yields[grandchild],
                        _ => true,
                    });
                    let odd = inner.mode != Mode::DIR;
                    if (empty && inner.in_scope) || (!empty && odd) {
                        entries.push(Entry { path, node: Node::Dir { mode: inner.mode } });
                    }
                    stack.push((child, std::mem::take(&mut self.dirs[child].items).into_iter()));
                }
            }
        }
        // Almost in order: an empty `a` comes after `a-b`, as `a/…` would.
        entries.into_iter().collect()
    }

    /// Which directories have entries in the end: those in scope, and those with something in scope below.
    fn dirs_that_yield(&self) -> Vec<bool> {
        let mut yields = vec![false; self.dirs.len()];
        for (number, dir) in self.dirs.iter().enumerate().rev() {
            yields[number] = dir.in_scope
                || dir.items.iter().any(|item| match item.kind {
                    ItemKind::Dir(child) => yields[child],
                    _ => true,
                });
        }
        yields
    }
}
