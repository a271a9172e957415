//! SQLite databases in the tree that other programs use.
//!
//! Such a database is not one file: a part of it is in a `-wal` or `-journal` file beside it. And a program that has it open keeps
//! writing to the file that it opened: if a restore replaced that file, everything that the program commits from then on would be
//! lost. So:
//!
//! - a capture names databases that are in use, or not complete in their one file, in the coverage;
//! - a comparison does not list a database that another program has open among the changes, but apart from them;
//! - a restore that would replace or remove one is refused before it touches anything.
//!
//! Those that were deleted under a program are in `deleted_database`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::path::TreePath;
use super::root::{PathKind, Root};
use super::stat_cache::{Stat, Time};
use super::tree::Tree;
use crate::error::{Error, FailureReason};
use crate::process::file_users::{self, FileIdentity};

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The size of a database is a multiple of this.
const SECTOR: u64 = 512;
const WAL: &[u8] = b"-wal";
const JOURNAL: &[u8] = b"-journal";
/// What SQLite appends to the name of a database for the files beside it.
const SIDECARS: [&[u8]; 3] = [WAL, b"-shm", JOURNAL];
/// The first bytes of a `-wal` file, in either byte order of its checksums, and of a `-journal` file.
const JOURNAL_MAGICS: [&[u8]; 3] =
    [&[0x37, 0x7f, 0x06, 0x82], &[0x37, 0x7f, 0x06, 0x83], &[0xd9, 0xd5, 0x05, 0xf9]];

/// A database that other programs have open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseInUse {
    pub path: TreePath,
    /// The programs: `python3 (process 12)`.
    pub users: Vec<String>,
}

/// A database that a checkpoint holds as files, and why those may not be enough to restore it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LiveDatabase {
    pub path: TreePath,
    pub reasons: Vec<LiveReason>,
}

/// Why a database is not like any other file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LiveReason {
    /// Another program has it open.
    InUse,
    /// A part of it is in its `-wal` or `-journal` file.
    Journal,
    /// A part of it is in a file that the checkpoint does not hold.
    JournalLeftOut,
    /// It changed while the checkpoint was made.
    Changed,
}

impl DatabaseInUse {
    /// Whether a path is the database, or one of the files beside it.
    pub fn owns(&self, path: &TreePath) -> bool {
        self.path == *path || database_of(path).is_some_and(|database| database == self.path)
    }

    pub fn users(&self) -> String {
        self.users.join(", ")
    }
}

impl LiveDatabase {
    /// Why it is listed, in words.
    pub fn why(&self) -> String {
        let word = |reason: &LiveReason| match reason {
            LiveReason::InUse => "another program has it open",
            LiveReason::Journal => "its -wal or -journal file holds a part of it",
            LiveReason::JournalLeftOut => {
                "its -wal or -journal file is not in the checkpoint: it is ignored, or was made meanwhile"
            }
            LiveReason::Changed => "it changed while the checkpoint was made",
        };
        self.reasons.iter().map(word).collect::<Vec<_>>().join("; ")
    }
}

/// The path of the database that a file beside it belongs to, by its name.
pub fn database_of(path: &TreePath) -> Option<TreePath> {
    TreePath::new(database_name(path.as_bytes())?).ok()
}

/// The same for a name, or a path as bytes.
pub fn database_name(name: &[u8]) -> Option<&[u8]> {
    SIDECARS.iter().find_map(|ending| name.strip_suffix(*ending)).filter(|database| !database.is_empty())
}

fn beside(database: &TreePath, ending: &[u8]) -> Option<TreePath> {
    TreePath::new([database.as_bytes(), ending].concat()).ok()
}

/// The files that hold a database: itself, and those with a part of it.
pub fn parts(database: &TreePath) -> Vec<TreePath> {
    let journals = [WAL, JOURNAL].into_iter().filter_map(|ending| beside(database, ending));
    std::iter::once(database.clone()).chain(journals).collect()
}

/// Whether a file of this size can be a database.
pub fn may_be_database(size: u64) -> bool {
    size >= SECTOR && size.is_multiple_of(SECTOR)
}

/// Opens a file, if it is a database.
pub(super) fn open_database(root: &Root, path: &TreePath) -> Option<File> {
    let found = root.find(path).ok()??;
    if found.kind != PathKind::File || !may_be_database(found.size) {
        return None;
    }
    let file = root.open_file(path).ok()?;
    has_magic(&file).then_some(file)
}

