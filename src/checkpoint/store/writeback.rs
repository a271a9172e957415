//! Has the kernel write a pack to the disk while it grows, so that the sync at its end does not wait for all of it.

use std::fs::File;
use std::num::NonZeroU64;
use std::sync::Arc;

use rustix::fs::Advice;

/// So many bytes at a time.
const PIECE: u64 = 8 << 20;

/// How far the kernel was asked to write a file to the disk.
#[derive(Default)]
pub struct Writeback {
    asked: u64,
}

impl Writeback {
    /// The part of a file of `length` bytes that is to be written next, if it is large enough.
    pub fn take(&mut self, file: &Arc<File>, length: u64) -> Option<FilePart> {
        let size = NonZeroU64::new(length - self.asked).filter(|size| size.get() >= PIECE)?;
        let offset = std::mem::replace(&mut self.asked, length);
        Some(FilePart { file: Arc::clone(file), offset, size })
    }
}

/// A part of a file that may be in memory only.
pub struct FilePart {
    file: Arc<File>,
    offset: u64,
    size: NonZeroU64,
}

impl FilePart {
    /// Does not wait for the disk. An error of the disk is returned by the sync at the end: `fdatasync` in another thread, which would
    /// write as well, would take the error away from it.
    pub fn begin_writing(&self) {
        // Linux begins to write what is changed before it drops what is not.
        let _ = rustix::fs::fadvise(&*self.file, self.offset, Some(self.size), Advice::DontNeed);
    }
}
