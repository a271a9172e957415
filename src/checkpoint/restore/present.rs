//! What really stands at a path, read from the disk.

use std::io;

use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::{PathKind, Root};

/// Reads a path: `None` if nothing is there, or something that no checkpoint holds.
pub fn present(root: &Root, path: &TreePath) -> io::Result<Option<Node>> {
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

/// Whether what is at a path is what a side of a diff says. No entry may still mean a directory: an ordinary one
/// that is there because of what is in it.
pub fn agrees(root: &Root, path: &TreePath, found: Option<&Node>, said: Option<&Node>) -> io::Result<bool> {
    match (found, said) {
        (Some(Node::Dir { mode }), None) => Ok(*mode == FileMode::DIR && !root.is_empty_dir(path)?),
        _ => Ok(found == said),
    }
}
