//! What a walk is given.

use std::collections::HashMap;

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::checkpoint::sensitive::Sensitive;
use crate::checkpoint::stat_cache::StatCache;
use crate::checkpoint::store::StoreSnapshot;
use crate::checkpoint::tree::Tree;

/// The tree to walk, and everything that decides what is in scope.
pub struct WalkInput<'a> {
    pub root: &'a Root,
    pub cache: &'a StatCache,
    /// Decides which files are left out as likely secrets.
    pub sensitive: &'a Sensitive,
    /// A directory of decree's own inside the tree, such as a store; left out silently.
    pub own_dir: Option<&'a TreePath>,
    /// Files that decree's own output is redirected to (device, inode): their content changes with every line printed.
    pub outputs: &'a [(u64, u64)],
    /// What is stored, if the cache cannot be trusted in that: a file whose content is not stored is read again.
    pub stored: Option<StoreSnapshot>,
    pub baseline: Option<Baseline<'a>>,
}

/// The checkpoint to compare with.
pub struct Baseline<'a> {
    pub tree: &'a Tree,
    /// The ignore files of the checkpoint, by directory.
    pub rules: HashMap<&'a [u8], &'a [IgnoreFile]>,
    /// What the checkpoint leaves out.
    pub coverage: &'a Coverage,
}

impl Baseline<'_> {
    /// Whether the path existed at the checkpoint and was left out of it.
    pub fn excludes(&self, path: &TreePath) -> bool {
        self.coverage.is_sensitive(path) || self.coverage.is_special(path)
    }
}
