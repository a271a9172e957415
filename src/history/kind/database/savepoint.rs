//! What a savepoint holds of each database, and what is in the databases now.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::target::{DatabaseTarget, DatabaseTargets, place};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::database::commands::{self, DatabaseCommands, Dump};
use crate::database::sqlite::{self, is_not_a_database};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::history::HistoryContext;
use crate::history::record::CheckpointRecord;

/// Where in a checkpoint's directory the files are.
const DIR: &str = "databases";

/// One database in a savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDatabase {
    /// As [`DatabaseTarget::word`] has it.
    pub name: String,
    /// What was saved of it.
    pub held: DatabaseState,
}

/// What was saved of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseState {
    /// A copy by SQLite.
    Sqlite(sqlite::DatabaseCopy),
    /// What a command saved.
    Dump(Dump),
    /// There was no file. Only what a rollback saves first has this.
    Nothing,
    /// There was a file, and it was no database. Likewise.
    Bytes {
        /// How many.
        bytes: u64,
        /// Of them.
        sha256: ContentHash,
        /// The file's permissions.
        mode: u32,
    },
}

/// A savepoint, read from its record.
#[derive(Clone, Debug, Default)]
pub struct Savepoint(pub Vec<SavedDatabase>);

impl SavedDatabase {
    /// Which database.
    pub fn target(&self) -> DatabaseTarget {
        DatabaseTargets::stored(std::slice::from_ref(&self.name)).0.pop_first().expect("there is one word")
    }

    /// How many bytes are kept of it.
    pub fn bytes(&self) -> u64 {
        match &self.held {
            DatabaseState::Sqlite(copy) => copy.bytes,
            DatabaseState::Dump(dump) => dump.bytes,
            DatabaseState::Bytes { bytes, .. } => *bytes,
            DatabaseState::Nothing => 0,
        }
    }

    /// What has to be in the database for it to be as it was.
    pub fn content(&self) -> Option<ContentHash> {
        match &self.held {
            DatabaseState::Sqlite(copy) => Some(copy.content),
            DatabaseState::Dump(dump) => dump.fingerprint,
            DatabaseState::Bytes { sha256, .. } => Some(*sha256),
            DatabaseState::Nothing => None,
        }
    }
}

/// Of all of them: a line for each, in order.
pub(super) fn hash(contents: impl IntoIterator<Item = (String, Option<ContentHash>)>) -> ContentHash {
    let line = |(name, content): (String, Option<ContentHash>)| match content {
        Some(content) => format!("{content} {name}\n"),
        None => format!("absent {name}\n"),
    };
    ContentHash::of(contents.into_iter().map(line).collect::<String>().as_bytes())
}

impl Savepoint {
    /// Of all that it holds.
    pub fn hash(&self) -> ContentHash {
        hash(self.0.iter().map(|saved| (saved.name.clone(), saved.content())))
    }
}

/// The file that holds a database.
pub(super) fn file(dir: &Path, number: usize) -> PathBuf {
    dir.join(DIR).join(format!("{number}"))
}

/// The files of a savepoint, from its directory on.
pub fn left_over(record: &CheckpointRecord) -> Vec<String> {
    let held = record.databases.iter().enumerate().filter(|(_, saved)| saved.held != DatabaseState::Nothing);
    held.map(|(number, _)| format!("{DIR}/{number}")).collect()
}

/// Saves each of them. What is there and no database is an error, unless it has to be saved as it is because something else takes
/// its place.
pub fn fill(
    site: HistoryContext<'_>,
    dir: &Path,
    targets: &DatabaseTargets,
    as_it_is: bool,
    record: &mut CheckpointRecord,
) -> Result<()> {
    let files = dir.join(DIR);
    fs::create_dir(&files).at("create", &files)?;
    for (number, target) in targets.0.iter().enumerate() {
        let held = save(site, target, &file(dir, number), as_it_is)?;
        record.databases.push(SavedDatabase { name: target.word(), held });
    }
    let savepoint = Savepoint(record.databases.clone());
    record.tree = savepoint.hash().to_string();
    record.files = record.databases.len() as u64;
    record.bytes = record.databases.iter().map(SavedDatabase::bytes).sum();
    Ok(())
}

