//! The index as a file: read as it is, and replaced byte for byte under git's own lock.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Error, IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::git::INDEX_LOCK;

/// The index in a git directory.
pub const INDEX: &str = "index";
/// The next index before it is the lock. The name is fixed, so that one which a killed process left is replaced.
const NEXT: &str = "index.decree-restore";

/// An index that is open. git replaces the file and never changes it, so that its content stays the same.
#[derive(Debug)]
pub struct IndexFile {
    pub file: File,
    /// Nanoseconds since 1970. git compares them with the times of files to find those that may have changed unnoticed.
    pub modified: i64,
    pub mode: u32,
}

/// An index to be restored.
pub struct IndexSource<'s> {
    pub content: Box<dyn Read + 's>,
    pub modified: i64,
    pub mode: u32,
}

impl IndexFile {
    /// Opens the index; a repository in which nothing was added has none.
    pub fn open(git_dir: &Path) -> Result<Option<IndexFile>> {
        IndexFile::open_at(&git_dir.join(INDEX))
    }

    pub(super) fn open_at(path: &Path) -> Result<Option<IndexFile>> {
        let Some(file) = File::open(path).if_exists().at("read", path)? else { return Ok(None) };
        let found = file.metadata().at("read", path)?;
        let modified = found.mtime() * 1_000_000_000 + found.mtime_nsec();
        Ok(Some(IndexFile { file, modified, mode: found.mode() & 0o777 }))
    }

    /// Goes back to the beginning.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.file.rewind()
    }
}

/// The next index, complete and under git's lock.
#[must_use = "it is in place only after `place`"]
pub(super) struct LockedIndex {
    git_dir: PathBuf,
    /// Whether there is to be an index at all.
    exists: bool,
    placed: bool,
}

impl LockedIndex {
    /// Writes the next index and makes it the lock in one step, so that a lock which a killed process leaves is complete. Such a lock
    /// is taken over; any other one is an error.
    pub fn write(git_dir: &Path, source: Option<IndexSource<'_>>) -> Result<LockedIndex> {
        let (next, lock) = (git_dir.join(NEXT), git_dir.join(INDEX_LOCK));
        fs::remove_file(&next).if_exists().at("remove", &next)?;
        let exists = source.is_some();
        write_next(&next, source)?;
        let linked = match fs::hard_link(&next, &lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if same_content(&next, &lock).at("read", &lock)? { Ok(()) } else { Err(taken(&lock)) }
            }
            // A file system without hard links.
            Err(_) => copy_new(&next, &lock),
            Ok(()) => Ok(()),
        };
        let removed = fs::remove_file(&next).at("remove", &next);
        linked.and(removed)?;
        Ok(LockedIndex { git_dir: git_dir.to_owned(), exists, placed: false })
    }

    /// Replaces the index, which releases the lock. A directory in its place moves to `aside`.
    pub fn place(mut self, aside: &Path) -> Result<()> {
        let (lock, index) = (self.git_dir.join(INDEX_LOCK), self.git_dir.join(INDEX));
        if fs::symlink_metadata(&index).is_ok_and(|found| found.is_dir()) {
            move_to_free_name(&index, |number| numbered(aside, ".", number))?;
        }
        self.placed = true;
        if self.exists {
            return fs::rename(&lock, &index).at("write", &index);
        }
        fs::remove_file(&index).if_exists().at("remove", &index)?;
        fs::remove_file(&lock).at("remove", &lock)
    }
}

impl Drop for LockedIndex {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_file(self.git_dir.join(INDEX_LOCK));
        }
    }
}

fn taken(lock: &Path) -> Error {
    Error::failed(format!("{} exists: another git process uses the index, or was killed", lock.display()))
        .hint("wait for it; if none is running, remove that file")
}

fn write_next(next: &Path, source: Option<IndexSource<'_>>) -> Result<()> {
    let mut file = File::create_new(next).at("create", next)?;
    let Some(mut source) = source else { return Ok(()) };
    io::copy(&mut source.content, &mut file).at("write", next)?;
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(source.modified.max(0).unsigned_abs());
    file.set_permissions(fs::Permissions::from_mode(source.mode))
        .and_then(|()| file.set_modified(time))
        .and_then(|()| file.sync_all())
        .at("write", next)
}

fn copy_new(next: &Path, lock: &Path) -> Result<()> {
    let mut out = match File::create_new(lock) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(taken(lock)),
        out => out.at("create", lock)?,
    };
    let mut source = File::open(next).at("read", next)?;
    let found = source.metadata().at("read", next)?;
    io::copy(&mut source, &mut out)
        .and_then(|_| out.set_permissions(found.permissions()))
        .and_then(|()| out.set_modified(found.modified()?))
        .and_then(|()| out.sync_all())
        .at("write", lock)
}

/// Whether a lock is what an earlier, killed restore of the same index left. An empty one is any git's.
fn same_content(next: &Path, lock: &Path) -> io::Result<bool> {
    let (ours, found) = (fs::metadata(next)?, fs::symlink_metadata(lock)?);
    if !found.is_file()
        || ours.len() != found.len()
        || found.len() == 0
        || ours.modified()? != found.modified()?
    {
        return Ok(false);
    }
    let (mut a, mut b) = (File::open(next)?, File::open(lock)?);
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let n = a.read(&mut left)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..n])?;
        if left[..n] != right[..n] {
            return Ok(false);
        }
    }
}
