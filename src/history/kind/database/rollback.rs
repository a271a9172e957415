//! Rolling back databases.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::savepoint::{check, content_now, file, save};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::hash::ContentHash;
use crate::database::commands::DatabaseCommands;
use crate::database::sqlite;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::history::HistoryContext;
use crate::history::payload::{
    CheckpointKind, DatabaseState, DatabaseTarget, DatabaseTargets, SavedDatabase, combined_hash, sqlite_path,
};
use crate::history::rollback_report::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_restored, present_label,
};
use crate::history::writer::SavedCheckpoint;

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
    targets: &DatabaseTargets,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let jobs = jobs(context, dir, list, targets)?;
    let before = combined_hash(jobs.iter().map(|job| (job.saved.name.clone(), job.now))).to_string();
    let wanted = combined_hash(jobs.iter().map(|job| (job.saved.name.clone(), job.saved.content())));
    let wanted = wanted.to_string();
    let mut report = RollbackReport::new(CheckpointKind::DatabaseSavepoint, before, wanted, jobs.len());
    report.changes = jobs.iter().filter(|job| job.differs()).map(change).collect();
    let held = jobs.iter().filter(|job| job.saved.held != DatabaseState::Nothing);
    report.evidence = held.map(|job| context.layout.shown(&job.file)).collect();
    report.evidence.push(context.layout.shown(&dir.dir().join("checkpoint.json")));
    if options.dry_run || report.changes.is_empty() {
        return Ok(report);
    }
    let present = save(context, &present_label(dir.id()), targets, true)?;
    options.note_present(&present);
    report.set_aside = restore_all(context, &jobs, &present)?;
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
                .hint(format!("what was there before is in {id}: `decree rollback {id}`"))
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
    if let Some(unknown) = targets.0.iter().find(is_unknown) {
        let names: Vec<String> = list.iter().map(|saved| saved.target().name().to_owned()).collect();
        return Err(Error::project(format!("{} does not hold {}", dir.id(), unknown.name()))
            .detail(format!("it holds {}", names.join(", "))));
    }
    let mut jobs = Vec::new();
    for (number, database) in list.iter().enumerate() {
        let (file, target) = (file(dir, number), database.target());
        if targets.0.contains(&target) {
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
        summary: format!("{} instead of {}", words(before), words(job.now)),
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
        DatabaseState::Sqlite(copy) => {
            sqlite::restore_over(&job.file, copy, &path, set_aside, saved).map(|done| done.set_aside)
        }
        DatabaseState::Nothing => sqlite::set_aside(&path, set_aside),
        DatabaseState::Bytes { mode, .. } => {
            let moved = sqlite::set_aside(&path, set_aside)?;
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
