//! The files that SQLite puts beside a database, and the programs that have locked one.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use crate::fs::is_at;
use crate::process::file_users::{FileIdentity, lock_holders};

pub(super) fn companions(path: &Path) -> [PathBuf; 3] {
    [wal(path), shm(path), beside(path, "-journal")]
}

fn wal(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn shm(path: &Path) -> PathBuf {
    beside(path, "-shm")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Whether no file is beside a database: no program has it open with a `-wal` file, and no transaction is unfinished.
pub(super) fn is_alone(path: &Path) -> bool {
    !companions(path).iter().any(|companion| is_there(companion))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The files that were there before decree opened the database.
pub(super) struct Sidecars {
    wal: bool,
    shm: bool,
}

impl Sidecars {
    pub(super) fn of(path: &Path) -> Sidecars {
        Sidecars { wal: is_there(&wal(path)), shm: is_there(&shm(path)) }
    }

    /// Removes the files that were created since, if no other program uses them. A read-only connection creates a `-wal` and a
    /// `-shm` file and cannot remove them, as that needs write access. This does what SQLite does when the last
    /// connection is closed: a process that holds the exclusive lock is the last, and no other opens the database while it does.
    pub(super) fn remove_new(&self, path: &Path) {
        let new_wal = !self.wal && is_there(&wal(path));
        let new_shm = !self.shm && is_there(&shm(path));
        if !new_wal && !new_shm {
            return;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) else {
            return;
        };
        if fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || !is_at(&file, path) {
            return;
        }
        // A `-wal` file that is not empty holds what another program wrote; it must stay.
        if new_wal && wal(path).symlink_metadata().is_ok_and(|wal| wal.is_file() && wal.len() == 0) {
            let _ = fs::remove_file(wal(path));
        }
        // SQLite creates it again from the `-wal` file when it is missing.
        if new_shm {
            let _ = fs::remove_file(shm(path));
        }
    }
}

/// The programs that hold a lock on a database, as far as the kernel reports them.
pub(super) fn holders(path: &Path) -> Vec<String> {
    let identity = |path: &PathBuf| {
        let metadata = path.symlink_metadata().ok()?;
        Some(FileIdentity::new(&metadata, path.file_name()?.as_encoded_bytes()))
    };
    let files: Vec<FileIdentity> = [path.to_owned(), shm(path)].iter().filter_map(identity).collect();
    lock_holders(&files)
}
