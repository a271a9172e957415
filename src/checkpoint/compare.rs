//! What changed since a checkpoint.

use super::entry::{Entry, Mode, Node, Tree};
use super::hash::ContentHash;
use super::hashing::hash_missing;
use super::manifest::Manifest;
use super::path::TreePath;
use super::progress::Progress;
use super::root::Root;
use super::stat_cache::StatCache;
use super::walk::{Baseline, Walker};
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
    /// The combined hash of the tree as it is now.
    pub tree_hash: ContentHash,
    opened: Opened<'r>,
}

impl Changes<'_> {
    /// Closes the opened directories again; also happens when this goes.
    pub fn close(&mut self) {
        self.opened.close();
    }
}

/// Directories that were made readable.
struct Opened<'r> {
    root: &'r Root,
    dirs: Vec<(TreePath, Mode)>,
}

impl Opened<'_> {
    fn close(&mut self) {
        // Children before parents: a closed parent would keep us from its children.
        self.dirs.sort_by_key(|(path, _)| std::cmp::Reverse(path.depth()));
        for (path, mode) in self.dirs.drain(..) {
            let _ = self.root.set_mode(&path, mode);
        }
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.close();
    }
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
        let opened = Opened { root: &self.root, dirs: std::mem::take(&mut walk.opened) };
        hash_missing(&self.root, &mut walk, None, true, progress)?;
        let now = walk.to_tree();
        Ok(Changes {
            list: differences(&manifest.tree, &now),
            beside: walk.beside,
            tree_hash: now.hash(),
            opened,
        })
    }
}

/// The paths at which two trees differ.
///
/// A directory with a mode of its own that lost its last entry, or got its first, is among them although it
/// did not change itself: whoever applies the diff has to know that it stays when it is empty.
pub fn differences(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut changes = plain_differences(before, after);
    let mut staying = Vec::new();
    for change in &changes {
        if change.before.is_some() && change.after.is_some() {
            continue;
        }
        for dir in change.path.ancestors() {
            let stays = before.get(&dir).filter(|node| after.get(&dir) == Some(*node));
            if let Some(node) = stays
                && (before.is_empty_dir(&dir) || after.is_empty_dir(&dir))
            {
                staying.push(Change { path: dir, before: Some(*node), after: Some(*node) });
            }
        }
    }
    if !staying.is_empty() {
        changes.extend(staying);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes.dedup_by(|a, b| a.path == b.path);
    }
    changes
}

fn plain_differences(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut old, mut new) = (before.entries(), after.entries());
    loop {
        let order = match (old.first(), new.first()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.path.cmp(&b.path),
        };
        let take = |side: &mut &[Entry]| {
            let (entry, rest) = side.split_first().expect("the order was taken from it");
            *side = rest;
            entry.clone()
        };
        let (path, was, is) = match order {
            std::cmp::Ordering::Less => {
                let entry = take(&mut old);
                (entry.path, Some(entry.node), None)
            }
            std::cmp::Ordering::Greater => {
                let entry = take(&mut new);
                (entry.path, None, Some(entry.node))
            }
            std::cmp::Ordering::Equal => {
                let (a, b) = (&old[0], &new[0]);
                if a.node == b.node {
                    (old, new) = (&old[1..], &new[1..]);
                    continue;
                }
                (take(&mut old).path, Some(a.node), Some(take(&mut new).node))
            }
        };
        changes.push(Change { path, before: was, after: is });
    }
}
