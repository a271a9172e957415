//! What a file had that decree's output is appended to, before a routine or a guarded command may overwrite it in its place.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::held_file::write_aside;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::error::Result;

/// The most bytes of one file that are held.
const MAX_HELD: u64 = 16 << 20;
/// How much of a larger file is hashed, to notice that it was overwritten.
const MAX_HASHED: u64 = 256 << 20;

pub(super) struct FormerOutput {
    pub mode: FileMode,
    size: u64,
    /// Of as many bytes as are hashed; `None` if the file cannot be read.
    hash: Option<ContentHash>,
    /// `None` if it is too large or cannot be read.
    bytes: Option<Vec<u8>>,
}

impl FormerOutput {
    /// What the file has, and its mode. `open` opens it for reading.
    pub fn read(size: u64, mode: FileMode, open: impl Fn() -> io::Result<File>) -> FormerOutput {
        if size > MAX_HELD {
            let hash = open().and_then(|file| hash_of(file, size)).ok();
            return FormerOutput { mode, size, hash, bytes: None };
        }
        let read = || {
            let mut bytes = Vec::new();
            open()?.take(size).read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = read().ok();
        let hash = bytes.as_deref().map(ContentHash::of);
        FormerOutput { mode, size, hash, bytes }
    }

    /// Whether the file no longer begins with what it had. Where it cannot be read, then or now, only its length tells.
    pub fn was_overwritten(&self, size_now: u64, open: impl Fn() -> io::Result<File>) -> bool {
        let is_other =
            |former| open().and_then(|file| hash_of(file, self.size)).is_ok_and(|now| now != former);
        size_now < self.size || self.hash.is_some_and(is_other)
    }

    /// Writes what it had to the quarantine; returns the place.
    pub fn set_aside(&self, path: &TreePath, set_aside: &Path) -> Option<Result<PathBuf>> {
        self.bytes.as_ref().map(|bytes| write_aside(path, bytes, set_aside))
    }

    /// Why what it had is lost.
    pub fn why_lost(&self) -> &'static str {
        if self.hash.is_some() { "was too large to be held in memory" } else { "could not be read" }
    }
}

/// The hash of the first `size` bytes, or of as many as are hashed.
fn hash_of(file: File, size: u64) -> io::Result<ContentHash> {
    let mut beginning = file.take(size.min(MAX_HASHED));
    ContentHash::of_reader(&mut beginning, &mut vec![0; 1 << 16]).map(|(hash, _)| hash)
}
