//! Room on a file system that stays free for what has to be written later, whatever fills the disk until then.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags};

/// Room that nothing else can take, until this is dropped. It is a file without a name and without content: a kill leaves nothing.
#[derive(Debug)]
pub struct ReservedRoom {
    _file: OwnedFd,
}

impl ReservedRoom {
    /// Reserves room for files of these sizes, each with a directory and attributes of its own, on the file system of `dir`. `None` if
    /// there is not enough, or if the file system cannot do that.
    pub fn for_files(dir: &Path, sizes: impl Iterator<Item = u64>) -> Option<ReservedRoom> {
        /// For each file: its attributes, the directory it is in, and the one that what is in its place moves to.
        const BLOCKS_BESIDE: u64 = 3;
        let block = rustix::fs::statvfs(dir).ok()?.f_frsize.max(512);
        let bytes = sizes.map(|size| (size.div_ceil(block) + BLOCKS_BESIDE) * block).sum::<u64>();
        if bytes == 0 {
            return None;
        }
        // With EXCL it can never get a name.
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, dir, flags, Mode::from_raw_mode(0o600)).ok()?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).ok()?;
        Some(ReservedRoom { _file: file })
    }
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
