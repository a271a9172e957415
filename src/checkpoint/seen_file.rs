//! A file of decree's own that only saves time, and that is trusted only while it is the one that this process has seen.
//!
//! A routine runs as the same user as decree and can write any file of the project. If it could write the stat cache, it could have files
//! that it changed taken for unchanged: they would be in no diff, and no revert would touch them. So a file that is not the one that was
//! read or written before the routine began is removed, and what it says is found out again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{IoContext, Result};
use crate::fs::{FileStamp, atomic, untrusted};

/// How long to wait until the file system's clock has moved on: most move every 4 ms or more often.
const MAX_TICK: Duration = Duration::from_millis(40);
const CLOCK_INTERVAL: Duration = Duration::from_micros(500);

/// A file that this process has seen, or will see.
pub struct SeenFile {
    path: PathBuf,
    /// A directory for temporary files on the same file system.
    scratch: PathBuf,
    seen: Mutex<Seen>,
}

/// The file as this process has left it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It was not noted: the command only reads, or goes back, and runs no routine in between.
    Nothing,
    /// This one. `None`: there was none.
    Stamp(Option<FileStamp>),
    /// One that could be written to without getting another stamp.
    Racy,
}

impl SeenFile {
    pub fn new(path: &Path, scratch: &Path) -> Self {
        SeenFile { path: path.to_owned(), scratch: scratch.to_owned(), seen: Mutex::new(Seen::Nothing) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, and returns its stamp; nothing if it is missing. One that is not the one that was noted is removed.
    pub fn open(&self) -> Option<(File, FileStamp)> {
        let found = untrusted::open(&self.path).ok().and_then(|file| {
            let stamp = FileStamp::of(&file.metadata().ok()?);
            Some((file, stamp))
        });
        let stamp = found.as_ref().map(|(_, stamp)| *stamp);
        let seen = *self.seen();
        if seen != Seen::Nothing && seen != Seen::Stamp(stamp) {
            self.forget();
            return None;
        }
        found
    }

    /// From now on only what is there now counts.
    pub fn note_present(&self) {
        let found = self.open();
        self.note(found.map(|(_, stamp)| stamp));
    }

    /// From now on only a file with this stamp counts.
    pub fn note(&self, stamp: Option<FileStamp>) {
        *self.seen() = Seen::Stamp(stamp);
    }

    /// Notes that this process has written the file.
    pub fn note_written(&self) -> Result<()> {
        let mut waited = Duration::ZERO;
        let seen = loop {
            let stamp = self.stamp();
            let clock = clock(&self.scratch)?;
            if stamp.is_none_or(|stamp| stamp.changed() < clock) {
                break Seen::Stamp(stamp);
            }
            if waited >= MAX_TICK {
                break Seen::Racy;
            }
            thread::sleep(CLOCK_INTERVAL);
            waited += CLOCK_INTERVAL;
        };
        *self.seen() = seen;
        Ok(())
    }

    /// Removes a file that another program may have written. If that fails, it is not used by this process.
    pub fn forget(&self) {
        self.note(None);
        let _ = fs::remove_file(&self.path);
    }

    fn stamp(&self) -> Option<FileStamp> {
        self.path.symlink_metadata().ok().map(|found| FileStamp::of(&found))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SeenFile {
    /// The next process would trust what it finds.
    fn drop(&mut self) {
        let is_as_seen = match *self.seen() {
            Seen::Nothing => true,
            Seen::Stamp(stamp) => self.stamp() == stamp,
            Seen::Racy => false,
        };
        if !is_as_seen {
            self.forget();
        }
    }
}

/// The clock of the file system of `scratch`, which may differ from the system's: the time that a file changed now would get, in seconds
/// and nanoseconds.
pub fn clock(scratch: &Path) -> Result<(i64, i64)> {
    fs::create_dir_all(scratch).at("create", scratch)?;
    let path = scratch.join(format!("{}clock", atomic::TEMPORARY));
    let file = atomic::create_new(&path).at("create", &path)?;
    let now = FileStamp::of(&file.metadata().at("read", &path)?).changed();
    fs::remove_file(&path).at("remove", &path)?;
    Ok(now)
}