/// Whether a file begins like a database.
pub(super) fn has_magic(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *MAGIC
}

/// The databases among these paths, or beside them, that other programs have open.
pub fn in_use<'p>(root: &Root, paths: impl Iterator<Item = &'p TreePath>) -> Vec<DatabaseInUse> {
    let candidates: BTreeSet<TreePath> =
        paths.flat_map(|path| [Some(path.clone()), database_of(path)]).flatten().collect();
    let used = candidates.into_iter().filter_map(|path| {
        let file = open_database(root, &path)?;
        Some(DatabaseInUse { users: users(root, &path, &file), path })
    });
    used.filter(|database| !database.users.is_empty()).collect()
}

/// The other programs that use a database: they have its file open, or a lock on it or on its `-shm` file.
fn users(root: &Root, path: &TreePath, file: &File) -> Vec<String> {
    let identity = |path: &TreePath, file: &File| {
        file.metadata().ok().map(|metadata| FileIdentity::new(&metadata, path.name()))
    };
    let mut files: Vec<FileIdentity> = identity(path, file).into_iter().collect();
    let mut is_locked = file_users::is_locked(file);
    for beside in SIDECARS.iter().filter_map(|ending| beside(path, ending)) {
        if let Ok(file) = root.open_file(&beside) {
            files.extend(identity(&beside, &file));
            is_locked = is_locked || file_users::is_locked(&file);
        }
    }
    let mut users = file_users::users(&files);
    if users.is_empty() && is_locked {
        users.push("a process that is not visible here, outside of this container".to_owned());
    }
    users
}

/// The databases that a capture of `tree` found, each with the reasons why its files may not be enough; none if there is no reason.
/// `named` have a file beside them that belongs to a database by its name; `open` are files that other processes have open.
pub fn find_live(
    root: &Root,
    tree: &Tree,
    named: Vec<TreePath>,
    open: BTreeSet<PathBuf>,
    began: Time,
) -> Vec<LiveDatabase> {
    let open = open.iter().filter_map(|path| TreePath::new(path.as_os_str().as_encoded_bytes()).ok());
    let mut candidates: BTreeSet<TreePath> = named.into_iter().collect();
    candidates.extend(open.flat_map(|path| [database_of(&path), Some(path)]).flatten());
    let live = |path: TreePath| {
        let file = tree.has(&path).then(|| open_database(root, &path)).flatten()?;
        let mut reasons = Vec::new();
        if !users(root, &path, &file).is_empty() {
            reasons.push(LiveReason::InUse);
        }
        for journal in journals_of(root, &path) {
            let held = tree.has(&journal);
            reasons.push(if held { LiveReason::Journal } else { LiveReason::JournalLeftOut });
        }
        reasons.dedup();
        // As long as its own file is the same, the journals of any moment belong to it.
        let changed = rustix::fs::fstat(&file).is_ok_and(|stat| Stat::of(&stat).ctime >= began);
        if !reasons.is_empty() && changed {
            reasons.push(LiveReason::Changed);
        }
        (!reasons.is_empty()).then_some(LiveDatabase { path, reasons })
    };
    candidates.into_iter().filter_map(live).collect()
}

/// The files beside a database that hold a part of it.
pub fn journals_of(root: &Root, path: &TreePath) -> Vec<TreePath> {
    parts(path).into_iter().skip(1).filter(|journal| is_journal(root, journal)).collect()
}

/// Whether a file is one of SQLite's journals, with something in it.
fn is_journal(root: &Root, path: &TreePath) -> bool {
    let mut magic = [0; 4];
    let Ok(Some(found)) = root.find(path) else { return false };
    found.kind == PathKind::File
        && found.size > 0
        && root.open_file(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && JOURNAL_MAGICS.iter().any(|known| *known == magic)
}

/// The error of a restore that would replace databases which other programs have open.
pub fn refusal(what: &str, databases: &[DatabaseInUse]) -> Error {
    let line = |database: &DatabaseInUse| {
        format!("{} is an SQLite database that is open in {}", database.path, database.users())
    };
    let count = crate::humanize::count(databases.len(), "database");
    Error::failed(format!("cannot {what}: {count} in use by another program"))
        .because(FailureReason::Conflict)
        .details(databases.iter().map(line).collect(), 20)
        .detail("what that program commits would be lost if its file were replaced; nothing was touched")
        .hint("stop that program, then run the same command again; `--type database_savepoint` saves and restores a database in use")
}
