//! decree's own state, put back.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::keys::Keys;
use super::pending::Pending;
use super::snapshot::{HeldFile, State, area};
use crate::checkpoint::quote;
use crate::checkpoint::saved::Saved;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, AtomicFile};
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{Operation, RolledBack, Undone, Wish, not_the_same, save_present};
use crate::history::{Aim, Kind, Site};
use crate::project::Layout;

/// Puts back what differs. Cut off at any moment, it is finished by whoever takes the project next.
pub fn rollback(
    site: Site<'_>,
    saved: &Saved,
    record: Option<&CheckpointRecord>,
    keys: &Keys,
    wish: &Wish,
) -> Result<RolledBack> {
    let layout = site.layout;
    let record = record.expect("only a checkpoint that says so is a snapshot");
    let then = State::saved(saved, record)?;
    let unknown = keys.beyond(&then.keys()?);
    if !unknown.is_empty() {
        return Err(Error::project(format!("{} does not hold {}", saved.id(), unknown.join(", ")))
            .detail(format!("it holds {}", then.keys()?.words().join(", "))));
    }
    let mut then = then.within(layout, keys);
    let mut now = State::read(layout, keys)?;
    let mut warnings = Vec::new();
    let exports = exports(&then);
    if !wish.takes_environment {
        warnings = leave_environment(&mut now, &mut then, saved.id());
    }
    // What is a secret by now, or no text, has no value here that could be compared.
    now.environment.retain(|name, _| then.environment.contains_key(name));
    let (before, wanted) = (now.hash().to_string(), then.hash().to_string());
    let held = then.files.len() + then.environment.len();
    let mut done = RolledBack::new(Kind::StateSnapshot, before, wanted, held);
    done.undone = differences(&now, &then);
    done.warnings = warnings;
    done.exports = exports;
    done.evidence.push(layout.shown(&saved.dir().join("state.json")));
    if wish.dry_run || done.undone.is_empty() {
        return Ok(done);
    }
    let all = record_keys(record)?;
    let present = save_present(site, Aim::State(all), saved.id())?.saved;
    let pending = Pending {
        to: saved.id().to_owned(),
        keys: keys.words(),
        saved: present.id().to_owned(),
        reason: wish.reason.clone(),
    };
    pending.write(layout)?;
    done.set_aside = put(layout, &now, &then, &present.dir().join("set-aside"))?;
    Pending::clear(layout)?;
    done.evidence.push(layout.shown(&present.dir().join("state.json")));
    done.after = match wish.verify {
        false => None,
        true => {
            let mut after = State::read(layout, keys)?;
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

fn record_keys(record: &CheckpointRecord) -> Result<Keys> {
    Keys::typed(&record.scope)
}

/// Takes the variables that differ out of both: nobody but whoever calls can put them back. Returns a sentence for each.
fn leave_environment(now: &mut State, then: &mut State, id: &str) -> Vec<String> {
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
fn exports(then: &State) -> String {
    let line = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => format!("export {name}={}\n", shell_words::quote(value)),
        None => format!("unset {name}\n"),
    };
    then.environment.iter().map(line).collect()
}

/// What is not as it was.
fn differences(now: &State, then: &State) -> Vec<Undone> {
    let mut list = Vec::new();
    let mut paths: Vec<&String> = then.files.keys().chain(now.files.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let (before, after) = (then.files.get(path), now.files.get(path));
        if before != after {
            let words = |file: Option<&HeldFile>| file.map_or("nothing".to_owned(), HeldFile::describe);
            list.push(Undone {
                what: path.clone(),
                operation: Operation::between(before, after),
                summary: format!("{} instead of {}", words(before), words(after)),
            });
        }
    }
    for (name, value) in &then.environment {
        let present = now.environment.get(name).cloned().flatten();
        if *value != present {
            list.push(Undone {
                what: format!("env:{name}"),
                operation: Operation::between(value.as_ref(), present.as_ref()),
                summary: "another value".to_owned(),
            });
        }
    }
    list
}

/// Makes the files what `then` has. What stands in their place and is no file moves to `aside`; the rest was saved.
pub(super) fn put(
    layout: &Layout,
    now: &State,
    then: &State,
    aside: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut set_aside = Vec::new();
    for (key, file) in then.files.iter().filter(|(key, file)| now.files.get(*key) != Some(file)) {
        let path = place(layout, key)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            fs::create_dir_all(aside).at("create", aside)?;
            let to = aside.join(path.file_name().expect("it is a file's path"));
            fs::rename(&path, &to).at("move away", &path)?;
            set_aside.push((key.clone(), to));
        }
        let (bytes, mode) = file.bytes().zip(file.mode()).expect("it was checked when it was read");
        let mut out = AtomicFile::create(&path)?;
        out.write_all(&bytes).at("write", &path)?;
        out.set_mode(fs::Permissions::from_mode(mode.bits()))?;
        out.commit()?;
    }
    for key in now.files.keys().filter(|key| !then.files.contains_key(*key)) {
        let path = place(layout, key)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.at("remove", &path)?,
        }
        atomic::sync_parent(&path)?;
    }
    Ok(set_aside)
}

/// Where a file goes: only where decree's own files are.
fn place(layout: &Layout, key: &str) -> Result<PathBuf> {
    let bytes = quote::from_json(key).filter(|_| area(key, layout).is_some());
    let bytes = bytes
        .ok_or_else(|| Error::integrity(format!("'{}' is no place of decree's own", key.escape_debug())))?;
    Ok(layout.root().join(std::ffi::OsStr::from_bytes(&bytes)))
}
