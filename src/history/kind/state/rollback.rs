//! decree's own state, put back.

use super::keys::StateKeys;
use super::pending::PendingRollback;
use super::snapshot::{SnapshotFile, StateSnapshot};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::history::own_files::restore;
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_the_same, save_present,
};
use crate::history::{CheckpointKind, CheckpointPayload, CheckpointTarget, HistoryContext};

/// Puts back what differs. Cut off at any moment, it is finished by whoever takes the project next.
pub fn rollback(
    site: HistoryContext<'_>,
    saved: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    keys: &StateKeys,
    wish: &RollbackOptions,
) -> Result<RollbackReport> {
    let layout = site.layout;
    let record = record.expect("only a checkpoint that says so is a snapshot");
    let then = StateSnapshot::saved(saved, record)?;
    let unknown = keys.beyond(&then.keys()?);
    if !unknown.is_empty() {
        return Err(Error::project(format!("{} does not hold {}", saved.id(), unknown.join(", ")))
            .detail(format!("it holds {}", then.keys()?.words().join(", "))));
    }
    let mut then = then.within(layout, keys);
    let mut now = StateSnapshot::read(layout, keys)?;
    let mut warnings = Vec::new();
    let exports = exports(&then);
    if !wish.takes_environment {
        warnings = leave_environment(&mut now, &mut then, saved.id());
    }
    // What is a secret by now, or no text, has no value here that could be compared.
    now.environment.retain(|name, _| then.environment.contains_key(name));
    let (before, wanted) = (now.hash().to_string(), then.hash().to_string());
    let held = then.files.len() + then.environment.len();
    let mut done = RollbackReport::new(CheckpointKind::StateSnapshot, before, wanted, held);
    done.undone = differences(&now, &then);
    done.warnings = warnings;
    done.exports = exports;
    done.evidence.push(layout.shown(&saved.dir().join("state.json")));
    if wish.dry_run || done.undone.is_empty() {
        return Ok(done);
    }
    let all = record_keys(record)?;
    let created = save_present(site, CheckpointTarget::State(all), saved.id(), wish)?;
    let present = created.saved;
    // Only what is saved may go: something may have been written since it was looked at.
    let now = match &created.contents {
        CheckpointPayload::State(state) => state.within(layout, keys),
        _ => unreachable!("the present was saved as a state"),
    };
    let pending = PendingRollback {
        to: saved.id().to_owned(),
        keys: keys.words(),
        saved: present.id().to_owned(),
        reason: wish.reason.clone(),
    };
    pending.write(layout)?;
    done.set_aside =
        restore(layout, &now.own_files(layout)?, &then.own_files(layout)?, &present.dir().join("set-aside"))?;
    PendingRollback::clear(layout)?;
    done.evidence.push(layout.shown(&present.dir().join("state.json")));
    done.after = match wish.verify {
        false => None,
        true => {
            let mut after = StateSnapshot::read(layout, keys)?;
            after.environment.clone_from(&then.environment);
            let differ = differences(&after, &then).into_iter().map(|undone| undone.what).collect();
            if after.hash() != then.hash() {
                return Err(not_the_same(saved.id(), "decree's own state", differ, present.id()));
            }
            Some(after.hash().to_string())
        }
    };
    done.saved = Some(present.id().to_owned());
    Ok(done)
}

fn record_keys(record: &CheckpointRecord) -> Result<StateKeys> {
    StateKeys::typed(&record.scope)
}

/// Takes the variables that differ out of both: nobody but whoever calls can put them back. Returns a sentence for each.
fn leave_environment(now: &mut StateSnapshot, then: &mut StateSnapshot, id: &str) -> Vec<String> {
    let differ: Vec<String> = then
        .environment
        .iter()
        .filter(|(name, value)| now.environment.get(*name) != Some(value))
        .map(|(name, _)| name.clone())
        .collect();
    now.environment.retain(|name, _| !differ.contains(name));
    then.environment.retain(|name, _| !differ.contains(name));
    differ
        .iter()
        .map(|name| format!("env:{name} is not what it was; `eval \"$(decree rollback {id} --export)\"` sets it in a shell"))
        .collect()
}

/// Lines that give a shell the values of then.
fn exports(then: &StateSnapshot) -> String {
    let line = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("export {name}={}\n", shell_words::quote(value)),
        None => format!("unset {name}\n"),
    };
    then.environment.iter().map(line).collect()
}

/// What is not as it was.
fn differences(now: &StateSnapshot, then: &StateSnapshot) -> Vec<RolledBackPath> {
    let mut list = Vec::new();
    let mut paths: Vec<&String> = then.files.keys().chain(now.files.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let (before, after) = (then.files.get(path), now.files.get(path));
        if before != after {
            let words =
                |file: Option<&SnapshotFile>| file.map_or("nothing".to_owned(), SnapshotFile::describe);
            list.push(RolledBackPath {
                what: path.clone(),
                operation: Operation::between(before, after),
                summary: format!("{} instead of {}", words(before), words(after)),
            });
        }
    }
    for (name, value) in &then.environment {
        let present = now.environment.get(name).cloned().flatten();
        if *value != present {
            list.push(RolledBackPath {
                what: format!("env:{name}"),
                operation: Operation::between(value.as_ref(), present.as_ref()),
                summary: "another value".to_owned(),
            });
        }
    }
    list
}
