//! Restoring a database from a copy.
//!
//! A database that SQLite can read is written to through SQLite, in one transaction. A missing or unreadable one is
//! created: complete, under a temporary name, then renamed. Before that the files beside it are moved away:
//! SQLite would play a journal of the old file into the new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rustix::fs::CWD;
use rustix::io::Errno;

use super::copying::{self, advance};
use super::open::{self, PAUSE, WAIT, is_not_a_database};
use super::{DatabaseCopy, content_hash, prove, sidecars};
use crate::checkpoint::hash::{ContentHash, Hashing};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::quarantine::{free_name, move_to_free_name, numbered};
use crate::fs::transfer;
use crate::interrupt::{self, Interruptible};

/// How long to wait for a lock that is only needed to change the journal mode.
const SHORT: Duration = Duration::from_secs(1);

/// Restores a database from a copy. Missing directories above it are created; what is in the way of a new file (a file that is not a
/// database, a journal without one) is moved into the directory `set_aside`. Returns what was moved or kept there.
///
/// The caller has saved the database when it had the content `saved`. Other programs may have written since: once the lock keeps them
/// from writing, the content is compared again, and kept in `set_aside` if it is another.
///
/// After an error the database is as it was, or, if SQLite could not read it, in `set_aside`.
pub fn restore(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    set_aside: &Path,
    saved: Option<ContentHash>,
) -> Result<Vec<PathBuf>> {
    restore_within(copy, expected, live, LastWrites { set_aside, saved }, WAIT)
}

pub(super) fn restore_within(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    last: LastWrites<'_>,
    wait: Duration,
) -> Result<Vec<PathBuf>> {
    prove(copy, expected)?;
    if let Some(parent) = live.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).at("create", parent)?;
    }
    let (live, replaced) = open::find(live)?;
    atomic::sweep_target(&live);
    if replaced.is_some() {
        match write_to(copy, expected, &live, last, wait) {
            Err(error) if is_not_a_database(&error) => {}
            result => return result.map(|kept| kept.into_iter().collect()),
        }
    }
    let moved = set_aside(&live, last.set_aside)?;
    make(copy, expected, &live, replaced)?;
    Ok(moved)
}

/// Saves what other programs wrote up to the last moment.
#[derive(Clone, Copy)]
pub(super) struct LastWrites<'l> {
    pub set_aside: &'l Path,
    /// The content that is saved already.
    pub saved: Option<ContentHash>,
}

impl LastWrites<'_> {
    /// Copies the database while the lock is held. Returns the copy, unless that content is saved already; and a file that has to stay
    /// open as long as the database is locked: closing it would drop this process's locks.
    fn keep(self, live: &Path, is_wal: bool, wait: Duration) -> Result<(Option<PathBuf>, Option<File>)> {
        fs::create_dir_all(self.set_aside).at("create", self.set_aside)?;
        let to = self.set_aside.join(name_of(live));
        let to = free_name(|number| numbered(&to, ".", number));
        let mut held = None;
        if is_wal {
            // Readers are not blocked.
            drop(atomic::create_new(&to).at("create", &to)?);
            copying::copy(live, &to, wait)?;
        } else {
            // Readers are blocked, so SQLite cannot copy it; but nothing is written to the file yet.
            let mut file = File::open(live).at("read", live)?;
            let mut out = atomic::create_new(&to).at("create", &to)?;
            io::copy(&mut file, &mut out).and_then(|_| out.sync_all()).at("write", &to)?;
            held = Some(file);
        }
        let content = File::open(&to).and_then(content_hash::hashes).at("read", &to)?.content;
        if self.saved == Some(content) {
            fs::remove_file(&to).at("remove", &to)?;
            // Fails if something else is in it, which is fine.
            let _ = fs::remove_dir(self.set_aside);
            return Ok((None, held));
        }
        atomic::sync_dir(self.set_aside)?;
        Ok((Some(to), held))
    }
}

