//! What is at a path of the tree right now, even below directories whose mode forbids their owner to list them: those
//! are made readable for a while.

use std::cmp::Reverse;
use std::io;

use super::entry::{FileMode, Node};
use super::hash::ContentHash;
use super::path::{TreePath, dirs_above};
use super::root::{PathKind, Root};
use crate::error::{IoContext, Result};

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

    pub fn any(&self) -> bool {
        !self.dirs.is_empty()
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

    /// Does something while the directories have their own modes.
    pub fn while_locked<T>(&mut self, work: impl FnOnce() -> T) -> T {
        // Children before parents: an unreadable parent makes its children inaccessible.
        self.dirs.sort_by_key(|(path, _)| Reverse(path.depth()));
        for (path, mode) in &self.dirs {
            let _ = self.root.set_mode(path, *mode);
        }
        let done = work();
        for (path, mode) in self.dirs.iter().rev() {
            let _ = self.root.set_mode(path, FileMode::from_bits(mode.bits() | 0o700));
        }
        done
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

/// Reads a path: `None` if nothing is there, or something that no checkpoint holds.
fn read_node(root: &Root, path: &TreePath) -> io::Result<Option<Node>> {
    let Some(found) = root.find(path)? else {
        return Ok(None);
    };
    Ok(match found.kind {
        PathKind::Dir => Some(Node::Dir { mode: found.mode }),
        PathKind::Symlink => {
            let target = root.read_link(path)?;
            Some(Node::Symlink { hash: ContentHash::of(&target), size: target.len() as u64 })
        }
        PathKind::File => {
            let mut file = root.open_file_forced(path)?;
            let (hash, size) = ContentHash::of_reader(&mut file, &mut vec![0; 1 << 16])?;
            Some(Node::File { hash, size, mode: found.mode })
        }
        PathKind::Special => None,
    })
}

/// Whether the node found at a path is the one expected there. A diff has no entry for an ordinary directory that
/// exists only because of its contents, so expecting nothing may still mean such a directory.
pub fn agrees(root: &Root, path: &TreePath, found: Option<&Node>, expected: Option<&Node>) -> Result<bool> {
    match (found, expected) {
        (Some(Node::Dir { mode }), None) => {
            Ok(*mode == FileMode::DIR && !root.is_empty_dir(path).at("read", path)?)
        }
        _ => Ok(found == expected),
    }
}
