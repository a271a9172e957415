//! Databases, put back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::savepoint::{DatabaseState, SavedDatabase, check, content_now, file, hash};
use super::target::{DatabaseTarget, DatabaseTargets, place};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::database::commands::DatabaseCommands;
use crate::database::sqlite;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_the_same, save_present,
};
use crate::history::{CheckpointKind, CheckpointTarget, HistoryContext};

/// A database that is to be put back.
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

/// Puts back those that differ, each in the way that is atomic for it.
pub fn rollback(
    site: HistoryContext<'_>,
    saved: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    targets: &DatabaseTargets,
    wish: &RollbackOptions,
) -> Result<RollbackReport> {
    let record = record.expect("only a checkpoint that says so is a savepoint");
    let jobs = jobs(site, saved, record, targets)?;
    let before = hash(jobs.iter().map(|job| (job.saved.name.clone(), job.now))).to_string();
    let wanted = hash(jobs.iter().map(|job| (job.saved.name.clone(), job.saved.content()))).to_string();
    let mut done = RollbackReport::new(CheckpointKind::DatabaseSavepoint, before, wanted.clone(), jobs.len());
    done.undone = jobs.iter().filter(|job| job.differs()).map(undone).collect();
    let held = jobs.iter().filter(|job| job.saved.held != DatabaseState::Nothing);
    done.evidence = held.map(|job| site.layout.shown(&job.file)).collect();
    done.evidence.push(site.layout.shown(&saved.dir().join("checkpoint.json")));
    if wish.dry_run || done.undone.is_empty() {
        return Ok(done);
    }
    let aim = CheckpointTarget::Databases { targets: targets.clone(), as_it_is: true };
    let created = save_present(site, aim, saved.id(), wish)?;
    let (present, record) = (created.saved, created.record);
    let aside = present.dir().join("set-aside");
    let mut finished = Vec::new();
    for job in jobs.iter().filter(|job| job.differs()) {
        let seen =
            record.databases.iter().find(|now| now.name == job.saved.name).and_then(SavedDatabase::content);
        let moved = put(site, job, &aside, seen).map_err(|error| {
            let error = finished
                .iter()
                .fold(error, |error, name| error.detail(format!("{name} is put back already")));
            error
                .detail(format!("{} is not put back", job.target.name()))
                .hint(format!("what was there before is in {0}: `decree rollback {0}`", present.id()))
        })?;
        finished.push(job.target.name().to_owned());
        let name = |to: &Path| to.file_name().unwrap_or_default().to_string_lossy().into_owned();
        done.set_aside.extend(moved.into_iter().map(|to| (name(&to), to)));
    }
    done.after = match wish.verify {
        false => None,
        true => {
            let mut after = Vec::new();
            for job in &jobs {
                after.push((job.saved.name.clone(), content_now(site, &job.target)?));
            }
            let differ = jobs.iter().zip(&after).filter(|(job, (_, now))| *now != job.saved.content());
            let differ: Vec<String> = differ.map(|(job, _)| job.saved.name.clone()).collect();
            let after = hash(after).to_string();
            if after != wanted {
                return Err(not_the_same(saved.id(), "a database", differ, present.id()));
            }
            Some(after)
        }
    };
    done.saved = Some(present.id().to_owned());
    Ok(done)
}

/// What is meant, checked; nothing was touched yet.
fn jobs<'j>(
    site: HistoryContext<'_>,
    saved: &CheckpointDir,
    record: &'j CheckpointRecord,
    targets: &DatabaseTargets,
) -> Result<Vec<Job<'j>>> {
    let known = |target: &&DatabaseTarget| !record.databases.iter().any(|saved| saved.target() == **target);
    if let Some(unknown) = targets.0.iter().find(known) {
        let names: Vec<String> =
            record.databases.iter().map(|saved| saved.target().name().to_owned()).collect();
        return Err(Error::project(format!("{} does not hold {}", saved.id(), unknown.name()))
            .detail(format!("it holds {}", names.join(", "))));
    }
    let mut jobs = Vec::new();
    for (number, database) in record.databases.iter().enumerate() {
        let (file, target) = (file(saved.dir(), number), database.target());
        if targets.0.contains(&target) {
            check(&file, database)?;
            jobs.push(Job { saved: database, now: content_now(site, &target)?, target, file });
        }
    }
    Ok(jobs)
}

fn undone(job: &Job<'_>) -> RolledBackPath {
    let words = |content: Option<ContentHash>| content.map_or("nothing".to_owned(), |hash| hash.short());
    let before = job.saved.content();
    RolledBackPath {
        what: job.target.name().to_owned(),
        operation: Operation::between(before, job.now),
        summary: format!("{} instead of {}", words(before), words(job.now)),
    }
}

/// Makes a database what was saved. Returns where what was in the way is now.
fn put(
    site: HistoryContext<'_>,
    job: &Job<'_>,
    aside: &Path,
    seen: Option<ContentHash>,
) -> Result<Vec<PathBuf>> {
    let path = match &job.target {
        DatabaseTarget::Named(name) => {
            let DatabaseState::Dump(dump) = &job.saved.held else {
                return Err(Error::integrity(format!("'{name}' was not saved by a command")));
            };
            let mut commands = DatabaseCommands::find(site.layout.root(), site.config, name)?;
            return commands.restore(&job.file, dump).map(|()| Vec::new());
        }
        DatabaseTarget::Sqlite(path) => place(site.layout, path)?,
    };
    match &job.saved.held {
        DatabaseState::Sqlite(copy) => {
            sqlite::restore_over(&job.file, copy, &path, aside, seen).map(|done| done.set_aside)
        }
        DatabaseState::Nothing => sqlite::set_aside(&path, aside),
        DatabaseState::Bytes { mode, .. } => {
            let moved = sqlite::set_aside(&path, aside)?;
            let mut out = AtomicFile::create(&path)?;
            let mut from = File::open(&job.file).at("read", &job.file)?;
            io::copy(&mut from, &mut out).at("write", &path)?;
            out.set_mode(fs::Permissions::from_mode(*mode))?;
            out.commit()?;
            Ok(moved)
        }
        DatabaseState::Dump(_) => {
            Err(Error::integrity(format!("{} was saved by a command", job.target.name())))
        }
    }
}
