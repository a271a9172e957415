//! File operations that the rest of decree builds on: files that are complete or absent ([`atomic`]), moves that replace nothing
//! (`transfer`, [`quarantine`]), files that anyone may have written ([`untrusted`]), files that have to outlive their deletion
//! ([`descriptors`], [`spool`]), room for those that are written later (`reserve`), files with holes ([`sparse`]), which of many files
//! changed ([`change_watch`]), and what a file has beside its content and mode (`xattr`, `acl`).

pub(crate) mod acl;
pub mod atomic;
pub(crate) mod beneath;
pub mod change_watch;
pub mod descriptors;
pub mod json;
pub mod local;
pub mod quarantine;
pub(crate) mod reserve;
mod scratch;
pub mod sparse;
pub mod spool;
pub(crate) mod transfer;
pub mod untrusted;
pub(crate) mod xattr;

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use scratch::ScratchDir;

/// 16 random hexadecimal digits, for names that must be unique.
pub fn random_hex() -> String {
    let number = getrandom::u64().expect("the OS provides random numbers");
    format!("{number:016x}")
}

/// What changes whenever a file is written to or replaced: only the kernel sets the time of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl FileStamp {
    pub fn of(metadata: &Metadata) -> FileStamp {
        FileStamp {
            inode: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The same, unless the file may be written to again without getting another stamp: two writes within one tick of the kernel's clock
    /// have the same time.
    pub fn if_settled(metadata: &Metadata) -> Option<FileStamp> {
        let is_settled = metadata.ctime() < jiff::Timestamp::now().as_second() - 1;
        is_settled.then(|| FileStamp::of(metadata))
    }

    /// The time of the last change, in seconds and nanoseconds.
    pub fn changed(&self) -> (i64, i64) {
        self.changed
    }
}

/// Whether `path` names the file that is open as `file`, and not another one that has taken its name.
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Whether any part of `below`, looked up from `dir`, is a link, so that the path may lead elsewhere.
pub fn leads_through_link(dir: &Path, below: &Path) -> bool {
    let mut path = dir.to_owned();
    below.components().any(|part| {
        path.push(part);
        path.is_symlink()
    })
}
