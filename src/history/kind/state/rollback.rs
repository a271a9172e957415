//! decree's own state, put back.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::keys::StateKeys;
use super::pending::PendingRollback;
use super::snapshot::{SnapshotFile, StateSnapshot, area};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::fs::untrusted;
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_the_same, save_present,
};
use crate::history::{CheckpointKind, CheckpointPayload, CheckpointTarget, HistoryContext};
use crate::project::Layout;
use crate::sanitize::truncate;

/// How often something may come into the way of the same file.
const TRIES: u32 = 5;

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
    done.set_aside = put(layout, &now, &then, &present.dir().join("set-aside"))?;
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

/// Makes the files what `then` has, where they are what `now` has, which is saved. Whatever else is in the way, because it is no file
/// or was written meanwhile, moves to `aside`. What is nowhere in either is left alone.
pub(super) fn put(
    layout: &Layout,
    now: &StateSnapshot,
    then: &StateSnapshot,
    aside: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut way = Way { layout, aside, moved: Vec::new() };
    for (key, file) in then.files.iter().filter(|(key, file)| now.files.get(*key) != Some(file)) {
        let path = place(layout, key)?;
        way.open(&path)?;
        // A part of this may have been done already.
        if held_at(&path).as_ref() == Some(file) {
            continue;
        }
        let (bytes, mode) = file.bytes().zip(file.mode()).expect("it was checked when it was read");
        let mut out = AtomicFile::create(&path)?;
        out.write_all(&bytes).at("write", &path)?;
        out.set_mode(fs::Permissions::from_mode(mode.bits()))?;
        way.clear(key, &path, now.files.get(key))?;
        let mut tries = 0;
        while !out.commit_new()? {
            tries += 1;
            if tries > TRIES {
                return Err(Error::failed(format!("something else goes on writing {}", layout.shown(&path))));
            }
            way.clear(key, &path, None)?;
        }
    }
    for key in now.files.keys().filter(|key| !then.files.contains_key(*key)) {
        let path = place(layout, key)?;
        way.clear(key, &path, now.files.get(key))?;
    }
    Ok(way.moved)
}

/// What makes room, and loses nothing.
struct Way<'w> {
    layout: &'w Layout,
    aside: &'w Path,
    /// What was moved, and where to.
    moved: Vec<(String, PathBuf)>,
}

impl Way<'_> {
    /// Sees to it that the directories above a file are directories, and not links to somewhere else.
    fn open(&mut self, path: &Path) -> Result<()> {
        let layout = self.layout;
        for dir in [layout.inbox(), layout.done(), layout.dead()].iter().filter(|dir| path.starts_with(dir)) {
            if dir.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                let to = self.take(&layout.shown(dir), dir)?;
                self.moved.push((layout.shown(dir), to));
            }
        }
        let parent = path.parent().expect("decree's own files are in directories");
        fs::create_dir_all(parent).at("create", parent)
    }

    /// Takes away what is at a path. If it is what is known, it is saved elsewhere, and gone; else it is kept.
    fn clear(&mut self, key: &str, path: &Path, known: Option<&SnapshotFile>) -> Result<()> {
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        let to = self.take(key, path)?;
        match known.is_some() && held_at(&to).as_ref() == known {
            true => {
                fs::remove_file(&to).at("remove", &to)?;
                // Only if nothing else is in it.
                let _ = fs::remove_dir(self.aside);
            }
            false => self.moved.push((key.to_owned(), to)),
        }
        atomic::sync_parent(path)
    }

    /// Moves something to a name of its own.
    fn take(&self, key: &str, path: &Path) -> Result<PathBuf> {
        fs::create_dir_all(self.aside).at("create", self.aside)?;
        let name: String = key.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        let name = truncate(name.trim_start_matches(".decree_"), 150).to_owned();
        let to = (1..)
            .map(|number| {
                self.aside.join(if number == 1 { name.clone() } else { format!("{name}.{number}") })
            })
            .find(|to| to.symlink_metadata().is_err())
            .expect("there is always another number");
        fs::rename(path, &to).at("move away", path)?;
        Ok(to)
    }
}

/// What is there, if it is a file.
fn held_at(path: &Path) -> Option<SnapshotFile> {
    let found = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
    Some(SnapshotFile::new(FileMode::from_bits(found.permissions().mode()), untrusted::read(path).ok()?))
}

/// Where a file goes: only where decree's own files are.
fn place(layout: &Layout, key: &str) -> Result<PathBuf> {
    let bytes = quote::from_json(key).filter(|_| area(key, layout).is_some());
    let bytes = bytes
        .ok_or_else(|| Error::integrity(format!("'{}' is no place of decree's own", key.escape_debug())))?;
    Ok(layout.root().join(std::ffi::OsStr::from_bytes(&bytes)))
}
