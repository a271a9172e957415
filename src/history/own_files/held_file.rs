//! One of decree's own files, held while a program runs that may do anything to it.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::file::stage;
use super::held_dirs::set_mode;
use super::quarantine::Quarantine;
use crate::checkpoint::entry::FileMode;
use crate::error::{IoContext, Result};

/// A file as it was.
pub(super) struct HeldFile {
    pub path: PathBuf,
    pub protection: Protection,
    mode: u32,
    stamp: Stamp,
    content: HeldContent,
}

enum HeldContent {
    Bytes(Vec<u8>),
    /// A deleted file can be read for as long as a process has it open.
    Open(File),
}

/// Inode, length and time of modification.
type Stamp = (u64, u64, i64, i64);

/// What of a file is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// The file is restored if it is gone; edits stay.
    Presence,
    /// The same, and edits are reported.
    Settings,
    /// Every byte is restored.
    Record,
}

/// What a program had done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileDamage {
    /// It was gone, or is not what it was. It is restored.
    Restored,
    /// It was edited, and stays as it is.
    Edited,
    /// It was overwritten, and its old content is lost.
    Spoiled,
}

impl HeldFile {
    /// Holds an open file, in memory or by its descriptor.
    pub fn new(path: PathBuf, mut file: File, in_memory: bool, protection: Protection) -> Result<Self> {
        let metadata = file.metadata().at("read", &path)?;
        let content = if in_memory {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).at("read", &path)?;
            HeldContent::Bytes(bytes)
        } else {
            HeldContent::Open(file)
        };
        Ok(HeldFile { path, protection, mode: metadata.mode() & 0o7777, stamp: stamp(&metadata), content })
    }

    /// Restores what its protection covers.
    pub fn repair(&mut self, quarantine: &mut Quarantine) -> Result<Option<FileDamage>> {
        let found = match self.path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.restore(),
            result => result.at("read", &self.path)?,
        };
        let is_file = match self.protection {
            // The user may want a link there, as long as it leads to a file.
            Protection::Settings => fs::metadata(&self.path).is_ok_and(|found| found.is_file()),
            _ => found.is_file(),
        };
        if !is_file {
            quarantine.take(&self.path)?;
            return self.restore();
        }
        let is_closed = self.mode & 0o400 != 0 && found.mode() & 0o400 == 0;
        let has_other_mode = self.protection != Protection::Settings && found.mode() & 0o7777 != self.mode;
        if found.is_file() && (is_closed || has_other_mode) {
            set_mode(&self.path, self.mode)?;
        }
        if self.protection == Protection::Presence || !self.is_edited(&found) {
            return Ok(None);
        }
        // A file that is held open and was overwritten in place has lost its old content.
        let is_lost = match &self.content {
            HeldContent::Bytes(_) => false,
            HeldContent::Open(file) => file.metadata().is_ok_and(|held| held.ino() == found.ino()),
        };
        match self.protection {
            Protection::Settings => Ok(Some(FileDamage::Edited)),
            _ if is_lost => Ok(Some(FileDamage::Spoiled)),
            _ => {
                // What is there now may be a message that the user put there.
                quarantine.keep_copy(&self.path)?;
                self.restore()
            }
        }
    }

    fn is_edited(&self, found: &fs::Metadata) -> bool {
        match &self.content {
            HeldContent::Bytes(bytes) => {
                let length = fs::metadata(&self.path).map_or(0, |found| found.len());
                length != bytes.len() as u64 || fs::read(&self.path).is_ok_and(|now| now != *bytes)
            }
            HeldContent::Open(_) => stamp(found) != self.stamp,
        }
    }

    fn restore(&mut self) -> Result<Option<FileDamage>> {
        let mode = FileMode::from_bits(self.mode);
        let staged = match &mut self.content {
            HeldContent::Bytes(bytes) => stage(&self.path, &mut &bytes[..], mode)?,
            HeldContent::Open(file) => {
                file.rewind().at("read", &self.path)?;
                stage(&self.path, file, mode)?
            }
        };
        staged.commit()?;
        self.stamp = stamp(&self.path.symlink_metadata().at("read", &self.path)?);
        Ok(Some(FileDamage::Restored))
    }
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
