//! The path of an entry of a directory, made only when it is needed: an unchanged file is known by its directory and name.

use std::cell::OnceCell;

use crate::checkpoint::path::TreePath;

pub(super) struct EntryPath<'e> {
    dir: &'e [u8],
    name: &'e [u8],
    path: OnceCell<TreePath>,
}

impl<'e> EntryPath<'e> {
    pub fn new(dir: &'e [u8], name: &'e [u8]) -> Self {
        EntryPath { dir, name, path: OnceCell::new() }
    }

    pub fn get(&self) -> &TreePath {
        self.path.get_or_init(|| TreePath::joined(self.dir, self.name))
    }
}
