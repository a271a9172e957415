//! Room on a file system that stays free for what has to be written later, whatever fills the disk until then.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags};

/// How many inodes are reserved at most, because each takes a descriptor.
const MAX_INODES: usize = 256;

/// Room that nothing else can take, until this is dropped: files without names and without content, so that a kill leaves nothing. The
/// first has the blocks; the others are there for their inodes.
#[derive(Debug)]
pub struct ReservedRoom {
    _files: Vec<OwnedFd>,
}

impl ReservedRoom {
    /// Reserves room for files of these sizes, each with a directory and attributes of its own, on the file system of `dir`. `None` if
    /// there is not enough, or if the file system cannot do that.
    pub fn for_files(dir: &Path, sizes: impl Iterator<Item = u64>) -> Option<ReservedRoom> {
        /// For each file: its attributes, the directory it is in, and the one that what is in its place moves to.
        const BLOCKS_BESIDE: u64 = 3;
        /// For each file: its own, and those of these two directories.
        const INODES: usize = 3;
        let block = rustix::fs::statvfs(dir).ok()?.f_frsize.max(512);
        let blocks: Vec<u64> = sizes.map(|size| size.div_ceil(block) + BLOCKS_BESIDE).collect();
        let first = unnamed_file(dir).filter(|_| !blocks.is_empty())?;
        rustix::fs::fallocate(&first, FallocateFlags::empty(), 0, blocks.iter().sum::<u64>() * block).ok()?;
        let others = (1..(blocks.len() * INODES).min(MAX_INODES)).map_while(|_| unnamed_file(dir));
        Some(ReservedRoom { _files: std::iter::once(first).chain(others).collect() })
    }
}

fn unnamed_file(dir: &Path) -> Option<OwnedFd> {
    // With EXCL it can never get a name.
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, dir, flags, Mode::from_raw_mode(0o600)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn reserved_room_has_no_name_and_none_is_reserved_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(ReservedRoom::for_files(dir.path(), std::iter::empty()).is_none());
        let _room = ReservedRoom::for_files(dir.path(), [1, 70_000].into_iter());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(ReservedRoom::for_files(&dir.path().join("none"), [1].into_iter()).is_none());
    }
}
