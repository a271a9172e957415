//! Where the two sides of a diff come from: the store, and the tree. Either is checked as it is read.

use std::io::{self, Read};

use super::entry::Node;
use super::hash::{ContentHash, Hasher};
use super::path::TreePath;
use super::root::Root;
use super::store::Store;
use crate::error::{Error, FailureReason, IoContext, Result};

/// Provides the content of a file or link, or fails if it is not the content that the node names.
pub trait ContentSource: Sync {
    /// The content as a stream, whose end is an error if the content does not have the node's hash.
    fn open(&self, path: &TreePath, node: &Node) -> Result<Box<dyn Read + '_>>;

    /// The whole content in memory, for files known to be small.
    fn read(&self, path: &TreePath, node: &Node) -> Result<Vec<u8>> {
        let size = node.content().map_or(0, |(_, size)| size);
        let mut out = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        self.open(path, node)?.read_to_end(&mut out).at("read", path.as_path())?;
        Ok(out)
    }
}

impl ContentSource for Store {
    fn open(&self, path: &TreePath, node: &Node) -> Result<Box<dyn Read + '_>> {
        let (hash, _) = node.content().ok_or_else(|| no_content(path))?;
        Ok(Box::new(self.reader(&hash)?))
    }

    fn read(&self, path: &TreePath, node: &Node) -> Result<Vec<u8>> {
        let (hash, _) = node.content().ok_or_else(|| no_content(path))?;
        Store::read(self, &hash)
    }
}

impl ContentSource for Root {
    fn open(&self, path: &TreePath, node: &Node) -> Result<Box<dyn Read + '_>> {
        let expected = node.content().ok_or_else(|| no_content(path))?;
        let inner: Box<dyn Read> = match node {
            Node::Symlink { .. } => {
                Box::new(io::Cursor::new(self.read_link(path).at("read", path.as_path())?))
            }
            _ => Box::new(self.open_file_forced(path).at("read", path.as_path())?),
        };
        Ok(Box::new(CheckedReader { inner, path: path.clone(), hasher: Some(Hasher::new()), expected }))
    }
}

fn no_content(path: &TreePath) -> Error {
    Error::integrity(format!("{path} is a directory and has no content"))
}

/// A file of the tree whose end is an error unless all of it had the expected hash.
struct CheckedReader<R> {
    inner: R,
    path: TreePath,
    hasher: Option<Hasher>,
    expected: (ContentHash, u64),
}

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&out[..n]);
        }
        if n == 0
            && !out.is_empty()
            && let Some(hasher) = self.hasher.take()
            && hasher.finish() != self.expected
        {
            let error = Error::failed(format!("{} changed while it was read", self.path));
            return Err(io::Error::other(error.because(FailureReason::ChangedWhileRead)));
        }
        Ok(n)
    }
}
