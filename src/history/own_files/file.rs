//! One of decree's own files: its mode and content.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::area::is_missing;
use crate::checkpoint::entry::FileMode;
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::untrusted;

/// A regular file that was read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFile {
    pub mode: FileMode,
    pub bytes: Vec<u8>,
}

impl OwnFile {
    /// Reads a regular file; `None` for anything else, and if there is nothing at the path.
    pub fn read(path: &Path) -> io::Result<Option<OwnFile>> {
        let read = || -> io::Result<Option<OwnFile>> {
            let found = path.symlink_metadata()?;
            if !found.is_file() {
                return Ok(None);
            }
            let mode = FileMode::from_bits(found.permissions().mode());
            Ok(Some(OwnFile { mode, bytes: untrusted::read(path)? }))
        };
        read().or_else(|error| if is_missing(&error) { Ok(None) } else { Err(error) })
    }

    /// Whether the file at `path` is this one, as far as it can be read.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        OwnFile::read(path).is_ok_and(|found| found.as_ref() == Some(self))
    }

    /// Writes it to a temporary file with its mode, which the caller commits.
    pub(super) fn stage(&self, path: &Path) -> Result<AtomicFile> {
        stage(path, &mut &self.bytes[..], self.mode)
    }
}

/// Writes a temporary file beside `path`, below directories that are created where they are missing.
pub(super) fn stage(path: &Path, content: &mut dyn Read, mode: FileMode) -> Result<AtomicFile> {
    let parent = path.parent().expect("decree's own files are in directories");
    fs::create_dir_all(parent).at("create", parent)?;
    let mut staged = AtomicFile::create(path)?;
    io::copy(content, &mut staged).at("write", path)?;
    staged.set_mode(fs::Permissions::from_mode(mode.bits()))?;
    Ok(staged)
}
