//! Rolling back decree's own state. `rolling-back.json` says that a rollback has begun: if it is killed, the next command that takes the
//! project's lock finishes it.

use serde::{Deserialize, Serialize};

use super::snapshot::{StateSnapshot, save};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, json, untrusted};
use crate::history::HistoryContext;
use crate::history::audit::{self, AuditAction, AuditEntry};
use crate::history::own_files::{self, OwnFile};
use crate::history::payload::{CheckpointKind, CheckpointPayload, StateKeys};
use crate::history::record::CheckpointRecord;
use crate::history::rollback_report::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_restored, present_label,
};
use crate::humanize::bytes;
use crate::project::Layout;

/// The contents of `rolling-back.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingRollback {
    to: String,
    keys: Vec<String>,
    saved: String,
    reason: Option<String>,
}

/// Restores the files of a snapshot, and hands its environment to the caller as shell commands. A variable that differs is restored only
/// by the shell that evaluates them: for any other caller it is left as it is, and the hashes say so.
pub fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    snapshot: &StateSnapshot,
    made_for: &StateKeys,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let words = &options.scope.list;
    let keys = &if words.is_empty() { made_for.clone() } else { StateKeys::parse(words)? };
    let (layout, held_keys) = (context.layout, snapshot.keys()?);
    check_held(dir, keys, &held_keys)?;
    let wanted = snapshot.within(layout, keys);
    let now = read_present(layout, keys, &wanted)?;
    // What the state is after this: only a shell that takes the environment over has the values of the snapshot.
    let mut reached = wanted.clone();
    if !options.takes_environment {
        reached.environment.clone_from(&now.environment);
    }
    let held = wanted.files.len() + wanted.environment.len();
    let (before, wanted_hash) = (now.hash().to_string(), wanted.hash().to_string());
    let mut report = RollbackReport::new(CheckpointKind::StateSnapshot, before, wanted_hash, held);
    report.changes = differences(&now, &reached);
    report.variables_left = variables_that_differ(&reached, &wanted);
    report.has_environment = !wanted.environment.is_empty();
    report.exports = exports(&wanted);
    report.evidence.push(layout.shown(&dir.dir().join(CheckpointPayload::STATE_FILE)));
    if options.dry_run || report.changes.is_empty() {
        return Ok(report);
    }
    let (present, saved) = save(context, &present_label(dir.id()), &held_keys)?;
    options.note_present(&present);
    let present = present.dir;
    let pending = PendingRollback {
        to: dir.id().to_owned(),
        keys: keys.words(),
        saved: present.id().to_owned(),
        reason: options.reason.clone(),
    };
    json::write_pretty(&layout.pending(), &pending)?;
    // Only what is saved may be deleted: another process may have written since `now` was read.
    let saved = saved.within(layout, keys).own_files(layout)?;
    let set_aside = present.quarantine_dir();
    report.set_aside = own_files::restore(layout, &saved, &wanted.own_files(layout)?, &set_aside)?;
    // By this id the command that finishes a killed rollback recognises that the entry was written.
    let restore = Some(present.id().to_owned());
    let after = options.verify.then(|| format!("sha256:{}", reached.hash()));
    let entry = AuditEntry { restore, after, ..report.audit_entry(dir.id(), present.id(), options) };
    report.logged = Some(audit::record_done(&layout.audit(), entry));
    atomic::remove(&layout.pending())?;
    report.evidence.push(layout.shown(&present.dir().join(CheckpointPayload::STATE_FILE)));
    report.after = None;
    if options.verify {
        let mut after = read_present(layout, keys, &wanted)?;
        after.environment.clone_from(&reached.environment);
        if after.hash() != reached.hash() {
            let differ = differences(&after, &reached).into_iter().map(|change| change.name).collect();
            return Err(not_restored(dir.id(), "decree's own state", differ, present.id()));
        }
        report.after = Some(after.hash().to_string());
    }
    report.present = Some(present.id().to_owned());
    Ok(report)
}

fn check_held(dir: &CheckpointDir, keys: &StateKeys, held: &StateKeys) -> Result<()> {
    let unknown = keys.difference(held);
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Error::project(format!("{} does not hold {}", dir.id(), unknown.join(", ")))
        .detail(format!("it holds {}", held.words().join(", "))))
}

/// The present state of what a snapshot holds. A variable that is secret by now, or not UTF-8, has no value here that could be compared;
/// one that was so then is no part of it.
fn read_present(layout: &Layout, keys: &StateKeys, wanted: &StateSnapshot) -> Result<StateSnapshot> {
    let mut now = StateSnapshot::read(layout, keys)?;
    now.environment.retain(|name, _| wanted.environment.contains_key(name));
    Ok(now)
}

