//! Databases, each by its own means: SQLite files, and those that the config has commands for. A savepoint is a directory with a
//! file for each of them.

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
use crate::history::contents_report::{ContentsReport, FileList};
use crate::history::payload::{
    CheckpointKind, CheckpointPayload, DatabaseState, DatabaseTarget, DatabaseTargets, SavedDatabase,
    combined_hash, parse_targets, sqlite_path,
};
use crate::history::record::CheckpointRecord;
use crate::history::rollback_report::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_restored, present_label,
};
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};
use crate::humanize::{self, count};
use crate::interrupt;

/// The file that holds a database.
fn file(dir: &CheckpointDir, number: usize) -> PathBuf {
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
        let files = dir.dir().join(SavedDatabase::DIR);
        fs::create_dir(&files).at("create", &files)?;
        let mut list = Vec::new();
        for (number, target) in targets.iter().enumerate() {
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

/// Copies a file that SQLite cannot read, and what is beside it, which a repair tool may need.
fn keep_bytes(path: &Path, to: &Path) -> Result<DatabaseState> {
    let mode = path.metadata().at("read", path)?.permissions().mode() & 0o7777;
    let bytes = copy_file(path, to, None)?;
    for ending in ["-wal", "-journal"] {
        let [from, to] = [path, to].map(|path| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        });
        if from.is_file() {
            copy_file(&from, &to, None)?;
        }
    }
    let (sha256, _) = hash_of(to)?;
    Ok(DatabaseState::Bytes { bytes, sha256, mode })
}

fn copy_file(path: &Path, to: &Path, mode: Option<u32>) -> Result<u64> {
    let mut from = File::open(path).at("read", path)?;
    let mut out = AtomicFile::create(to)?;
    let bytes = io::copy(&mut from, &mut out).at("copy", path)?;
    if let Some(mode) = mode {
        out.set_mode(fs::Permissions::from_mode(mode))?;
    }
    out.commit()?;
    Ok(bytes)
}

fn hash_of(path: &Path) -> Result<(ContentHash, u64)> {
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

fn check(file: &Path, database: &SavedDatabase) -> Result<()> {
    match &database.held {
        DatabaseState::Sqlite(copy) => sqlite::check(file, copy),
        DatabaseState::Dump(dump) => commands::check(file, dump),
        DatabaseState::Nothing => Ok(()),
        DatabaseState::Bytes { sha256, .. } => match hash_of(file) {
            Ok((found, _)) if found == *sha256 => Ok(()),
            _ => Err(Error::integrity(format!("{} has changed since it was saved", file.display()))),
        },
    }
}

/// The hash of what is in a database now; `None` if there is no database.
fn content_now(context: HistoryContext<'_>, target: &DatabaseTarget) -> Result<Option<ContentHash>> {
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

/// What a savepoint holds.
pub fn describe(record: &CheckpointRecord) -> ContentsReport {
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
    let targets: Vec<DatabaseTarget> = list.iter().map(SavedDatabase::target).collect();
    let mut assumptions: Vec<String> = unchecked.iter().map(|table| format!("{table} is intact")).collect();
    assumptions.extend(trusted_commands(targets.iter()));
    let warning =
        |table: &String| format!("{table} could not be checked: it uses functions of its application");
    ContentsReport {
        files: FileList::Names(files),
        state_keys: names,
        hash: record.tree.clone(),
        summary: format!("{}, {}", count(list.len(), "database"), humanize::bytes(record.bytes)),
        held: list.len(),
        uncertain: 0,
        left_out: Vec::new(),
        assumptions,
        coverage: json!({}),
        warnings: unchecked.iter().map(warning).collect(),
    }
}

/// What decree cannot see of databases that only commands of the config reach.
fn trusted_commands<'t>(targets: impl Iterator<Item = &'t DatabaseTarget>) -> Vec<String> {
    let named = targets.filter_map(|target| match target {
        DatabaseTarget::Named(name) => Some(name),
        DatabaseTarget::Sqlite(_) => None,
    });
    let trusted = "save and restore all of it, and its fingerprint shows every difference";
    named.map(|name| format!("the commands of {name} in the config {trusted}")).collect()
}

/// A database within the scope of a rollback.
struct Job<'j> {
    saved: &'j SavedDatabase,
    target: DatabaseTarget,
    file: PathBuf,
    now: Option<ContentHash>,
}

impl Job<'_> {
    fn differs(&self) -> bool {
        self.now != self.saved.content()
    }
}

