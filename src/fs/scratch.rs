//! Temporary directories that do not outlive their owner.

use std::fs;
use std::path::{Path, PathBuf};

use super::random_hex;
use crate::error::{IoContext, Result};

/// A temporary directory that is removed on drop; after a `kill -9`, the next command that takes the project's lock removes it.
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Creates a directory in `parent`, the project's scratch directory, with a name that begins with `name`.
    pub fn new(parent: &Path, name: &str) -> Result<ScratchDir> {
        let dir = parent.join(format!("{name}-{}", random_hex()));
        fs::create_dir_all(&dir).at("create", &dir)?;
        Ok(ScratchDir(dir))
    }

    /// The path of `name` in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
