//! The way back: what a copy holds becomes what the database holds.
//!
//! A database that can be read is written to through SQLite, in one transaction. One that is not there, or is none, is
//! made anew: complete, under another name, which then becomes its own. Before that, whatever is beside it goes:
//! SQLite would play a journal of the old file into the new one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rustix::io::Errno;

use super::copying::{self, advance};
use super::open::{self, MissingDatabase, PAUSE, WAIT, is_not_a_database};
use super::{DatabaseCopy, header, prove, sidecars};
use crate::checkpoint::hash::{ContentHash, Hashing};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::quarantine::{free_name, move_to_free_name, numbered};
use crate::fs::transfer;
use crate::interrupt::{self, Interruptible};

/// How long to wait for a lock that only the way of keeping a journal depends on.
const SHORT: Duration = Duration::from_secs(1);

/// What it took to bring a database back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRestore {
    /// Whether there was none, or none that SQLite could read.
    pub made_anew: bool,
    /// What was in the way, and where it is now.
    pub set_aside: Vec<PathBuf>,
    /// Whether the database has a `-wal` file now. If that is not what [`DatabaseCopy::wal`] says, other programs have it open,
    /// and SQLite cannot change it under them. It does not matter to what is in the database.
    pub wal: bool,
}

/// Brings a database back to what the copy holds. Directories that are missing above it are made; what is in the way
/// of a new file (something that is no database, a journal without one) is moved into the directory `aside`.
///
/// An error leaves the database as it was, or, if it was none, in `aside`.
pub fn restore(copy: &Path, expected: &DatabaseCopy, live: &Path, aside: &Path) -> Result<DatabaseRestore> {
    restore_within(copy, expected, live, aside, None, WAIT)
}

/// The same, for who has saved what is there and thinks that it has the content `saved`. Other programs may have written since; in
/// the very moment in which none can any more, what is there is looked at once more, and kept in `aside` if it is not that.
pub fn restore_over(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    aside: &Path,
    saved: Option<ContentHash>,
) -> Result<DatabaseRestore> {
    restore_within(copy, expected, live, aside, Some(saved), WAIT)
}

pub(super) fn restore_within(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    aside: &Path,
    saved: Option<Option<ContentHash>>,
    wait: Duration,
) -> Result<DatabaseRestore> {
    prove(copy, expected)?;
    if let Some(parent) = live.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).at("create", parent)?;
    }
    let (live, replaced) = match open::find(live)? {
        Ok((live, metadata)) => {
            atomic::sweep_target(&live);
            let last = saved.map(|saved| Last { aside, saved });
            match write_to(copy, expected, &live, last, wait) {
                Err(error) if is_not_a_database(&error) => {}
                result => {
                    return result.map(|(wal, set_aside)| DatabaseRestore {
                        made_anew: false,
                        set_aside,
                        wal,
                    });
                }
            }
            (live, Some(metadata))
        }
        Err(MissingDatabase(live)) => (live, None),
    };
    atomic::sweep_target(&live);
    let set_aside = set_aside(&live, aside)?;
    make(copy, expected, &live, replaced)?;
    Ok(DatabaseRestore { made_anew: true, set_aside, wal: expected.wal })
}

/// What has to be saved of a database in the last moment.
#[derive(Clone, Copy)]
struct Last<'l> {
    aside: &'l Path,
    /// What is saved already.
    saved: Option<ContentHash>,
}

impl Last<'_> {
    /// Called while nobody else can write. Returns where what was there is, if it was not saved yet; and a file that has to stay open
    /// as long as the database is locked: closing it would take this process' locks away.
    fn keep(self, live: &Path, is_wal: bool, wait: Duration) -> Result<(Option<PathBuf>, Option<File>)> {
        fs::create_dir_all(self.aside).at("create", self.aside)?;
        let to = self.aside.join(name_of(live));
        let to = free_name(|number| numbered(&to, ".", number));
        let mut held = None;
        match is_wal {
            // Readers are let in.
            true => {
                drop(atomic::create_new(&to).at("create", &to)?);
                copying::copy(live, &to, wait)?;
            }
            // They are not, and nothing is written to the file yet.
            false => {
                let mut file = File::open(live).at("read", live)?;
                let mut out = atomic::create_new(&to).at("create", &to)?;
                io::copy(&mut file, &mut out).and_then(|_| out.sync_all()).at("write", &to)?;
                held = Some(file);
            }
        }
        let content = File::open(&to).and_then(header::hashes).at("read", &to)?.content;
        if self.saved == Some(content) {
            fs::remove_file(&to).at("remove", &to)?;
            // Only if nothing else is in it.
            let _ = fs::remove_dir(self.aside);
            return Ok((None, held));
        }
        atomic::sync_dir(self.aside)?;
        Ok((Some(to), held))
    }
}

