//! What is at a path of the tree right now, read from disk.

use std::io;

use super::entry::{FileMode, Node};
use super::hash::ContentHash;
use super::path::TreePath;
use super::root::{PathKind, Root};

/// Reads a path: `None` if nothing is there, or something that no checkpoint holds.
pub fn read_node(root: &Root, path: &TreePath) -> io::Result<Option<Node>> {
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