/// Takes the lock that keeps other programs from writing.
fn lock(backup: &Backup<'_, '_>, live: &Path, wait: Duration) -> Result<()> {
    let since = Instant::now();
    loop {
        interrupt::check()?;
        match backup.step(0).map_err(|error| open::failure("write to", live, wait, error))? {
            StepResult::Done | StepResult::More => return Ok(()),
            _ if since.elapsed() >= wait => return Err(open::locked(live, wait)),
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Writes a copy into an existing database. Returns where its content is kept, unless that is saved already.
fn write_to(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    last: LastWrites<'_>,
    wait: Duration,
) -> Result<Option<PathBuf>> {
    let failed = |error| open::failure("write to", live, wait, error);
    let source = open::unchanging(copy).map_err(|error| {
        // Must not be confused with a live file that is not a database, which is moved away.
        Error::integrity(format!("the copy of the database at {} cannot be read", copy.display()))
            .caused_by(error)
    })?;
    let mut target = open::writer(live, wait).map_err(failed)?;
    let was_wal = is_wal(&target).map_err(failed)?;
    let page_size = |connection: &Connection| -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, "page_size", |row| row.get(0))
    };
    // SQLite cannot change the size of pages through a `-wal` file.
    if was_wal && page_size(&source).map_err(failed)? != page_size(&target).map_err(failed)? {
        match set_wal(&target, false) {
            Ok(false) => {}
            Ok(true) => return Err(in_use(live)),
            Err(error) if open::is_locked(&error) => return Err(in_use(live)),
            Err(error) => return Err(failed(error)),
        }
    }
    let is_wal = is_wal(&target).map_err(failed)?;
    let backup = Backup::new(&source, &mut target).map_err(failed)?;
    lock(&backup, live, wait)?;
    let (kept, held) = last.keep(live, is_wal, wait)?;
    advance(&backup, live, wait, true)?;
    drop(backup);
    settle(target, expected.wal);
    drop(held);
    Ok(kept)
}

/// Restores the journal mode and truncates the `-wal` file, as far as other programs allow it. The content does not depend on either.
fn settle(connection: Connection, wal: bool) {
    let _ = connection.busy_timeout(SHORT);
    let mut is = is_wal(&connection).unwrap_or(wal);
    if is != wal {
        is = set_wal(&connection, wal).unwrap_or(is);
    }
    if is {
        let _ = connection.busy_timeout(Duration::ZERO);
        let _ = connection.pragma_query(None, "wal_checkpoint(TRUNCATE)", |_| Ok(()));
    }
}

fn is_wal(connection: &Connection) -> rusqlite::Result<bool> {
    connection.pragma_query_value(None, "journal_mode", |row| Ok(row.get::<_, String>(0)? == "wal"))
}

/// Returns whether there is a `-wal` file afterwards.
fn set_wal(connection: &Connection, wal: bool) -> rusqlite::Result<bool> {
    let mode = if wal { "WAL" } else { "DELETE" };
    connection.pragma_update_and_check(
        None,
        "journal_mode",
        mode,
        |row| Ok(row.get::<_, String>(0)? == "wal"),
    )
}

fn in_use(live: &Path) -> Error {
    let error = Error::failed(format!("the database {} is open in another program", live.display()))
        .detail("its page size differs from that of the copy and cannot be changed while it is open; nothing was changed")
        .hint("stop the programs that use it, then run the same command again");
    sidecars::holders(live).into_iter().fold(error, |error, holder| error.detail(format!("open in {holder}")))
}

/// Creates a database at a path that is free.
fn make(copy: &Path, expected: &DatabaseCopy, live: &Path, replaced: Option<Metadata>) -> Result<()> {
    let mut temporary = OsString::from(format!("{TEMPORARY}{}-", std::process::id()));
    temporary.push(name_of(live));
    let temporary = live.with_file_name(temporary);
    let made = fill(copy, expected, &temporary, replaced).and_then(|()| rename_new(&temporary, live));
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made?;
    atomic::sync_parent(live)
}

fn fill(copy: &Path, expected: &DatabaseCopy, to: &Path, replaced: Option<Metadata>) -> Result<()> {
    let source = File::open(copy).at("read", copy)?;
    // A user who may not read the database may not read it while it is written, either.
    let mut target = Hashing::new(atomic::create_new(to).at("create", to)?);
    target.out.set_permissions(Permissions::from_mode(0o600)).at("write", to)?;
    io::copy(&mut Interruptible(source), &mut target).at("write", to)?;
    let Hashing { out: file, hasher } = target;
    if hasher.finish().0 != expected.sha256 {
        return Err(Error::integrity(format!("{} changed while it was read", copy.display())));
    }
    content_hash::set_wal(&file, expected.wal).at("write", to)?;
    if rustix::process::geteuid().is_root() {
        // A file that root creates in a user's directory has to be the user's.
        let owner = match (replaced, to.parent()) {
            (None, Some(directory)) => directory.metadata().ok(),
            (replaced, _) => replaced,
        };
        if let Some(owner) = owner {
            fchown(&file, Some(owner.uid()), Some(owner.gid())).at("write", to)?;
        }
    }
    file.set_permissions(Permissions::from_mode(expected.mode)).at("write", to)?;
    file.sync_all().at("write", to)
}

/// Moves a database, and the files beside it, into a directory, where nothing is replaced.
pub fn set_aside(live: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    let companions = sidecars::companions(live);
    for path in std::iter::once(live).chain(companions.iter().map(PathBuf::as_path)) {
        let to = dir.join(name_of(path));
        moved.extend(move_to_free_name(path, |number| numbered(&to, ".", number))?);
    }
    if !moved.is_empty() {
        atomic::sync_dir(dir)?;
        atomic::sync_parent(live)?;
    }
    Ok(moved)
}

/// Renames a new file; an error if the name is taken.
fn rename_new(from: &Path, to: &Path) -> Result<()> {
    match transfer::rename_new((CWD, from.as_os_str()), (CWD, to.as_os_str())) {
        Err(Errno::EXIST) => Err(Error::failed(format!("another program has just created {}", to.display()))
            .hint("stop that program, then run the same command again")),
        result => result.at("write", to),
    }
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().expect("a database has a file name")
}
