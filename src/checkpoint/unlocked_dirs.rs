//! Directories that this user had made unreadable for itself, opened for a while.

use std::cmp::Reverse;
use std::io;

use super::entry::{FileMode, Node};
use super::hash::ContentHash;
use super::path::{TreePath, dirs_above};
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

/// Reads a path: `None` if nothing is there, or something that no checkpoint holds.
fn present(root: &Root, path: &TreePath) -> io::Result<Option<Node>> {
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

/// Whether what is at a path is what one side of a diff expects. A diff has no entry for an ordinary directory that is not empty,
/// so such a directory agrees with no entry.
pub fn agrees(
    root: &Root,
    path: &TreePath,
    found: Option<&Node>,
    expected: Option<&Node>,
) -> io::Result<bool> {
    match (found, expected) {
        (Some(Node::Dir { mode }), None) => Ok(*mode == FileMode::DIR && !root.is_empty_dir(path)?),
        _ => Ok(found == expected),
    }
}
