//! One decree at a time.
//!
//! The kernel holds the lock and drops it when its holder dies, so it is never stale; what the file
//! says of its holder is only for the message.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext, Kind, Result};

/// Held for as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
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
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .at("open", path)?;
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
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(&text))
            .at("write", path)?;
        Ok(Lock { _file: file })
    }

    /// Whether nobody holds it at the moment.
    pub fn is_free(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
    }
}

fn held(file: &mut File) -> Error {
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
}
