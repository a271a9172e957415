//! SQLite files, copied and restored while other programs use them.
//!
//! What this module promises:
//!
//! - A copy is what a reader would have seen at one moment: all of some transactions, nothing of the others, including what
//!   is only in the `-wal` file yet. It is one file, and nothing beside it is needed to read it.
//! - Saving does not change the database, its mode, or what is beside it. The one exception is what any reader does:
//!   what a crash left half done (a hot journal) is rolled back.
//! - Restoring is one SQLite transaction. Killed in the middle, it has happened or it has not; programs that have
//!   the database open see the one or the other.
//! - A program that holds the database locked is waited for, up to a limit.
//!
//! SQLite's locks belong to a process and a file: if the process closes *any* handle of the file, they are gone. So
//! nothing here opens the live file directly while a connection to it is open, and no other code in this process may
//! have one: callers work on one database at a time, and on none that they have open themselves.
//!
//! - [`content_hash`]: the first bytes of a file, and the hash of what is in it
//! - [`open`]: connections, waiting, and the meaning of SQLite's errors
//! - [`copying`]: the backup itself
//! - [`integrity`]: whether a copy is whole
//! - [`sidecars`]: the files that SQLite puts beside a database
//! - [`mod@restore`]: writes a copy back

mod content_hash;
mod copying;
mod integrity;
mod open;
mod restore;
mod sidecars;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use open::is_not_a_database;
pub use restore::{restore, set_aside};

use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::{atomic, random_hex};
use open::WAIT;

/// A copy of a database, as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseCopy {
    /// The size of the copy's file.
    pub bytes: u64,
    /// The hash of the copy's file.
    pub sha256: ContentHash,
    /// The hash of what is in the database: two copies of the same content have the same, whatever SQLite counted in
    /// between. `docs/format.md` says how it is computed.
    pub content: ContentHash,
    /// Whether the database keeps its journal in a `-wal` file. The copy does not, so that it is one file.
    pub wal: bool,
    /// The permissions of the database's file.
    pub mode: u32,
    /// Tables that could not be checked, because they rely on functions that only the application has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
}

/// Copies the database at `live` to the new file `to`, and checks that the copy is whole. After an error or a kill, `to` is
/// complete and durable, or not there.
pub fn save(live: &Path, to: &Path) -> Result<DatabaseCopy> {
    save_within(live, to, WAIT)
}

fn save_within(live: &Path, to: &Path, wait: Duration) -> Result<DatabaseCopy> {
    let (live, Some(metadata)) = open::find(live)? else {
        return Err(Error::failed(format!("there is no database at {}", live.display())));
    };
    let unfinished = Unfinished::create(to)?;
    copying::copy(&live, to, wait)?;
    let file = OpenOptions::new().read(true).write(true).open(to).at("open", to)?;
    let wal = content_hash::is_wal(&file).at("read", to)?;
    content_hash::set_wal(&file, false).at("write", to)?;
    file.sync_all().at("write", to)?;
    let hashes = content_hash::hashes(file).at("read", to)?;
    let unchecked = integrity::check(to).map_err(|error| match error.kind() {
        ErrorKind::Integrity => error.detail(format!("{} is damaged, too; no copy was kept", live.display())),
        _ => error,
    })?;
    atomic::sync_parent(to)?;
    unfinished.keep();
    Ok(DatabaseCopy {
        bytes: hashes.bytes,
        sha256: hashes.sha256,
        content: hashes.content,
        wal,
        mode: metadata.permissions().mode() & 0o7777,
        unchecked,
    })
}

/// Checks that a copy is what was saved, and that SQLite finds no damage in it.
pub fn check(copy: &Path, expected: &DatabaseCopy) -> Result<()> {
    prove(copy, expected)?;
    integrity::check(copy).map(drop)
}

/// Checks the hash of a copy.
fn prove(copy: &Path, expected: &DatabaseCopy) -> Result<()> {
    let file = match copy.symlink_metadata() {
        Ok(found) if found.is_file() => File::open(copy),
        Ok(_) => Err(io::Error::other("not a regular file")),
        Err(error) => Err(error),
    };
    let hashes = file.and_then(content_hash::hashes).map_err(|error| {
        Error::integrity(format!("the copy of the database at {} cannot be read", copy.display()))
            .caused_by(error)
    })?;
    if hashes.sha256 == expected.sha256 {
        return Ok(());
    }
    Err(Error::integrity(format!("the copy of the database at {} has changed", copy.display()))
        .detail(format!("saved: {} bytes, SHA-256 {}", expected.bytes, expected.sha256))
        .detail(format!("found: {} bytes, SHA-256 {}", hashes.bytes, hashes.sha256)))
}

/// The hash of what is in the database now, as [`DatabaseCopy::content`] has it; `None` if there is no file. For an error
/// that says that SQLite cannot read the file, see [`is_not_a_database`].
///
/// It is the hash of a copy in the directory `scratch`, which is removed afterwards.
pub fn content_now(live: &Path, scratch: &Path) -> Result<Option<ContentHash>> {
    let (live, Some(_)) = open::find(live)? else { return Ok(None) };
    fs::create_dir_all(scratch).at("create", scratch)?;
    let path = scratch.join(format!("{}{}.sqlite", atomic::TEMPORARY, random_hex()));
    let _unfinished = Unfinished::create(&path)?;
    copying::copy(&live, &path, WAIT)?;
    let hashes = File::open(&path).and_then(content_hash::hashes).at("read", &path)?;
    Ok(Some(hashes.content))
}

/// A new file, which is removed again unless it is kept.
struct Unfinished<'p>(Option<&'p Path>);

impl<'p> Unfinished<'p> {
    /// Readable by the owner only, as the database may be.
    fn create(path: &'p Path) -> Result<Self> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).at("create", path)?;
        Ok(Unfinished(Some(path)))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(path) = self.0 else { return };
        let _ = fs::remove_file(path);
        for companion in sidecars::companions(path) {
            let _ = fs::remove_file(companion);
        }
    }
}

#[cfg(test)]
mod tests;
