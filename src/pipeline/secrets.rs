//! Likely secrets are in no checkpoint. A routine that changes one is reported all the same.

use std::collections::BTreeMap;
use std::io::BufReader;

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;

/// The hash of every likely secret, in memory only.
pub struct SecretHashes(BTreeMap<TreePath, Option<ContentHash>>);

impl SecretHashes {
    /// Hashes the files that a checkpoint left out as likely secrets.
    pub fn of(root: &Root, coverage: &Coverage) -> Self {
        SecretHashes(coverage.sensitive.iter().map(|path| (path.clone(), hash(root, path))).collect())
    }

    /// The paths whose content differs now.
    pub fn changed(&self, root: &Root) -> Vec<&TreePath> {
        self.0.iter().filter(|(path, was)| hash(root, path) != **was).map(|(path, _)| path).collect()
    }
}

fn hash(root: &Root, path: &TreePath) -> Option<ContentHash> {
    let file = root.open_file(path).ok()?;
    let mut buffer = vec![0; 1 << 16];
    ContentHash::of_reader(&mut BufReader::new(file), &mut buffer).ok().map(|(hash, _)| hash)
}
