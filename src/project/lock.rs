//! One decree at a time.
//!
//! The kernel holds the lock and drops it when its holder dies, so it is never stale; what the file
//! says of its holder is only for the message. The directory of the file is locked as well, so that a routine that deletes the file lets
//! nobody in.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext, Kind, Result};

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
    match dir.try_lock() {
        Err(TryLockError::WouldBlock) => Err(match File::open(path) {
            Ok(mut file) => held(&mut file),
            Err(_) => held(&mut std::io::empty()),
        }),
        // Not every file system locks directories; the file is locked everywhere.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(dir),
    }
}

fn lock_file(path: &Path, command: &str) -> Result<File> {
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).at("open", path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(held(&mut file)),
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

fn held(file: &mut impl Read) -> Error {
    let mut text = String::new();
    let holder: Option<Holder> =
        file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
    let who = match holder {
        Some(Holder { pid, command, since }) => {
            format!(" (pid {pid}, `decree {command}`, since {since} UTC)")
        }
        None => String::new(),
    };
    Error::new(Kind::Locked, format!("another decree is working here{who}"))
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
