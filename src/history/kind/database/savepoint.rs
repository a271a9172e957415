//! Saving and verifying databases.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::database::commands::{self, DatabaseCommands};
use crate::database::sqlite::{self, is_not_a_database};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::history::HistoryContext;
use crate::history::contents_report::ContentsReport;
use crate::history::payload::{
    CheckpointPayload, DatabaseState, DatabaseTarget, DatabaseTargets, SavedDatabase, combined_hash,
    sqlite_path,
};
use crate::history::record::CheckpointRecord;
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};
use crate::humanize::{self, count};

/// The file that holds a database.
pub(super) fn file(dir: &CheckpointDir, number: usize) -> PathBuf {
    dir.dir().join(SavedDatabase::file(number))
}

/// Saves each of them. A file that is not a database is an error, unless it is saved `as_it_is`, because a rollback replaces it.
pub fn save(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    targets: &DatabaseTargets,
    as_it_is: bool,
) -> Result<SavedCheckpoint> {
    write_checkpoint(context.layout, label, |dir, _| {
        let files = dir.dir().join("databases");
        fs::create_dir(&files).at("create", &files)?;
        let mut list = Vec::new();
        for (number, target) in targets.0.iter().enumerate() {
            let held = save_one(context, target, &file(dir, number), as_it_is)?;
            list.push(SavedDatabase { name: target.word(), held });
        }
        Ok(SavedContents {
            files: list.len() as u64,
            bytes: list.iter().map(SavedDatabase::bytes).sum(),
            hash: combined_hash(list.iter().map(|saved| (saved.name.clone(), saved.content()))),
            payload: CheckpointPayload::Databases(list),
        })
    })
}

fn save_one(
    context: HistoryContext<'_>,
    target: &DatabaseTarget,
    to: &Path,
    as_it_is: bool,
) -> Result<DatabaseState> {
    let path = match target {
        DatabaseTarget::Named(name) => {
            let dump = DatabaseCommands::find(context.layout.root(), context.config, name)?.save(to)?;
            return match dump.fingerprint {
                Some(_) => Ok(DatabaseState::Dump(dump)),
                None => Err(Error::failed(format!("the database '{name}' changed while it was saved"))
                    .detail("so a later rollback could not be verified")
                    .hint("stop what writes to it, then run the same command again")),
            };
        }
        DatabaseTarget::Sqlite(path) => sqlite_path(context.layout, path)?,
    };
    if as_it_is && !path.try_exists().at("read", &path)? {
        return Ok(DatabaseState::Nothing);
    }
    match sqlite::save(&path, to) {
        Ok(copy) => Ok(DatabaseState::Sqlite(copy)),
        // Damaged, or not a database: its bytes are all that can be saved.
        Err(error) if as_it_is && (is_not_a_database(&error) || error.kind() == ErrorKind::Integrity) => {
            keep_bytes(&path, to)
        }
        Err(error) => Err(error),
    }
}

/// Copies a file that SQLite cannot read.
fn keep_bytes(path: &Path, to: &Path) -> Result<DatabaseState> {
    let mut from = File::open(path).at("read", path)?;
    let mode = from.metadata().at("read", path)?.permissions().mode() & 0o7777;
    let mut out = AtomicFile::create(to)?;
    let bytes = io::copy(&mut from, &mut out).at("copy", path)?;
    out.commit()?;
    // A repair tool may need these.
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

/// Checks every file. Returns the number of databases.
pub fn verify(dir: &CheckpointDir, list: &[SavedDatabase]) -> Result<usize> {
    for (number, database) in list.iter().enumerate() {
        check(&file(dir, number), database)?;
    }
    Ok(list.len())
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

/// The hash of what is in a database now; `None` if there is no database.
pub(super) fn content_now(
    context: HistoryContext<'_>,
    target: &DatabaseTarget,
) -> Result<Option<ContentHash>> {
    let scratch = context.layout.scratch();
    match target {
        DatabaseTarget::Named(name) => DatabaseCommands::find(context.layout.root(), context.config, name)?
            .fingerprint_now(&scratch)
            .map(Some),
        DatabaseTarget::Sqlite(path) => {
            let path = sqlite_path(context.layout, path)?;
            match sqlite::content_now(&path, &scratch) {
                Err(error) if is_not_a_database(&error) => hash_of(&path).map(|(hash, _)| Some(hash)),
                content => content,
            }
        }
    }
}

/// What a savepoint holds, and warnings for the user.
pub fn describe(record: &CheckpointRecord) -> (ContentsReport, Vec<String>) {
    let list = record.payload.databases();
    let (mut files, mut names, mut unchecked) = (Vec::new(), Vec::new(), Vec::new());
    for saved in list {
        if let DatabaseState::Sqlite(copy) = &saved.held {
            let database = saved.target();
            let name = |table: &String| format!("the table {table} of {}", database.name());
            unchecked.extend(copy.unchecked.iter().map(name));
        }
        match saved.target() {
            DatabaseTarget::Sqlite(path) => files.push(path),
            DatabaseTarget::Named(name) => names.push(name),
        }
    }
    let warning =
        |table: &String| format!("{table} could not be checked: it relies on functions of its application");
    let warnings = unchecked.iter().map(warning).collect();
    let report = ContentsReport {
        files,
        state_keys: names,
        hash: record.tree.clone(),
        summary: format!("{}, {}", count(list.len(), "database"), humanize::bytes(record.bytes)),
        held: list.len(),
        left_out: Vec::new(),
        assumptions: unchecked.iter().map(|table| format!("{table} is sound")).collect(),
        coverage: json!({}),
    };
    (report, warnings)
}
