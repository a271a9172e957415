//! The file of the stat cache, which is trusted only while it is the one that this process has seen.
//!
//! A routine runs as the same user as decree and can write any file of the project. If it could write the cache, it could have files
//! that it changed taken for unchanged: they would be in no diff, and no revert would touch them. So a cache that is not the one that
//! was read or written before the routine began is removed, and every file is read again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{StatCache, Time};
use crate::error::Result;
use crate::fs::{FileStamp, untrusted};

/// How long to wait until the file system's clock has moved on: most move every 4 ms or more often.
const MAX_TICK: Duration = Duration::from_millis(40);
const CLOCK_INTERVAL: Duration = Duration::from_micros(500);

/// The file of the stat cache.
pub struct CacheFile {
    path: PathBuf,
    seen: Mutex<Seen>,
    /// What was read from the file with this stamp: a message needs it twice.
    loaded: Mutex<Option<(FileStamp, Arc<StatCache>)>>,
}

/// The cache as the last capture of this process left it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// There was no capture: the command only reads, or goes back, and runs no routine in between.
    Nothing,
    /// This one. `None`: there was none.
    Stamp(Option<FileStamp>),
    /// One that could be written to without getting another stamp.
    Racy,
}

impl CacheFile {
    pub fn new(path: &Path) -> Self {
        CacheFile { path: path.to_owned(), seen: Mutex::new(Seen::Nothing), loaded: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the cache. One that is missing, damaged, no file, or not the one that the last capture left is empty.
    pub fn load(&self) -> Arc<StatCache> {
        self.load_stamped().0
    }

    /// The same for a capture, which leaves this cache unless it writes another one.
    pub fn load_for_capture(&self) -> Arc<StatCache> {
        let (cache, stamp) = self.load_stamped();
        *self.seen() = Seen::Stamp(stamp);
        cache
    }

    fn load_stamped(&self) -> (Arc<StatCache>, Option<FileStamp>) {
        let file = untrusted::open(&self.path).ok();
        let stamp = file.as_ref().and_then(|file| file.metadata().ok()).map(|found| FileStamp::of(&found));
        let seen = *self.seen();
        if seen != Seen::Nothing && seen != Seen::Stamp(stamp) {
            self.forget();
            return (Arc::default(), None);
        }
        let mut loaded = self.loaded();
        if let Some((of, cache)) = &*loaded
            && Some(*of) == stamp
        {
            return (Arc::clone(cache), stamp);
        }
        let cache = Arc::new(file.and_then(StatCache::open).unwrap_or_default());
        *loaded = stamp.map(|stamp| (stamp, Arc::clone(&cache)));
        (cache, stamp)
    }

    /// Frees what was read, unless it is in use.
    pub fn unload(&self) {
        *self.loaded() = None;
    }

    /// Notes that a capture has written the cache. `clock` is the file system's.
    pub fn note_written(&self, clock: impl Fn() -> Result<Time>) -> Result<()> {
        let mut waited = Duration::ZERO;
        let seen = loop {
            let stamp = self.stamp();
            let clock = clock()?;
            if stamp.is_none_or(|stamp| Time::of(stamp.changed()) < clock) {
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

    /// Removes a cache that another program may have written. If that fails, it is not used by this process.
    pub fn forget(&self) {
        *self.seen() = Seen::Stamp(None);
        self.unload();
        let _ = std::fs::remove_file(&self.path);
    }

    fn stamp(&self) -> Option<FileStamp> {
        self.path.symlink_metadata().ok().map(|found| FileStamp::of(&found))
    }

    fn loaded(&self) -> MutexGuard<'_, Option<(FileStamp, Arc<StatCache>)>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CacheFile {
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
