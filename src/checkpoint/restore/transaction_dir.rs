//! The directory of one restore, `.decree/tmp/restore-<…>/`, and the names in it.
//!
//! `new/<n>` is what step `n` brings into the tree, `old/<n>` what it replaces. Every move is a rename, so the place of each file
//! shows how far the restore has got. Three marks say what the places of files cannot:
//!
//! - `lost/<n>`: another process changed what step `n` replaces at the last moment; that is in quarantine, and there is no old
//!   file to restore.
//! - `undone`: every old file is back in the tree; only what other processes wrote into new files remains to be quarantined.
//! - `done`: every path was verified and is durable; only the audit entry and the removal of the journal remain.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::journal::Journal;
use crate::checkpoint::hash::ContentHash;
use crate::error::{IoContext, Result};
use crate::fs::{atomic, random_hex};

const NEW: &str = "new";
const OLD: &str = "old";
const LOST: &str = "lost";
const UNDONE: &str = "undone";
const DONE: &str = "done";

/// The path of one restore's directory; the methods name what is in it.
pub struct TransactionDir(PathBuf);

impl TransactionDir {
    /// Creates a directory for a new restore.
    pub fn create(scratch: &Path) -> Result<Self> {
        let dir = TransactionDir(scratch.join(format!("restore-{}", random_hex())));
        for name in [NEW, OLD] {
            let path = dir.0.join(name);
            fs::create_dir_all(&path).at("create", &path)?;
        }
        Ok(dir)
    }

    /// The directory of a restore that an earlier process began.
    pub fn existing(dir: PathBuf) -> Self {
        TransactionDir(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// decree's own directory: this one is `.decree/tmp/restore-…`.
    pub fn decree_dir(&self) -> &Path {
        self.0.parent().and_then(Path::parent).unwrap_or(&self.0)
    }

    /// Where the new content of a step is before it is in the tree.
    pub fn staged(&self, step: usize) -> PathBuf {
        self.0.join(NEW).join(step.to_string())
    }

    /// Where the old content of a step is after it was in the tree.
    pub fn saved(&self, step: usize) -> PathBuf {
        self.0.join(OLD).join(step.to_string())
    }

    /// Where the old content of all steps is.
    pub fn saved_dir(&self) -> PathBuf {
        self.0.join(OLD)
    }

    pub fn is_lost(&self, step: usize) -> bool {
        exists(&self.0.join(LOST).join(step.to_string()))
    }

    pub fn mark_lost(&self, step: usize) -> Result<()> {
        mark(&self.0.join(LOST), &step.to_string())
    }

    pub fn is_undone(&self) -> bool {
        exists(&self.0.join(UNDONE))
    }

    pub fn mark_undone(&self) -> Result<()> {
        mark(&self.0, UNDONE)
    }

    pub fn is_done(&self) -> bool {
        exists(&self.0.join(DONE))
    }

    pub fn mark_done(&self) -> Result<()> {
        mark(&self.0, DONE)
    }

    /// Ends the restore. The journal goes first: without it, the rest has no meaning.
    pub fn remove(&self) -> Result<()> {
        self.remove_journal()?;
        let _ = fs::remove_dir_all(&self.0);
        Ok(())
    }

    /// Ends the restore and leaves the rest to the next decree, which removes what a killed one left.
    pub fn remove_journal(&self) -> Result<()> {
        let journal = Journal::path(&self.0);
        fs::remove_file(&journal).at("remove", &journal)?;
        atomic::sync_dir(&self.0)
    }
}

/// Creates a mark. One that exists stays untouched: recovery marks again what an earlier process marked, and a kill between the
/// removal and the creation of `done` would undo a restore that is finished.
fn mark(dir: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(dir).at("create", dir)?;
    let path = dir.join(name);
    if !exists(&path) {
        drop(atomic::create_new(&path).at("create", &path)?);
    }
    atomic::sync_dir(dir)
}

/// Whether there is something at a path, be it a dangling link.
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The content of a staged or saved file or link; `None` if it is neither.
pub fn content_of(path: &Path) -> io::Result<Option<(ContentHash, u64)>> {
    use std::os::unix::ffi::OsStringExt;
    let kind = path.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(path)?.into_os_string().into_vec();
        return Ok(Some((ContentHash::of(&target), target.len() as u64)));
    }
    if !kind.is_file() {
        return Ok(None);
    }
    ContentHash::of_reader(&mut open_forced(path)?, &mut vec![0; 1 << 16]).map(Some)
}

/// Opens a saved file whose mode may not let its owner read it.
fn open_forced(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt;
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        result => return result,
    }
    let before = path.symlink_metadata()?.permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(before.mode() | 0o400))?;
    let file = File::open(path);
    fs::set_permissions(path, before)?;
    file
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_mark_that_exists_is_never_removed_on_the_way_to_marking_it_again() {
        let dir = tempfile::tempdir().unwrap();
        let inode = || dir.path().join(DONE).symlink_metadata().unwrap().ino();
        mark(dir.path(), DONE).unwrap();
        let first = inode();
        let open = fs::File::open(dir.path().join(DONE)).unwrap();
        mark(dir.path(), DONE).unwrap();
        assert_eq!((inode(), open.metadata().unwrap().nlink()), (first, 1));
    }
}