/// The variables whose value is not that of the snapshot.
fn variables_that_differ(now: &StateSnapshot, wanted: &StateSnapshot) -> Vec<String> {
    let differs = |(name, value): &(&String, &Option<String>)| now.environment.get(*name) != Some(value);
    wanted.environment.iter().filter(differs).map(|(name, _)| format!("env:{name}")).collect()
}

/// Shell commands that restore the environment of the snapshot.
fn exports(wanted: &StateSnapshot) -> String {
    let line = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("export {name}={}\n", shell_words::quote(value)),
        None => format!("unset {name}\n"),
    };
    wanted.environment.iter().map(line).collect()
}

fn differences(now: &StateSnapshot, wanted: &StateSnapshot) -> Vec<RolledBackPath> {
    let mut list = Vec::new();
    let mut paths: Vec<&String> = wanted.files.keys().chain(now.files.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let (before, after) = (wanted.files.get(path), now.files.get(path));
        if before != after {
            let words =
                |file: &OwnFile| format!("a file of {}, mode {}", bytes(file.bytes.len() as u64), file.mode);
            let summary = match (before, after) {
                (Some(then), None) => format!("deleted since; the checkpoint has {}", words(then)),
                (Some(then), Some(_)) => format!("changed since; the checkpoint has {}", words(then)),
                (None, now) => {
                    format!("created since: {}; not in the checkpoint", now.map_or_else(String::new, words))
                }
            };
            list.push(RolledBackPath {
                name: path.clone(),
                operation: Operation::between(before, after),
                summary,
            });
        }
    }
    for (name, value) in &wanted.environment {
        if now.environment.get(name) != Some(value) {
            let present = now.environment.get(name).cloned().flatten();
            list.push(RolledBackPath {
                name: format!("env:{name}"),
                operation: Operation::between(value.as_ref(), present.as_ref()),
                summary: "set, changed or unset since".to_owned(),
            });
        }
    }
    list
}

/// Finishes a rollback that was killed. Returns the checkpoint it rolled back to, if there was one.
pub fn recover_rollback(layout: &Layout) -> Result<Option<String>> {
    let path = layout.pending();
    let Some(text) = untrusted::read(&path).if_exists().at("read", &path)? else { return Ok(None) };
    let shown = layout.shown(&path);
    let pending: PendingRollback = serde_json::from_slice(&text).map_err(|error| {
        Error::integrity(format!("{shown} is damaged"))
            .caused_by(error)
            .detail("a rollback of decree's own state was killed, and cannot be finished")
            .hint(format!("check .decree/inbox, then remove {shown}"))
    })?;
    let keys = StateKeys::parse(&pending.keys)?;
    let load = |id: &str| -> Result<StateSnapshot> {
        let dir = CheckpointDir::new(id, layout.checkpoints().join(id));
        let record = CheckpointRecord::read(dir.dir())?;
        match &record.payload {
            CheckpointPayload::State { sha256, .. } => {
                Ok(StateSnapshot::load(&dir, &record, sha256)?.within(layout, &keys))
            }
            payload => Err(Error::integrity(format!("{id} is a {}", payload.kind().word()))),
        }
    };
    let finish = || -> Result<()> {
        let wanted = load(&pending.to)?;
        // What was written since is in neither of the two, and stays.
        let saved = load(&pending.saved)?;
        let set_aside = layout.checkpoints().join(&pending.saved).join(CheckpointDir::SET_ASIDE);
        own_files::restore(layout, &saved.own_files(layout)?, &wanted.own_files(layout)?, &set_aside)?;
        let files_only = StateKeys { areas: keys.areas.clone(), ..StateKeys::default() };
        let after = StateSnapshot::read(layout, &files_only)?;
        if audit::has(&layout.audit(), &pending.saved)? {
            return Ok(());
        }
        let entry = AuditEntry {
            reason: pending.reason.clone(),
            restore: Some(pending.saved.clone()),
            after: Some(format!("sha256:{}", after.hash())),
            saved: Some(pending.saved.clone()),
            ..AuditEntry::new(AuditAction::Rollback, &pending.to, wanted.files.len() as u64)
        };
        audit::record(&layout.audit(), entry)
    };
    finish().map_err(|error| {
        error
            .detail(format!("the rollback to {} was killed, and could not be finished", pending.to))
            .hint(format!("the previous state is in {}; {shown} says what was in progress", pending.saved))
    })?;
    atomic::remove(&layout.pending())?;
    Ok(Some(pending.to))
}
