//! What changed since a checkpoint.

use std::cmp::Ordering;

use super::entry::Node;
use super::hash::ContentHash;
use super::hashing::hash_missing;
use super::manifest::Manifest;
use super::path::{TreePath, dirs_above};
use super::progress::Progress;
use super::stat_cache::StatCache;
use super::tree::{Entry, Tree, combined_hash};
use super::unlocked_dirs::UnlockedDirs;
use super::walk::{Baseline, Walk, Walker};
use super::workspace::Workspace;
use crate::error::Result;

/// One path that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: TreePath,
    /// What the checkpoint has there.
    pub before: Option<Node>,
    /// What is there now.
    pub after: Option<Node>,
}

/// Everything that changed since a checkpoint.
///
/// While it lives, directories whose mode forbids looking into them stay open to this user; they get their
/// modes back when it goes.
pub struct Changes<'r> {
    /// By path.
    pub list: Vec<Change>,
    /// New things out of scope: a revert moves them away.
    pub beside: Vec<TreePath>,
    _opened: UnlockedDirs<'r>,
}

impl Workspace {
    /// Walks again and tells what is not as `manifest` has it.
    pub fn compare(&self, manifest: &Manifest, progress: &dyn Progress) -> Result<Changes<'_>> {
        let cache = StatCache::load(&self.cache_path);
        let walker = Walker {
            baseline: Some(Baseline {
                tree: &manifest.tree,
                rules: manifest.rules.by_dir(),
                coverage: &manifest.coverage,
            }),
            ..self.walker(&cache)
        };
        let mut walk = walker.walk()?;
        let opened = UnlockedDirs::new(&self.root, std::mem::take(&mut walk.opened));
        hash_missing(&self.root, &mut walk, None, true, progress)?;
        let beside = std::mem::take(&mut walk.beside);
        let mut list = differences(&manifest.tree, walk);
        add_dirs_that_stay(&manifest.tree, &mut list);
        Ok(Changes { list, beside, _opened: opened })
    }
}

impl Changes<'_> {
    /// The combined hash of the tree as it is now, given the checkpoint that it was compared with.
    pub fn hash_now(&self, before: &Tree) -> ContentHash {
        if self.list.iter().all(|change| change.before == change.after) {
            return before.hash();
        }
        combined_hash(self.entries_now(before))
    }

    /// The tree as it is now, likewise.
    pub fn entries_now<'e>(&'e self, before: &'e Tree) -> impl Iterator<Item = Entry<'e>> {
        let mut changes = self.list.iter().peekable();
        let mut old = before.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let Some(change) = changes.peek() else { return old.next() };
                let (dir, name) = change.path.split();
                match old.peek().map(|entry| entry.cmp_in(dir, name)) {
                    Some(Ordering::Less) => return old.next(),
                    Some(Ordering::Equal) => drop(old.next()),
                    Some(Ordering::Greater) | None => {}
                }
                let change = changes.next().expect("it was there above");
                if let Some(node) = change.after {
                    return Some(Entry::at(&change.path, node));
                }
            }
        })
    }
}

/// The paths at which a tree differs from what a walk found.
fn differences(before: &Tree, now: Walk) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut old = before.iter().peekable();
    let removed = |entry: Entry<'_>| Change { path: entry.path(), before: Some(entry.node), after: None };
    now.into_entries(|dir, name, node| {
        while let Some(entry) = old.next_if(|entry| entry.cmp_in(dir, name) == Ordering::Less) {
            changes.push(removed(entry));
        }
        let was = old.next_if(|entry| entry.cmp_in(dir, name) == Ordering::Equal).map(|entry| entry.node);
        if node.is_some() && node != was {
            changes.push(Change { path: TreePath::joined(dir, name), before: was, after: node });
        }
    });
    changes.extend(old.map(removed));
    changes
}

/// A directory with a mode of its own that lost its last entry, or got its first, is a change although it
/// did not change itself: whoever applies the diff has to know that it stays when it is empty.
fn add_dirs_that_stay(before: &Tree, changes: &mut Vec<Change>) {
    let came_or_went = changes.iter().filter(|change| change.before.is_none() || change.after.is_none());
    let mut staying = Vec::new();
    for path in dirs_above(came_or_went.map(|change| &change.path)) {
        let node = before.get(&path).filter(Node::is_dir);
        let changed = changes.binary_search_by(|change| change.path.cmp(&path)).is_ok();
        if node.is_some() && !changed && (before.is_empty_dir(&path) || is_empty_now(before, changes, &path))
        {
            staying.push(Change { path, before: node, after: node });
        }
    }
    if !staying.is_empty() {
        changes.extend(staying);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Whether nothing is left below a directory.
fn is_empty_now(before: &Tree, changes: &[Change], dir: &TreePath) -> bool {
    let below = [dir.as_bytes(), b"/"].concat();
    let start = changes.partition_point(|change| change.path.as_bytes() < &below[..]);
    let changes = &changes[start..];
    let end = changes.partition_point(|change| change.path.as_bytes().starts_with(&below));
    let changes = &changes[..end];
    let gone = changes.len();
    changes.iter().all(|change| change.after.is_none())
        && before.below(dir.as_bytes()).iter().take(gone + 1).count() == gone
}
