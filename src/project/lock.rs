//! One decree at a time.
//!
//! The kernel holds the lock and drops it when its holder dies, so it is never stale; what the file
//! says of its holder is only for the message. The directory of the file is locked as well, so that a routine that deletes the file lets
//! nobody in.

use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::untrusted;

/// How long to wait for a lock whose holder is dead. What it was just starting has the lock, too, until it runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Held for as long as it lives.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    command: String,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    dir: File,
    file: File,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    command: String,
    since: String,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(path: &Path, command: &str) -> Result<Lock> {
        let dir = lock_dir(path)?;
        let file = lock_file(path, command)?;
        let held = Mutex::new(Held { dir, file });
        Ok(Lock { path: path.to_owned(), command: command.to_owned(), held })
    }

    /// Takes it again where somebody put other files in place of those that are locked.
    pub fn renew(&self) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_at(&held.dir, parent(&self.path)) {
            held.dir = lock_dir(&self.path)?;
        }
        if !is_at(&held.file, &self.path) {
            held.file = lock_file(&self.path, &self.command)?;
        }
        Ok(())
    }

    /// Whether nobody holds it at the moment.
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
        Err(TryLockError::WouldBlock) => Err(held(path)),
        // Not every file system locks directories; the file is locked everywhere.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(dir),
    }
}

fn lock_file(path: &Path, command: &str) -> Result<File> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).at("open", path)?;
    match try_lock(&file, path) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(path)),
        Err(TryLockError::Error(error)) => return Err(error).at("lock", path),
    }
    let holder = Holder {
        pid: std::process::id(),
        command: command.to_owned(),
        since: jiff::Timestamp::now().strftime("%H:%M:%S").to_string(),
    };
    let text = serde_json::to_vec(&holder).expect("a holder is plain data");
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&text)).at("write", path)?;
    Ok(file)
}

/// Whether this very file is under that name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Locks a file that the holder named in `path` may have locked.
fn try_lock(file: &File, path: &Path) -> Result<(), TryLockError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let result = file.try_lock();
        let is_held = matches!(result, Err(TryLockError::WouldBlock));
        if !is_held || holder(path).is_some_and(|holder| is_alive(holder.pid)) || Instant::now() > until {
            return result;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn holder(path: &Path) -> Option<Holder> {
    serde_json::from_slice(&untrusted::read(path).ok()?).ok()
}

/// Whether there is such a process, and not only its number waiting to be taken note of.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn held(path: &Path) -> Error {
    let who = match holder(path) {
        Some(Holder { pid, command, since }) => {
            format!(" (pid {pid}, `decree {command}`, since {since} UTC)")
        }
        None => String::new(),
    };
    Error::new(ErrorKind::Locked, format!("another decree is working here{who}"))
        .hint("wait for it to end, then run the same command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::take(&path, "process").unwrap();
        let error = Lock::take(&path, "run").unwrap_err();
        assert_eq!(error.kind().exit_code(), 5);
        assert!(error.to_string().contains("`decree process`"), "{error}");
        drop(first);
        Lock::take(&path, "run").unwrap();
    }

    #[test]
    fn a_lock_that_outlives_its_holder_for_a_moment_is_waited_for() {
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
    fn a_lock_that_was_deleted_still_holds_and_is_made_again() {
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
