//! Directories that this user had made unreadable for itself, opened for a while.

use std::cmp::Reverse;
use std::io;

use super::entry::{FileMode, Node};
use super::path::{TreePath, dirs_above};
use super::restore::present;
use super::root::{PathKind, Root};

/// What the owner needs to look into a directory.
const READABLE: u32 = 0o500;

/// Directories that were opened; they get their modes back when this goes.
pub struct UnlockedDirs<'r> {
    root: &'r Root,
    dirs: Vec<(TreePath, FileMode)>,
}

impl<'r> UnlockedDirs<'r> {
    /// Takes over directories that are open already, with the modes they had.
    pub fn new(root: &'r Root, dirs: Vec<(TreePath, FileMode)>) -> Self {
        UnlockedDirs { root, dirs }
    }

    /// Opens every closed directory above these paths, as far as that is needed to look into it.
    pub fn above<'p>(root: &'r Root, paths: impl Iterator<Item = &'p TreePath>) -> io::Result<Self> {
        let mut opened = UnlockedDirs::new(root, Vec::new());
        if rustix::process::geteuid().is_root() {
            return Ok(opened);
        }
        // Sorted: parents come before their children.
        for dir in dirs_above(paths) {
            opened.open(&dir)?;
        }
        Ok(opened)
    }

    fn open(&mut self, dir: &TreePath) -> io::Result<()> {
        match self.root.find(dir)? {
            Some(found) if found.kind == PathKind::Dir && found.mode.bits() & READABLE != READABLE => {
                match self.root.set_mode(dir, FileMode::from_bits(found.mode.bits() | READABLE)) {
                    Ok(()) => self.dirs.push((dir.clone(), found.mode)),
                    // Somebody else's: they may still have given us what we need.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is at a path, with the mode that it really has.
    pub fn present(&self, path: &TreePath) -> io::Result<Option<Node>> {
        Ok(match present(self.root, path)? {
            Some(Node::Dir { mode }) => Some(Node::Dir { mode: self.real_mode(path).unwrap_or(mode) }),
            found => found,
        })
    }

    /// The mode that an opened directory really has.
    pub fn real_mode(&self, dir: &TreePath) -> Option<FileMode> {
        self.dirs.iter().find(|(path, _)| path == dir).map(|(_, mode)| *mode)
    }

    /// Leaves the modes to somebody else.
    pub fn forget(&mut self) {
        self.dirs.clear();
    }
}

impl Drop for UnlockedDirs<'_> {
    fn drop(&mut self) {
        // Children before parents: a closed parent would keep us from its children.
        self.dirs.sort_by_key(|(path, _)| Reverse(path.depth()));
        for (path, mode) in self.dirs.drain(..) {
            let _ = self.root.set_mode(&path, mode);
        }
    }
}
