//! Directories whose mode forbids their owner to list them, made readable for a while.

use std::cmp::Reverse;
use std::io;

use super::disk_node::read_node;
use super::entry::{FileMode, Node};
use super::path::{TreePath, dirs_above};
use super::root::{PathKind, Root};

/// The bits that the owner needs to list a directory and to look names up in it.
const READABLE: u32 = 0o500;

/// Directories that were made readable; dropping it restores their modes.
pub struct UnlockedDirs<'r> {
    root: &'r Root,
    dirs: Vec<(TreePath, FileMode)>,
}

impl<'r> UnlockedDirs<'r> {
    /// Takes over directories that were made readable already, with the modes they had.
    pub fn new(root: &'r Root, dirs: Vec<(TreePath, FileMode)>) -> Self {
        UnlockedDirs { root, dirs }
    }

    /// Makes every directory above these paths readable.
    pub fn above<'p>(root: &'r Root, paths: impl Iterator<Item = &'p TreePath>) -> io::Result<Self> {
        let mut unlocked = UnlockedDirs::new(root, Vec::new());
        if rustix::process::geteuid().is_root() {
            return Ok(unlocked);
        }
        // Sorted: parents come before their children.
        for dir in dirs_above(paths) {
            unlocked.unlock(&dir)?;
        }
        Ok(unlocked)
    }

    fn unlock(&mut self, dir: &TreePath) -> io::Result<()> {
        match self.root.find(dir)? {
            Some(found) if found.kind == PathKind::Dir && found.mode.bits() & READABLE != READABLE => {
                match self.root.set_mode(dir, FileMode::from_bits(found.mode.bits() | READABLE)) {
                    Ok(()) => self.dirs.push((dir.clone(), found.mode)),
                    // Another user's directory: its group or other bits may still let this user in.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is at a path, with a directory's original mode.
    pub fn present(&self, path: &TreePath) -> io::Result<Option<Node>> {
        Ok(match read_node(self.root, path)? {
            Some(Node::Dir { mode }) => Some(Node::Dir { mode: self.real_mode(path).unwrap_or(mode) }),
            found => found,
        })
    }

    /// The mode that a directory had before it was made readable.
    pub fn real_mode(&self, dir: &TreePath) -> Option<FileMode> {
        self.dirs.iter().find(|(path, _)| path == dir).map(|(_, mode)| *mode)
    }

    /// Leaves restoring the modes to the caller.
    pub fn forget(&mut self) {
        self.dirs.clear();
    }
}

impl Drop for UnlockedDirs<'_> {
    fn drop(&mut self) {
        // Children before parents: an unreadable parent makes its children inaccessible.
        self.dirs.sort_by_key(|(path, _)| Reverse(path.depth()));
        for (path, mode) in self.dirs.drain(..) {
            let _ = self.root.set_mode(&path, mode);
        }
    }
}
