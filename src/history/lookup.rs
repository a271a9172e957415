//! From what a user types to a run or a checkpoint: a full id, or a prefix that only one has.

use std::fs;
use std::path::{Path, PathBuf};

use super::record::CheckpointRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::RestoreAction;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::TEMPORARY;
use crate::humanize::count;
use crate::message::{ChainId, Inbox, MessageId};
use crate::project::Layout;

/// What an id stands for.
#[derive(Clone, Debug)]
pub enum RunOrCheckpoint {
    /// A run has a record of what it changed.
    Run(CheckpointDir),
    /// What changed since a checkpoint is found by comparing the tree with it.
    Checkpoint(CheckpointDir),
}

impl RunOrCheckpoint {
    pub fn dir(&self) -> &CheckpointDir {
        match self {
            RunOrCheckpoint::Run(dir) | RunOrCheckpoint::Checkpoint(dir) => dir,
        }
    }
}

/// Finds the run or checkpoint that `text` names.
pub fn find(layout: &Layout, text: &str) -> Result<RunOrCheckpoint> {
    let (runs, checkpoints) = (layout.runs(), layout.checkpoints());
    let dir = |parent: &Path, id: &String| CheckpointDir::new(id, parent.join(id));
    let mut all: Vec<RunOrCheckpoint> =
        run_ids(layout)?.iter().map(|id| RunOrCheckpoint::Run(dir(&runs, id))).collect();
    all.extend(dirs_in(&checkpoints)?.iter().map(|id| RunOrCheckpoint::Checkpoint(dir(&checkpoints, id))));
    find_unique(&all, text, |found| vec![found.dir().id().to_owned()])?.cloned().ok_or_else(|| {
        Error::project(format!("no run or checkpoint has the id '{text}'"))
            .hint("`decree log` lists the runs, `decree checkpoint list` the checkpoints")
    })
}

/// The item that has `text` as one of its names, else the only one with a name that begins with it. `None` if there is none; an
/// error that lists the names if there are several.
pub fn find_unique<'i, T>(
    items: &'i [T],
    text: &str,
    names: impl Fn(&T) -> Vec<String>,
) -> Result<Option<&'i T>> {
    let having = |matches: &dyn Fn(&String) -> bool| -> Vec<&'i T> {
        items.iter().filter(|item| !text.is_empty() && names(item).iter().any(matches)).collect()
    };
    let mut found = having(&|name| name == text);
    if found.is_empty() {
        found = having(&|name| name.starts_with(text));
    }
    if found.len() > 1 {
        return Err(Error::project(format!("'{text}' is ambiguous"))
            .details(found.iter().map(|item| names(item).join("  ")).collect(), 10)
            .hint("use a longer prefix"));
    }
    Ok(found.pop())
}

/// Like [`find`], but refuses a checkpoint that does not hold the tree.
pub fn find_tree(layout: &Layout, text: &str) -> Result<RunOrCheckpoint> {
    let found = find(layout, text)?;
    if let RunOrCheckpoint::Checkpoint(checkpoint) = &found
        // A checkpoint whose record is damaged may still have a manifest. The caller finds out.
        && let Ok(record) = CheckpointRecord::read(checkpoint.dir())
        && !record.kind().holds_tree()
    {
        let (id, kind) = (checkpoint.id(), record.kind().word());
        return Err(Error::project(format!("{id} is a {kind}: it does not hold the tree"))
            .hint(format!("`decree rollback {id}` rolls back to it")));
    }
    Ok(found)
}

/// The runs of the chain with exactly this id, in order; none if it is not the id of a chain. A chain that lacks the directory of a run
/// is an error: `action` is for all of it, or for none.
pub fn runs_of_chain(layout: &Layout, text: &str, action: RestoreAction) -> Result<Vec<CheckpointDir>> {
    let Some(chain) = ChainId::parse(text) else {
        return Ok(Vec::new());
    };
    let mut ids: Vec<MessageId> = run_ids(layout)?.iter().filter_map(|id| MessageId::parse(id)).collect();
    ids.retain(|id| id.chain == chain);
    // A message that was rejected has a dead letter and no run.
    let mut missing = Inbox::of(layout).done_letters(&chain)?;
    missing.retain(|id, _| !ids.contains(id));
    if !missing.is_empty() {
        let runs = count(missing.len(), "run");
        let are = if missing.len() == 1 { "is" } else { "are" };
        let line = |(id, letter): (&MessageId, &PathBuf)| {
            format!("{id}: {} shows that it was carried out, and it has no directory", layout.shown(letter))
        };
        return Err(Error::integrity(format!("cannot {action} {chain}: {runs} of the chain {are} missing"))
            .details(missing.iter().map(line).collect(), 20)
            .detail("nothing was touched")
            .hint(format!(
                "restore {} from a backup; single runs can be reverted and applied by their own ids",
                layout.shown(&layout.runs())
            )));
    }
    let dir = |id: &MessageId| CheckpointDir::new(id.to_string(), layout.runs().join(id.to_string()));
    Ok(ids.iter().map(dir).collect())
}

/// The ids of all runs, in order.
pub fn run_ids(layout: &Layout) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for_each_dir(&layout.runs(), |name| ids.extend(MessageId::parse(&name).map(|id| (id, name))))?;
    ids.sort();
    Ok(ids.into_iter().map(|(_, name)| name).collect())
}

/// All checkpoints, oldest first, and the errors of those that cannot be read.
pub fn list(checkpoints: &Path) -> Result<(Vec<CheckpointRecord>, Vec<Error>)> {
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for id in dirs_in(checkpoints)? {
        match CheckpointRecord::read(&checkpoints.join(&id)) {
            Ok(record) => records.push(record),
            // Another process deleted it since.
            Err(_) if checkpoints.join(&id).symlink_metadata().is_err() => {}
            Err(error) => damaged.push(error),
        }
    }
    // Within a second, in the order in which they were written.
    let written = |record: &CheckpointRecord| {
        fs::metadata(checkpoints.join(&record.id).join(CheckpointRecord::FILE))
            .and_then(|found| found.modified())
            .ok()
    };
    records.sort_by_cached_key(|record| (record.created_at.clone(), written(record), record.id.clone()));
    Ok((records, damaged))
}

/// The ids of all checkpoints, also of those whose record cannot be read.
pub fn checkpoint_ids(checkpoints: &Path) -> Result<Vec<String>> {
    dirs_in(checkpoints)
}

/// The directories in `dir`, sorted.
pub fn dirs_in(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for_each_dir(dir, |name| names.push(name))?;
    names.retain(|name| !name.starts_with(TEMPORARY));
    names.sort();
    Ok(names)
}

/// Calls `each` with the name of every directory in `dir`. The listing itself says what an entry is; only a link is looked at, so that
/// tens of thousands cost little.
fn for_each_dir(dir: &Path, mut each: impl FnMut(String)) -> Result<()> {
    for entry in fs::read_dir(dir).if_exists().at("read", dir)?.into_iter().flatten() {
        let entry = entry.at("read", dir)?;
        let is_dir = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        if let Some(name) = entry.file_name().to_str().filter(|_| is_dir) {
            each(name.to_owned());
        }
    }
    Ok(())
}