fn save(
    site: HistoryContext<'_>,
    target: &DatabaseTarget,
    to: &Path,
    as_it_is: bool,
) -> Result<DatabaseState> {
    let path = match target {
        DatabaseTarget::Named(name) => {
            let dump = DatabaseCommands::find(site.layout.root(), site.config, name)?.save(to)?;
            return match dump.fingerprint {
                Some(_) => Ok(DatabaseState::Dump(dump)),
                None => Err(Error::failed(format!("the database '{name}' changed while it was saved"))
                    .detail("nobody could tell later whether it is as it was")
                    .hint("stop what writes to it, and try again")),
            };
        }
        DatabaseTarget::Sqlite(path) => place(site.layout, path)?,
    };
    if as_it_is && !path.try_exists().at("read", &path)? {
        return Ok(DatabaseState::Nothing);
    }
    match sqlite::save(&path, to) {
        Ok(copy) => Ok(DatabaseState::Sqlite(copy)),
        // Damaged, or none at all: then its bytes are all there is.
        Err(error) if as_it_is && (is_not_a_database(&error) || error.kind() == ErrorKind::Integrity) => {
            keep_bytes(&path, to)
        }
        Err(error) => Err(error),
    }
}

/// A copy of a file, whatever it is.
fn keep_bytes(path: &Path, to: &Path) -> Result<DatabaseState> {
    let mut from = File::open(path).at("read", path)?;
    let mode = from.metadata().at("read", path)?.permissions().mode() & 0o7777;
    let mut out = AtomicFile::create(to)?;
    let bytes = io::copy(&mut from, &mut out).at("copy", path)?;
    out.commit()?;
    // What a program could still make of it may be in these.
    for ending in ["-wal", "-journal"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(OsStr::new(ending));
            PathBuf::from(name)
        };
        if beside(path).is_file() {
            let mut out = AtomicFile::create(beside(to))?;
            let mut from = File::open(beside(path)).at("read", beside(path))?;
            io::copy(&mut from, &mut out).at("copy", beside(path))?;
            out.commit()?;
        }
    }
    let (sha256, _) = hash_of(to)?;
    Ok(DatabaseState::Bytes { bytes, sha256, mode })
}

pub(super) fn hash_of(path: &Path) -> Result<(ContentHash, u64)> {
    let mut file = File::open(path).at("read", path)?;
    ContentHash::of_reader(&mut file, &mut vec![0; 1 << 16]).at("read", path)
}

/// Checks every file. Returns how many databases there are.
pub fn verify(saved: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    for (number, database) in record.databases.iter().enumerate() {
        check(&file(saved.dir(), number), database)?;
    }
    Ok(record.databases.len())
}

pub(super) fn check(file: &Path, database: &SavedDatabase) -> Result<()> {
    match &database.held {
        DatabaseState::Sqlite(copy) => sqlite::check(file, copy),
        DatabaseState::Dump(dump) => commands::check(file, dump),
        DatabaseState::Nothing => Ok(()),
        DatabaseState::Bytes { sha256, .. } => match hash_of(file) {
            Ok((found, _)) if found == *sha256 => Ok(()),
            _ => Err(Error::integrity(format!("{} is not what was saved", file.display()))),
        },
    }
}

/// What is in a database now; `None` if there is none.
pub(super) fn content_now(site: HistoryContext<'_>, target: &DatabaseTarget) -> Result<Option<ContentHash>> {
    let scratch = site.layout.scratch();
    match target {
        DatabaseTarget::Named(name) => {
            DatabaseCommands::find(site.layout.root(), site.config, name)?.fingerprint_now(&scratch).map(Some)
        }
        DatabaseTarget::Sqlite(path) => {
            let path = place(site.layout, path)?;
            match sqlite::content_now(&path, &scratch) {
                Err(error) if is_not_a_database(&error) => hash_of(&path).map(|(hash, _)| Some(hash)),
                content => content,
            }
        }
    }
}
