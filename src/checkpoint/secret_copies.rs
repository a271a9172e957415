//! Copies of likely secrets under other names: they are secrets, too, unless a checkpoint holds the same content already.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::hash::ContentHash;
use super::path::TreePath;
use super::root::{PathKind, Root};
use super::tree::Tree;
use super::walk::Walk;

/// Shorter contents are not compared with those of likely secrets: an empty file is a copy of every other.
const MIN_SECRET: u64 = 8;
/// Larger likely secrets are not compared either.
const MAX_SECRET: u64 = 256 << 10;

/// The contents of likely secrets that were in the tree.
#[derive(Debug, Default)]
pub struct NotedSecrets(Mutex<HashSet<ContentHash>>);

impl NotedSecrets {
    /// From now on files with these contents, each with its size, are likely secrets, whatever their names.
    pub fn note(&self, contents: impl IntoIterator<Item = (ContentHash, u64)>) {
        let contents = contents.into_iter().filter(|(_, size)| *size >= MIN_SECRET);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(contents.map(|(hash, _)| hash));
    }

    /// The contents that were noted, and those of the likely secrets that a walk found, unless the checkpoint `before` holds them.
    pub fn contents(&self, root: &Root, walk: &Walk, before: &Tree) -> HashSet<ContentHash> {
        let read = |path: &TreePath| secret_content(root, path);
        let mut secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        secrets.extend(walk.coverage.sensitive.iter().filter_map(read).map(|(hash, _)| hash));
        if !secrets.is_empty() {
            // There are few secrets and many entries.
            let mut sorted: Vec<ContentHash> = secrets.iter().copied().collect();
            sorted.sort_unstable();
            let contents = before.iter().filter_map(|entry| entry.node.content());
            let held: Vec<ContentHash> =
                contents.map(|(hash, _)| hash).filter(|hash| sorted.binary_search(hash).is_ok()).collect();
            secrets.retain(|hash| !held.contains(hash));
        }
        secrets
    }
}

/// The content of a likely secret and its size, if its copies are recognized.
pub fn secret_content(root: &Root, path: &TreePath) -> Option<(ContentHash, u64)> {
    let found = root.find(path).ok().flatten()?;
    if found.kind != PathKind::File || !(MIN_SECRET..=MAX_SECRET).contains(&found.size) {
        return None;
    }
    ContentHash::of_reader(&mut root.open_file(path).ok()?, &mut vec![0; 1 << 16]).ok()
}

/// Takes files with these contents out of what a walk found.
pub fn withhold_copies(walk: &mut Walk, secrets: &HashSet<ContentHash>) {
    if secrets.is_empty() {
        return;
    }
    let withheld = walk.withhold(|hash| secrets.contains(hash));
    if !withheld.is_empty() {
        walk.out_of_scope.extend_from_slice(&withheld);
        walk.out_of_scope.sort();
        walk.coverage.sensitive.extend(withheld);
        walk.coverage.sensitive.sort();
    }
}
