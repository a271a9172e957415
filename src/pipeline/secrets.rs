//! Likely secrets are no part of a checkpoint. That a routine changed one has to be told all the same.

use std::collections::BTreeMap;
use std::io::BufReader;

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;

/// What each of them was, by hash, in memory only.
pub struct Secrets(BTreeMap<TreePath, Option<ContentHash>>);

impl Secrets {
    /// Takes note of those that a checkpoint left out.
    pub fn remember(root: &Root, coverage: &Coverage) -> Self {
        Secrets(coverage.sensitive.iter().map(|path| (path.0.clone(), hash(root, &path.0))).collect())
    }

    /// Those that are not what they were.
    pub fn changed(&self, root: &Root) -> Vec<&TreePath> {
        self.0.iter().filter(|(path, was)| hash(root, path) != **was).map(|(path, _)| path).collect()
    }
}

fn hash(root: &Root, path: &TreePath) -> Option<ContentHash> {
    let file = root.open_file(path).ok()?;
    let mut buffer = vec![0; 1 << 16];
    ContentHash::of_reader(&mut BufReader::new(file), &mut buffer).ok().map(|(hash, _)| hash)
}
