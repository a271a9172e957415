//! The first bytes of a database file, and the hash of what is in it.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::fs::atomic::fill;
use crate::interrupt::Interruptible;

/// Says twice, for readers and for writers, whether there is a `-wal` file: 1 for no, 2 for yes.
const VERSIONS: Range<usize> = 18..20;
/// What SQLite counts and notes for itself: it is different in every copy, and says nothing of what is in the database.
const OWN: [Range<usize>; 4] = [
    VERSIONS,
    // How often the file was changed.
    24..28,
    // How often the schema was changed; a restore counts on from what it finds, so that other programs notice.
    40..44,
    // At which change the size in the header was right, and which SQLite wrote it.
    92..100,
];
/// Read at a time.
const BUFFER: usize = 1 << 18;

/// What a database file is, by its bytes.
pub(super) struct DatabaseHashes {
    pub(super) bytes: u64,
    /// Of all of it.
    pub(super) sha256: ContentHash,
    /// Of all but [`OWN`], for which there are zeros.
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
            OWN.iter().for_each(|range| buffer[end(range)].fill(0));
        }
        content.update(&buffer[..n]);
    }
    let (sha256, bytes) = whole.finish();
    Ok(DatabaseHashes { bytes, sha256, content: content.finish().0 })
}

/// Whether the header says that there is a `-wal` file.
pub(super) fn is_wal(file: &File) -> io::Result<bool> {
    let mut versions = [0; 2];
    file.read_exact_at(&mut versions, VERSIONS.start as u64)?;
    Ok(versions == [2, 2])
}

/// Makes the header say so, or not. Only for files that nobody has open.
pub(super) fn set_wal(file: &File, wal: bool) -> io::Result<()> {
    let version = if wal { 2 } else { 1 };
    file.write_all_at(&[version; 2], VERSIONS.start as u64)
}