/// Takes the lock that keeps others from writing.
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

/// Writes a copy into a database that is there. Returns whether it has a `-wal` file now, and what was kept of it.
fn write_to(
    copy: &Path,
    expected: &DatabaseCopy,
    live: &Path,
    last: Option<Last<'_>>,
    wait: Duration,
) -> Result<(bool, Vec<PathBuf>)> {
    let failed = |error| open::failure("write to", live, wait, error);
    let source = open::unchanging(copy).map_err(|error| {
        // Not to be taken for a live file that is no database, which is moved away.
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
    let (kept, held) = match last {
        None => (None, None),
        Some(last) => {
            lock(&backup, live, wait)?;
            last.keep(live, is_wal, wait)?
        }
    };
    advance(&backup, live, wait, true)?;
    drop(backup);
    let wal = settle(target, expected.wal);
    drop(held);
    Ok((wal, kept.into_iter().collect()))
}

/// What is not needed for the content to be back: the journal as it was kept, and a `-wal` file that is no larger than it
/// has to be. Others may have the database open, and then it stays as it is. Returns whether there is a `-wal` file.
fn settle(connection: Connection, wal: bool) -> bool {
    let _ = connection.busy_timeout(SHORT);
    let mut is = is_wal(&connection).unwrap_or(wal);
    if is != wal {
        is = set_wal(&connection, wal).unwrap_or(is);
    }
    if is {
        let _ = connection.busy_timeout(Duration::ZERO);
        let _ = connection.pragma_query(None, "wal_checkpoint(TRUNCATE)", |_| Ok(()));
    }
    is
}

fn is_wal(connection: &Connection) -> rusqlite::Result<bool> {
    connection.pragma_query_value(None, "journal_mode", |row| Ok(row.get::<_, String>(0)? == "wal"))
}

/// Returns how it is then.
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
        .detail("its pages have another size than in the copy, which cannot be changed under others; nothing was changed")
        .hint("stop the programs that use it, then run the same command again");
    sidecars::holders(live).into_iter().fold(error, |error, holder| error.detail(format!("open in {holder}")))
}

/// Makes a database where there is nothing any more.
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
    // Whoever may not read the database may not read it while it is being written.
    let mut target = Hashing::new(atomic::create_new(to).at("create", to)?);
    target.out.set_permissions(Permissions::from_mode(0o600)).at("write", to)?;
    io::copy(&mut Interruptible(source), &mut target).at("write", to)?;
    let Hashing { out: file, hasher } = target;
    if hasher.finish().0 != expected.sha256 {
        return Err(Error::integrity(format!("{} changed while it was read", copy.display())));
    }
    header::set_wal(&file, expected.wal).at("write", to)?;
    if rustix::process::geteuid().is_root() {
        // What root makes for others has to be theirs.
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

/// Moves what is at a database's path, and what is beside it, into a directory, where nothing is replaced.
pub fn set_aside(live: &Path, aside: &Path) -> Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    let companions = sidecars::companions(live);
    for path in std::iter::once(live).chain(companions.iter().map(PathBuf::as_path)) {
        let to = aside.join(name_of(path));
        moved.extend(move_to_free_name(path, |number| numbered(&to, ".", number))?);
    }
    if !moved.is_empty() {
        atomic::sync_dir(aside)?;
        atomic::sync_parent(live)?;
    }
    Ok(moved)
}

/// Gives a new file its name.
fn rename_new(from: &Path, to: &Path) -> Result<()> {
    let dir = open_parent(to)?;
    match transfer::rename_new((dir.as_fd(), name_of(from)), (dir.as_fd(), name_of(to))) {
        Err(Errno::EXIST) => {
            Err(Error::failed(format!("another program made {} at this moment", to.display()))
                .hint("stop that program, then run the same command again"))
        }
        result => result.at("write", to),
    }
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().expect("it was found by its name")
}

fn open_parent(path: &Path) -> Result<File> {
    let parent = path.parent().expect("what has a name is somewhere");
    File::open(parent).at("open", parent)
}
