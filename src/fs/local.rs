//! File systems on which every change goes through this kernel, so that what it says of times and changes is true.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The types, as `statfs` numbers them: ext, XFS, Btrfs, tmpfs, F2FS, ZFS, bcachefs. Not among them: file systems of networks, of user
/// space, and of layers, where another machine or program may change files, or directories have made-up times.
const TYPES: [u64; 7] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E];

/// Whether a path is on such a file system.
pub fn is_local(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| TYPES.contains(&found.f_type.unsigned_abs()))
}

/// The device of a path, if it is on such a file system.
pub fn local_device(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|found| found.dev()).filter(|_| is_local(path))
}
