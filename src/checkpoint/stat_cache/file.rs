//! The file of the stat cache, and what was read from it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::StatCache;
use crate::checkpoint::seen_file::SeenFile;
use crate::error::Result;
use crate::fs::FileStamp;

/// The file of the stat cache.
pub struct CacheFile {
    file: SeenFile,
    /// What was read from the file with this stamp: a message needs it twice.
    loaded: Mutex<Option<(FileStamp, Arc<StatCache>)>>,
}

impl CacheFile {
    /// `scratch`: a directory for temporary files on the same file system.
    pub fn new(path: &Path, scratch: &Path) -> Self {
        CacheFile { file: SeenFile::new(path, scratch), loaded: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn is_loaded(&self) -> bool {
        self.loaded().is_some()
    }

    /// Opens the cache. One that is missing, damaged, no file, or not the one that the last capture left is empty.
    pub fn load(&self) -> Arc<StatCache> {
        self.load_stamped().0
    }

    /// The same for a capture, which leaves this cache unless it writes another one.
    pub fn load_for_capture(&self) -> Arc<StatCache> {
        let (cache, stamp) = self.load_stamped();
        self.file.note(stamp);
        cache
    }

    fn load_stamped(&self) -> (Arc<StatCache>, Option<FileStamp>) {
        let Some((file, stamp)) = self.file.open() else { return (Arc::default(), None) };
        let mut loaded = self.loaded();
        if let Some((of, cache)) = &*loaded
            && *of == stamp
        {
            return (Arc::clone(cache), Some(stamp));
        }
        let cache = Arc::new(StatCache::open(file).unwrap_or_default());
        *loaded = Some((stamp, Arc::clone(&cache)));
        (cache, Some(stamp))
    }

    /// Notes that a capture has written the cache.
    pub fn note_written(&self) -> Result<()> {
        // What was read is outdated.
        *self.loaded() = None;
        self.file.note_written()
    }

    /// Removes a cache that another program may have written.
    pub fn forget(&self) {
        *self.loaded() = None;
        self.file.forget();
    }

    fn loaded(&self) -> MutexGuard<'_, Option<(FileStamp, Arc<StatCache>)>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
