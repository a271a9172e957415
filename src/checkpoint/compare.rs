//! What changed since a checkpoint.

use super::entry::{Entry, Node, Tree};
use super::hashing::hash_missing;
use super::manifest::Manifest;
use super::opened::Opened;
use super::path::TreePath;
use super::progress::Progress;
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
    /// The tree as it is now.
    pub now: Tree,
    _opened: Opened<'r>,
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
        let opened = Opened::new(&self.root, std::mem::take(&mut walk.opened));
        hash_missing(&self.root, &mut walk, None, true, progress)?;
        let beside = std::mem::take(&mut walk.beside);
        let now = walk.into_tree();
        Ok(Changes { list: differences(&manifest.tree, &now), beside, now, _opened: opened })
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
