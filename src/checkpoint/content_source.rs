//! Where the two sides of a diff come from: the store, and the tree. Either is checked as it is read.

use std::io::{self, Read};

use super::entry::Node;
use super::hash::{ContentHash, Hasher};
use super::path::TreePath;
use super::root::Root;
use super::store::Store;
use crate::error::{Error, IoContext, Result};

/// Gives the content of a file or link, or fails if it is not the one that the node names.
pub trait ContentSource: Sync {
    /// As a stream, which ends in an error if it was not what it should have been.
    fn open(&self, path: &TreePath, node: &Node) -> Result<Box<dyn Read + '_>>;

    /// At once, for those known to be small.
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
        let (hash, size) = node.content().ok_or_else(|| no_content(path))?;
        let inner: Box<dyn Read> = match node {
            Node::Symlink { .. } => {
                Box::new(io::Cursor::new(self.read_link(path).at("read", path.as_path())?))
            }
            _ => Box::new(self.open_file_forced(path).at("read", path.as_path())?),
        };
        Ok(Box::new(CheckedReader::new(inner, hash, size)))
    }
}

fn no_content(path: &TreePath) -> Error {
    Error::integrity(format!("{path} is a directory and has no content"))
}

/// A reader whose end is an error unless all of it had the hash that was expected.
pub struct CheckedReader<R> {
    inner: R,
    hasher: Option<Hasher>,
    expected: (ContentHash, u64),
}

impl<R: Read> CheckedReader<R> {
    /// Expects this content.
    pub fn new(inner: R, hash: ContentHash, size: u64) -> Self {
        CheckedReader { inner, hasher: Some(Hasher::new()), expected: (hash, size) }
    }
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it changed while it was read"));
        }
        Ok(n)
    }
}
