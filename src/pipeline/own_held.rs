//! One of decree's own files while a routine runs.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::own_files::RepairReport;
use super::own_places::{Quarantine, set_mode};
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;

/// A file as it was.
pub(super) struct HeldFile {
    pub path: PathBuf,
    pub mode: u32,
    pub stamp: (u64, u64, i64, i64),
    pub content: HeldContent,
    pub care: Protection,
}

/// What was in it.
pub(super) enum HeldContent {
    Bytes(Vec<u8>),
    Open(File),
}

/// What of a file matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// That it is there.
    Presence,
    /// That, and a change is worth a word.
    Settings,
    /// Every byte.
    Record,
}

impl HeldFile {
    /// Brings it back, if it has to be.
    pub fn mend(&mut self, mended: &mut RepairReport, aside: &mut Quarantine) -> Result<()> {
        let found = match self.path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                mended.restored.push(self.path.clone());
                return self.restore();
            }
            result => result.at("read", &self.path)?,
        };
        let is_file = match self.care {
            // Somebody may want a link there, as long as it leads to a file.
            Protection::Settings => fs::metadata(&self.path).is_ok_and(|found| found.is_file()),
            _ => found.is_file(),
        };
        if !is_file {
            aside.take(&self.path)?;
            mended.restored.push(self.path.clone());
            return self.restore();
        }
        let closed = self.mode & 0o400 != 0 && found.mode() & 0o400 == 0;
        if found.is_file()
            && (closed || (self.care != Protection::Settings && found.mode() & 0o7777 != self.mode))
        {
            set_mode(&self.path, self.mode)?;
        }
        if self.care == Protection::Presence || !self.is_edited(&found) {
            return Ok(());
        }
        let is_lost = match &self.content {
            HeldContent::Bytes(_) => false,
            HeldContent::Open(file) => file.metadata().is_ok_and(|held| held.ino() == found.ino()),
        };
        match self.care {
            Protection::Settings => mended.edited.push(self.path.clone()),
            _ if is_lost => mended.spoiled.push(self.path.clone()),
            _ => {
                // A person may have put another message there.
                aside.keep_copy(&self.path)?;
                mended.restored.push(self.path.clone());
                self.restore()?;
            }
        }
        Ok(())
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

    fn restore(&mut self) -> Result<()> {
        let parent = self.path.parent().expect("own files are in directories");
        fs::create_dir_all(parent).at("create", parent)?;
        let mut target = AtomicFile::create(&self.path)?;
        match &mut self.content {
            HeldContent::Bytes(bytes) => io::copy(&mut &bytes[..], &mut target),
            HeldContent::Open(file) => file.rewind().and_then(|()| io::copy(file, &mut target)),
        }
        .at("write", &self.path)?;
        target.commit()?;
        self.stamp = stamp(&self.path.symlink_metadata().at("read", &self.path)?);
        set_mode(&self.path, self.mode)
    }
}

/// Which file it is, how long, and when it was written.
pub(super) fn stamp(metadata: &fs::Metadata) -> (u64, u64, i64, i64) {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