/// Restores those that differ, each in the way that is atomic for it.
pub fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    list: &[SavedDatabase],
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let targets = &if options.scope.list.is_empty() {
        list.iter().map(SavedDatabase::target).collect()
    } else {
        parse_targets(&options.scope, context.layout, context.config)?
    };
    let jobs = jobs(context, dir, list, targets)?;
    let before = combined_hash(jobs.iter().map(|job| (job.saved.name.clone(), job.now))).to_string();
    let wanted = combined_hash(jobs.iter().map(|job| (job.saved.name.clone(), job.saved.content())));
    let wanted = wanted.to_string();
    let mut report = RollbackReport::new(CheckpointKind::DatabaseSavepoint, before, wanted, jobs.len());
    report.changes = jobs.iter().filter(|job| job.differs()).map(change).collect();
    report.assumptions = trusted_commands(jobs.iter().map(|job| &job.target));
    let held = jobs.iter().filter(|job| job.saved.held != DatabaseState::Nothing);
    report.evidence = held.map(|job| context.layout.shown(&job.file)).collect();
    report.evidence.push(context.layout.shown(&dir.dir().join(CheckpointRecord::FILE)));
    if options.dry_run || report.changes.is_empty() {
        return Ok(report);
    }
    let present = save(context, &present_label(dir.id()), targets, true)?;
    options.note_present(&present);
    report.log_first(&context.layout.audit(), dir.id(), present.dir.id(), options);
    report.set_aside = restore_all(context, &jobs, &present)?;
    report.shield = Some(interrupt::shield());
    report.after = None;
    if options.verify {
        let mut after = Vec::new();
        for job in &jobs {
            after.push((job.saved.name.clone(), content_now(context, &job.target)?));
        }
        let differ = jobs.iter().zip(&after).filter(|(job, (_, now))| *now != job.saved.content());
        let differ: Vec<String> = differ.map(|(job, _)| job.saved.name.clone()).collect();
        let after = combined_hash(after).to_string();
        if after != report.wanted {
            return Err(not_restored(dir.id(), "a database", differ, present.dir.id()));
        }
        report.after = Some(after);
    }
    report.present = Some(present.dir.id().to_owned());
    Ok(report)
}

/// Restores one after the other. Returns what stood in the way, and where it was moved.
fn restore_all(
    context: HistoryContext<'_>,
    jobs: &[Job<'_>],
    present: &SavedCheckpoint,
) -> Result<Vec<(String, PathBuf)>> {
    let (id, set_aside) = (present.dir.id(), present.dir.quarantine_dir());
    let (mut finished, mut all_moved) = (Vec::new(), Vec::new());
    for job in jobs.iter().filter(|job| job.differs()) {
        let name = job.target.name();
        let saved = present.record.payload.databases().iter().find(|now| now.name == job.saved.name);
        let moved = restore_one(context, job, &set_aside, saved.and_then(SavedDatabase::content));
        let moved = moved.map_err(|error| {
            let finished = finished.iter().map(|name| format!("{name} is restored already"));
            finished
                .fold(error, Error::detail)
                .detail(format!("{name} is not restored"))
                .hint(format!("the previous state is saved: `decree rollback {id}` restores it"))
        })?;
        finished.push(name.to_owned());
        let name = |to: &Path| to.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all_moved.extend(moved.into_iter().map(|to| (name(&to), to)));
    }
    Ok(all_moved)
}

/// The databases within the scope, with their files checked. Nothing is touched yet.
fn jobs<'j>(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    list: &'j [SavedDatabase],
    targets: &DatabaseTargets,
) -> Result<Vec<Job<'j>>> {
    let is_unknown = |target: &&DatabaseTarget| !list.iter().any(|saved| saved.target() == **target);
    if let Some(unknown) = targets.iter().find(is_unknown) {
        let names: Vec<String> = list.iter().map(|saved| saved.target().name().to_owned()).collect();
        return Err(Error::project(format!("{} does not hold {}", dir.id(), unknown.name()))
            .detail(format!("it holds {}", names.join(", "))));
    }
    let mut jobs = Vec::new();
    for (number, database) in list.iter().enumerate() {
        let (file, target) = (file(dir, number), database.target());
        if targets.contains(&target) {
            check(&file, database)?;
            jobs.push(Job { saved: database, now: content_now(context, &target)?, target, file });
        }
    }
    Ok(jobs)
}

fn change(job: &Job<'_>) -> RolledBackPath {
    let words = |content: Option<ContentHash>| content.map_or("nothing".to_owned(), |hash| hash.short());
    let before = job.saved.content();
    RolledBackPath {
        name: job.target.name().to_owned(),
        operation: Operation::between(before, job.now),
        summary: format!(
            "changed since: its content is {}; the checkpoint has {}",
            words(job.now),
            words(before)
        ),
    }
}

/// Restores a database; `saved` is the content that the checkpoint of the present has. Returns where what stood in the way was moved.
fn restore_one(
    context: HistoryContext<'_>,
    job: &Job<'_>,
    set_aside: &Path,
    saved: Option<ContentHash>,
) -> Result<Vec<PathBuf>> {
    let path = match &job.target {
        DatabaseTarget::Named(name) => {
            let DatabaseState::Dump(dump) = &job.saved.held else {
                return Err(Error::integrity(format!("'{name}' was not saved by a command")));
            };
            let mut commands = DatabaseCommands::find(context.layout.root(), context.config, name)?;
            return commands.restore(&job.file, dump).map(|()| Vec::new());
        }
        DatabaseTarget::Sqlite(path) => sqlite_path(context.layout, path)?,
    };
    match &job.saved.held {
        DatabaseState::Sqlite(copy) => sqlite::restore(&job.file, copy, &path, set_aside, saved),
        DatabaseState::Nothing => sqlite::set_aside(&path, set_aside),
        DatabaseState::Bytes { mode, .. } => {
            let moved = sqlite::set_aside(&path, set_aside)?;
            copy_file(&job.file, &path, Some(*mode))?;
            Ok(moved)
        }
        DatabaseState::Dump(_) => {
            Err(Error::integrity(format!("{} was saved by a command", job.target.name())))
        }
    }
}
