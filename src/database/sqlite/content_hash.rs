//! The header of a database file, and the hash of its content.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::fs::atomic::fill;
use crate::interrupt::Interruptible;

/// The read and write version: 1 without a `-wal` file, 2 with one.
const VERSIONS: Range<usize> = 18..20;
/// SQLite's counters: they are different in every copy, and do not depend on what is in the database.
const COUNTERS: [Range<usize>; 4] = [
    VERSIONS,
    // The number of changes to the file.
    24..28,
    // The number of changes to the schema; a restore increments the one it finds, so that other programs notice.
    40..44,
    // The change for which the size in the header is valid, and the version of SQLite that wrote it.
    92..100,
];
/// How much is read at a time.
const BUFFER: usize = 1 << 18;

/// The size and hashes of a database file.
pub(super) struct DatabaseHashes {
    pub(super) bytes: u64,
    /// The hash of the whole file.
    pub(super) sha256: ContentHash,
    /// The hash with zeros in place of [`COUNTERS`].
    pub(super) content: ContentHash,
}

/// Reads a file once for both hashes.
pub(super) fn hashes(mut file: File) -> io::Result<DatabaseHashes> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = Interruptible(file);
    let mut buffer = vec![0; BUFFER];
    let (mut whole, mut content) = (Hasher::new(), Hasher::new());
    let mut first = true;
    loop {
        let n = fill(&mut reader, &mut buffer)?;
        if n == 0 {
            break;
        }
        whole.update(&buffer[..n]);
        if std::mem::take(&mut first) {
            let end = |range: &Range<usize>| range.start.min(n)..range.end.min(n);
            COUNTERS.iter().for_each(|range| buffer[end(range)].fill(0));
        }
        content.update(&buffer[..n]);
    }
    let (sha256, bytes) = whole.finish();
    Ok(DatabaseHashes { bytes, sha256, content: content.finish().0 })
}

/// Whether the header announces a `-wal` file.
pub(super) fn is_wal(file: &File) -> io::Result<bool> {
    let mut versions = [0; 2];
    file.read_exact_at(&mut versions, VERSIONS.start as u64)?;
    Ok(versions == [2, 2])
}

/// Changes whether the header announces a `-wal` file. Only for files that no program has open.
pub(super) fn set_wal(file: &File, wal: bool) -> io::Result<()> {
    let version = if wal { 2 } else { 1 };
    file.write_all_at(&[version; 2], VERSIONS.start as u64)
}
