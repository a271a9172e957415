//! Connections, waiting for other programs, and the meaning of SQLite's errors.

use std::ffi::c_int;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::sidecars;
use crate::error::{Error, IoContext, Result};
use crate::humanize;
use crate::interrupt;

/// How long another program may hold a lock that decree needs.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How long to wait before the next try. Without a `-wal` file, a program that writes all the time leaves gaps of a millisecond.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// After how many of SQLite's steps to check for a signal.
const OPERATIONS: c_int = 10_000;

/// Finds a database's file; `None` if nothing is there. Anything but a regular file is an error. Directories above the path that is
/// returned are without links, as SQLite refuses a path with any.
pub(super) fn find(path: &Path) -> Result<(PathBuf, Option<Metadata>)> {
    let is_missing =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let real = match real(path) {
        Err(error) if is_missing(&error) => return Ok((path.to_owned(), None)),
        result => result.at("find", path)?,
    };
    match real.symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Ok((real, Some(metadata))),
        Ok(metadata) if metadata.is_symlink() => {
            Err(Error::failed(format!("{} is a symbolic link, not a database", path.display()))
                .hint("name the file that it leads to"))
        }
        Ok(_) => Err(Error::failed(format!("{} is not a regular file", path.display()))),
        Err(error) if is_missing(&error) => Ok((real, None)),
        Err(error) => Err(error).at("read", path),
    }
}

/// A file's path, with the real path of its directory.
fn real(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file"));
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(fs::canonicalize(parent.unwrap_or(Path::new(".")))?.join(name))
}

/// A connection that reads, and has read once: a journal that a crash left is rolled back.
pub(super) fn reader(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    match connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait) {
        // A journal has to be rolled back first, for which SQLite has to write.
        Err(error)
            if error
                .sqlite_error()
                .is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_ROLLBACK) =>
        {
            drop(writer(path, wait)?);
            connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, wait)
        }
        result => result,
    }
}

/// A connection that writes to an existing database, and has read it once.
pub(super) fn writer(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, wait)
}

fn connect(path: &Path, access: OpenFlags, wait: Duration) -> rusqlite::Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    harden(&mut connection, wait)?;
    connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))?;
    Ok(connection)
}

/// A connection to a database that no program changes: no locks, and no files beside it.
pub(super) fn unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let path = real(path).unwrap_or_else(|_| path.to_owned());
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                address.push(char::from(*byte))
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address.push_str("?immutable=1");
    let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    connect(Path::new(&address), access, Duration::ZERO)
}

/// A database may come from anywhere, so nothing in it is executed. Waits for locks of other programs, up to `wait` and until a
/// signal arrives.
fn harden(connection: &mut Connection, wait: Duration) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.progress_handler(OPERATIONS, Some(|| interrupt::check().is_err()))?;
    let mut since = Instant::now();
    connection.busy_handler(Some(move |times| {
        if times == 0 {
            since = Instant::now();
        }
        let go_on = since.elapsed() < wait && interrupt::check().is_ok();
        if go_on {
            thread::sleep(PAUSE);
        }
        go_on
    }))
}

/// SQLite's code for an error.
pub(super) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    match error {
        rusqlite::Error::SqlInputError { error, .. } => Some(error.code),
        error => error.sqlite_error_code(),
    }
}

/// Whether SQLite could not open something, which may be a file beside the database.
pub(super) fn cannot_open(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// Whether another program holds a lock.
pub(super) fn is_locked(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Converts an error of SQLite's.
pub(super) fn failure(verb: &str, path: &Path, wait: Duration, error: rusqlite::Error) -> Error {
    if let Err(interrupted) = interrupt::check() {
        return interrupted;
    }
    if is_locked(&error) {
        return locked(path, wait);
    }
    let failure = Error::failed(format!("cannot {verb} the database {}", path.display()));
    match code(&error) {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            failure.caused_by(NotADatabase(error.to_string()))
        }
        Some(ErrorCode::DiskFull) => {
            failure.caused_by(error).hint("free some disk space, then run the same command again")
        }
        _ => failure.caused_by(error),
    }
}

/// The error for a lock that another program held for longer than `wait`.
pub(super) fn locked(path: &Path, wait: Duration) -> Error {
    let error = Error::failed(format!(
        "the database {} is locked by another program: waited for {}",
        path.display(),
        humanize::duration(wait)
    ))
    .hint("wait until that program is done, or stop it, then run the same command again");
    sidecars::holders(path)
        .into_iter()
        .fold(error, |error, holder| error.detail(format!("locked by {holder}")))
}

/// SQLite's reason why a file is not a database.
#[derive(Debug)]
struct NotADatabase(String);

impl fmt::Display for NotADatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLite: {}", self.0)
    }
}

impl std::error::Error for NotADatabase {}

/// Whether an error says that SQLite cannot read a file: it is not a database, or it is damaged or encrypted.
pub fn is_not_a_database(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<NotADatabase>())
}
