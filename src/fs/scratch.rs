//! Directories for work in progress.

use std::fs;
use std::path::{Path, PathBuf};

use super::random_hex;
use crate::error::{IoContext, Result};

/// A directory for work in progress; gone when it goes out of scope, and after a `kill -9` with the project's next lock.
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// In `parent`, which is the project's own place for that, under a name that begins with `name`.
    pub fn new(parent: &Path, name: &str) -> Result<ScratchDir> {
        let dir = parent.join(format!("{name}-{}", random_hex()));
        fs::create_dir_all(&dir).at("create", &dir)?;
        Ok(ScratchDir(dir))
    }

    /// A place in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
