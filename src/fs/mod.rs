//! What decree writes for itself, the careful way: see [`atomic`]; and files that others wrote: see [`untrusted`].

pub mod atomic;
pub(crate) mod beneath;
pub mod json;
pub mod quarantine;
mod scratch;
pub(crate) mod transfer;
pub mod untrusted;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use scratch::ScratchDir;

/// 16 random hexadecimal digits, for names that must not meet another's.
pub fn random_hex() -> String {
    let number = getrandom::u64().expect("the system has random numbers");
    format!("{number:016x}")
}

/// Whether this very file is under that name.
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}
