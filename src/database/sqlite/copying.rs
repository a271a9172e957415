//! SQLite's backup.
//!
//! SQLite starts a backup over whenever another program writes between two of its steps, so a backup may never end. Inside a
//! read transaction nothing changes, and the backup runs once. With a `-wal` file such a transaction blocks no
//! program. Without one, a program that wants to commit waits for it: so a large database is first copied without the transaction, step by
//! step, and only if other programs write during that, with it.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::open::{self, PAUSE};
use super::sidecars::{self, Sidecars};
use crate::error::{IoContext, Result};
use crate::interrupt;

/// Pages copied at a time: 4 MiB, if they are of the usual size.
const PAGES: c_int = 1024;
/// Copying a database up to this size takes so little time that a writer does not notice.
const SMALL: u64 = 32 << 20;
/// How often the file of a database that cannot be locked may change while it is copied.
const TRIES: usize = 5;

/// Copies the database at `live` into the empty file at `to`. Changes neither the live file nor the files beside it.
pub(super) fn copy(live: &Path, to: &Path, wait: Duration) -> Result<()> {
    let before = Sidecars::of(live);
    let copied = match open::reader(live, wait) {
        Ok(source) => copy_from(&source, live, to, wait),
        Err(error) if open::cannot_open(&error) && sidecars::is_alone(live) => {
            return copy_untouched(live, to, error);
        }
        Err(error) => Err(open::failure("read", live, wait, error)),
    };
    before.remove_new(live);
    copied
}

fn copy_from(source: &Connection, live: &Path, to: &Path, wait: Duration) -> Result<()> {
    let failed = |error| open::failure("copy", live, wait, error);
    let mode: String = source.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(failed)?;
    let bytes = live.metadata().map_or(0, |metadata| metadata.len());
    if mode != "wal" && bytes > SMALL {
        let mut target = target(to)?;
        let backup = Backup::new(source, &mut target).map_err(failed)?;
        if advance(&backup, live, wait, false)? {
            return Ok(());
        }
    }
    source.execute_batch("BEGIN; PRAGMA schema_version").map_err(failed)?;
    let mut target = target(to)?;
    let backup = Backup::new(source, &mut target).map_err(failed)?;
    advance(&backup, live, wait, true).map(drop)
}

/// Opens the copy's file. It is worthless until it is complete, so SQLite does not have to make it durable step by step.
fn target(to: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(to, flags)?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        Ok(connection)
    };
    // What an earlier try left has no journal, so SQLite could not roll it back.
    OpenOptions::new().write(true).truncate(true).open(to).at("write", to)?;
    open().map_err(|error| open::failure("write", to, Duration::ZERO, error))
}

/// Copies all pages. Returns `false` if it is not `steady` and another program wrote in between: SQLite has started over, and may
/// have to again. `locked` is the database that another program may have locked.
pub(super) fn advance(backup: &Backup<'_, '_>, locked: &Path, wait: Duration, steady: bool) -> Result<bool> {
    let mut since = Instant::now();
    let mut copied = 0;
    loop {
        interrupt::check()?;
        match backup.step(PAGES).map_err(|error| open::failure("copy", locked, wait, error))? {
            StepResult::Done => return Ok(true),
            StepResult::More => {
                since = Instant::now();
                copied += PAGES;
                let progress = backup.progress();
                if !steady && progress.pagecount - progress.remaining < copied {
                    return Ok(false);
                }
            }
            _ if since.elapsed() >= wait => return Err(open::locked(locked, wait)),
            _ => thread::sleep(PAUSE),
        }
    }
}

/// Copies a database that needs a `-wal` file in a directory where decree may not write. No program has
/// it open, or there would be one; so it is read without locks, and has to be the same afterwards.
fn copy_untouched(live: &Path, to: &Path, why: rusqlite::Error) -> Result<()> {
    let state = || {
        let metadata = live.symlink_metadata().ok()?;
        let now = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec());
        sidecars::is_alone(live).then_some(now)
    };
    for _ in 0..TRIES {
        let before = state();
        let Ok(source) = open::unchanging(live) else {
            return Err(open::failure("read", live, Duration::ZERO, why));
        };
        let mut target = target(to)?;
        let backup = Backup::new(&source, &mut target)
            .map_err(|error| open::failure("copy", live, Duration::ZERO, error))?;
        advance(&backup, live, Duration::ZERO, true)?;
        if before.is_some() && before == state() {
            return Ok(());
        }
    }
    Err(open::failure("read", live, Duration::ZERO, why)
        .hint("SQLite needs write access to the directory of a database with a -wal file"))
}
