//! From what a user types to a run or a checkpoint: a full id, or a prefix that only one has.

use std::fs;
use std::io;
use std::path::Path;

use super::record::CheckpointRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::TEMPORARY;
use crate::message::{ChainId, MessageId};
use crate::project::Layout;

/// What an id stands for.
#[derive(Clone, Debug)]
pub enum RunOrCheckpoint {
    /// A run: it knows what it changed.
    Run(CheckpointDir),
    /// A checkpoint: what changed since is for us to find out.
    Checkpoint(CheckpointDir),
}

impl RunOrCheckpoint {
    /// Its directory.
    pub fn saved(&self) -> &CheckpointDir {
        match self {
            RunOrCheckpoint::Run(saved) | RunOrCheckpoint::Checkpoint(saved) => saved,
        }
    }
}

/// Finds the run or checkpoint that `text` names.
pub fn find(layout: &Layout, text: &str) -> Result<RunOrCheckpoint> {
    let runs = run_ids(layout)?;
    let checkpoints = names_in(&layout.checkpoints())?;
    let matching = |names: &[String]| -> Vec<String> {
        match names.iter().find(|name| *name == text) {
            Some(exact) => vec![exact.clone()],
            None => names.iter().filter(|name| !text.is_empty() && name.starts_with(text)).cloned().collect(),
        }
    };
    let (runs, checkpoints) = (matching(&runs), matching(&checkpoints));
    match (&runs[..], &checkpoints[..]) {
        ([run], []) => Ok(RunOrCheckpoint::Run(CheckpointDir::new(run, layout.runs().join(run)))),
        ([], [id]) => Ok(RunOrCheckpoint::Checkpoint(CheckpointDir::new(id, layout.checkpoints().join(id)))),
        ([], []) => Err(Error::project(format!("no run or checkpoint has the id '{text}'"))
            .hint("`decree log` lists the runs, `decree checkpoint list` the checkpoints there are")),
        _ => Err(Error::project(format!("the id '{text}' is ambiguous"))
            .details(runs.into_iter().chain(checkpoints).collect(), 10)
            .hint("give more of it")),
    }
}

/// The same, for those who need the tree that it holds.
pub fn find_tree(layout: &Layout, text: &str) -> Result<RunOrCheckpoint> {
    let found = find(layout, text)?;
    if let RunOrCheckpoint::Checkpoint(saved) = &found
        // One whose record is damaged may still have a manifest; that is for its reader to say.
        && let Ok(record) = CheckpointRecord::read(saved.dir())
        && !record.kind.holds_tree()
    {
        let (id, kind) = (saved.id(), record.kind.word());
        return Err(Error::project(format!("{id} is a {kind}: it holds nothing of the tree"))
            .hint(format!("`decree rollback {id}` goes back to it")));
    }
    Ok(found)
}

/// The runs of the chain with exactly this id, in order; none if it is no chain's.
pub fn runs_of_chain(layout: &Layout, text: &str) -> Result<Vec<CheckpointDir>> {
    let Some(chain) = ChainId::parse(text) else {
        return Ok(Vec::new());
    };
    let of_chain = |id: &String| MessageId::parse(id).is_some_and(|id| *id.chain() == chain);
    let ids = run_ids(layout)?.into_iter().filter(of_chain);
    Ok(ids.map(|id| CheckpointDir::new(&id, layout.runs().join(&id))).collect())
}

/// The runs there are, in order.
pub fn run_ids(layout: &Layout) -> Result<Vec<String>> {
    let mut ids: Vec<MessageId> =
        names_in(&layout.runs())?.iter().filter_map(|name| MessageId::parse(name)).collect();
    ids.sort();
    Ok(ids.iter().map(ToString::to_string).collect())
}

/// The directories in `dir`, sorted.
pub fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).at("read", dir),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.at("read", dir)?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with(TEMPORARY)
            && entry.path().is_dir()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
