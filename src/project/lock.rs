//! The project lock: one decree at a time.
//!
//! It is a kernel lock, which is released when its owner dies, so it is never stale; the content of the file is only for the
//! error message. The file's directory is locked as well, so that the lock holds even if a routine deletes the file.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::untrusted;

/// How long to wait for a lock whose owner is dead: a child that it was just starting shares the lock until it calls `exec`.
const DEAD_OWNER_WAIT: Duration = Duration::from_secs(2);

/// The lock of a project, released when dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    command: String,
    files: Mutex<LockedFiles>,
    /// Whether there are no temporary files of processes that held the lock before.
    is_swept: AtomicBool,
}

#[derive(Debug)]
struct LockedFiles {
    dir: File,
    file: File,
}

/// What the lock file says about its owner.
#[derive(Serialize, Deserialize)]
struct LockOwner {
    pid: u32,
    command: String,
    since: String,
    /// Whether it released the lock itself: then there are no temporary files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    released: bool,
}

impl Lock {
    /// Takes the lock; the error names the process that holds it.
    pub fn take(path: &Path, command: &str) -> Result<Lock> {
        let dir = lock_dir(path)?;
        let last = owner(path);
        let file = lock_file(path, command)?;
        let files = Mutex::new(LockedFiles { dir, file });
        let is_swept = AtomicBool::new(last.is_some_and(|owner| owner.released));
        Ok(Lock { path: path.to_owned(), command: command.to_owned(), files, is_swept })
    }

    /// Whether a process that held the lock before may have been killed, and left temporary files.
    pub fn follows_kill(&self) -> bool {
        !self.is_swept.load(Ordering::Relaxed)
    }

    /// These were removed.
    pub fn note_swept(&self) {
        self.is_swept.store(true, Ordering::Relaxed);
    }

    /// Takes the lock again if another process has replaced the locked files.
    pub fn renew(&self) -> Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_same_file(&files.dir, parent(&self.path)) {
            files.dir = lock_dir(&self.path)?;
        }
        if !is_same_file(&files.file, &self.path) {
            files.file = lock_file(&self.path, &self.command)?;
        }
        Ok(())
    }

    /// The process that holds the lock at the moment.
    pub fn holder(path: &Path) -> Option<u32> {
        owner(path).filter(|_| !Self::is_free(path)).map(|owner| owner.pid)
    }

    /// Whether no process holds the lock at the moment.
    pub fn is_free(path: &Path) -> bool {
        [parent(path), path]
            .iter()
            .all(|path| File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok()))
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn lock_dir(path: &Path) -> Result<File> {
    let dir = File::open(parent(path)).at("open", parent(path))?;
    match try_lock(&dir, path) {
        Err(TryLockError::WouldBlock) => Err(locked_error(path)),
        // Not every file system can lock directories. The lock of the file is enough there.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(dir),
    }
}

fn lock_file(path: &Path, command: &str) -> Result<File> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).at("open", path)?;
    match try_lock(&file, path) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(locked_error(path)),
        Err(TryLockError::Error(error)) => return Err(error).at("lock", path),
    }
    write_owner(&mut file, command, false).at("write", path)?;
    Ok(file)
}

fn write_owner(file: &mut File, command: &str, released: bool) -> io::Result<()> {
    let owner = LockOwner {
        pid: std::process::id(),
        command: command.to_owned(),
        since: jiff::Timestamp::now().strftime("%H:%M:%S").to_string(),
        released,
    };
    let text = serde_json::to_vec(&owner).expect("an owner is plain data");
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text))
}

impl Drop for Lock {
    /// A process that is killed, panics or ends at once does not come here, and the next command removes what it left.
    fn drop(&mut self) {
        if std::thread::panicking() || self.follows_kill() {
            return;
        }
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = write_owner(&mut files.file, &self.command, true);
    }
}

/// Whether the path leads to this open file, through links too: `.decree` may be one.
fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Locks a file, and waits a little if it is locked although the owner named in `path` is dead.
fn try_lock(file: &File, path: &Path) -> Result<(), TryLockError> {
    let deadline = Instant::now() + DEAD_OWNER_WAIT;
    loop {
        let result = file.try_lock();
        let is_locked = matches!(result, Err(TryLockError::WouldBlock));
        if !is_locked || owner(path).is_some_and(|owner| is_alive(owner.pid)) || Instant::now() > deadline {
            return result;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn owner(path: &Path) -> Option<LockOwner> {
    serde_json::from_slice(&untrusted::read(path).ok()?).ok()
}

/// Whether the process is running; a zombie is not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn locked_error(path: &Path) -> Error {
    let details = match owner(path) {
        Some(LockOwner { pid, command, since, .. }) => {
            format!(" (pid {pid}, `decree {command}`, since {since} UTC)")
        }
        None => String::new(),
    };
    Error::new(ErrorKind::Locked, format!("another decree is working here{details}"))
        .hint("wait for it to end, then run the same command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_briefly_outlives_its_owner_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let text = format!(r#"{{"pid":{},"command":"process","since":""}}"#, dead.id());
        std::fs::write(&path, text).unwrap();
        let left = File::open(&path).unwrap();
        left.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                drop(left);
            });
            Lock::take(&path, "run").unwrap();
        });
    }

    #[test]
    fn a_deleted_lock_file_still_locks_and_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own/lock");
        std::fs::create_dir(dir.path().join("own")).unwrap();
        let first = Lock::take(&path, "process").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Lock::take(&path, "run").unwrap_err().kind().exit_code(), 5);
        std::fs::rename(dir.path().join("own"), dir.path().join("gone")).unwrap();
        std::fs::create_dir(dir.path().join("own")).unwrap();
        first.renew().unwrap();
        let error = Lock::take(&path, "run").unwrap_err();
        assert!(error.to_string().contains("`decree process`"), "{error}");
        assert!(!Lock::is_free(&path));
    }
}
