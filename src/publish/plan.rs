//! The runs to publish: those of a summary whose changes are in the tree, grouped by chain.

use std::collections::{BTreeMap, BTreeSet};

use super::scope::refuse;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::patch::parse::{Patch, PatchRecord};
use crate::checkpoint::path::TreePath;
use crate::error::{Error, Result};
use crate::history::RunDir;
use crate::message::MessageId;
use crate::pipeline::{RunResult, Summary, tracked_name};
use crate::project::Layout;

/// A run whose changes are in the tree.
pub struct PlannedRun {
    pub id: MessageId,
    pub result: RunResult,
    pub patch: Patch,
}

/// The runs of one commit: a message and its follow-ups.
pub struct Chain {
    /// At least one run, in order.
    pub runs: Vec<PlannedRun>,
}

/// The net change of a chain to one path.
#[derive(Clone, Copy)]
pub struct NetChange<'c> {
    /// The path before the first run.
    pub before: Option<Node>,
    /// The path after the last run.
    pub after: Option<Node>,
    /// The record from which the content is rebuilt.
    pub record: &'c PatchRecord,
    /// The diff that contains `record`.
    pub patch: &'c Patch,
}

/// The runs of a summary that were kept and not reverted since, in order.
pub fn runs(layout: &Layout, summary: &Summary) -> Result<Vec<PlannedRun>> {
    let mut runs = Vec::new();
    let mut seen = BTreeSet::new();
    for message in summary.messages.iter().filter(|message| message.run.kept) {
        let Some(id) = message.id.as_deref().and_then(MessageId::parse) else { continue };
        let saved = RunDir::of(layout, &id).checkpoint();
        let result = RunResult::read(&saved)?.ok_or_else(|| {
            Error::project(format!("run {id} of the summary is not in {}", layout.shown(&layout.runs())))
                .hint("publish in the project that processed the specs: its .decree/ has the content")
        })?;
        let in_tree = result.run.kept && result.run.reverted.is_none();
        if in_tree && seen.insert(id.clone()) {
            runs.push(PlannedRun { patch: saved.patch()?, id, result });
        }
    }
    Ok(runs)
}

/// Groups consecutive runs by chain. If a run of another chain came in between, a chain becomes two commits, because commits
/// have to follow the order of the runs.
pub fn chains(runs: Vec<PlannedRun>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for run in runs {
        match chains.last_mut() {
            Some(chain) if chain.first().id.chain == run.id.chain => chain.runs.push(run),
            _ => chains.push(Chain { runs: vec![run] }),
        }
    }
    chains
}

impl Chain {
    pub fn first(&self) -> &PlannedRun {
        self.runs.first().expect("a chain has a run")
    }

    pub fn spec(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.result.run.spec.as_deref())
    }

    /// The file names of the specs that the chain adds to the tracker.
    pub fn tracked(&self, layout: &Layout) -> Vec<String> {
        let specs = self.runs.iter().filter_map(|run| run.result.run.spec.as_deref());
        specs.filter_map(|spec| tracked_name(layout, spec)).collect()
    }

    /// The net change per path, as git sees it. Fails if another program changed a path between two of the runs.
    pub fn net(&self) -> Result<BTreeMap<&TreePath, NetChange<'_>>> {
        let mut net: BTreeMap<&TreePath, NetChange<'_>> = BTreeMap::new();
        let mut edited = Vec::new();
        for run in &self.runs {
            for record in &run.patch.records {
                let change = &record.change;
                let (before, after) = (in_git(change.before), in_git(change.after));
                if before.is_none() && after.is_none() {
                    continue;
                }
                let fresh = NetChange { before, after, record, patch: &run.patch };
                let Some(known) = net.get_mut(&change.path) else {
                    net.insert(&change.path, fresh);
                    continue;
                };
                if known.after != before {
                    edited.push(format!("{}: before {}", change.path, run.id));
                }
                *known = NetChange { before: known.before, ..fresh };
            }
        }
        refuse_edits_between_runs(edited)?;
        Ok(net)
    }
}

/// Refuses paths that another program edited between two runs: that edit belongs to neither commit.
pub fn refuse_edits_between_runs(edited: Vec<String>) -> Result<()> {
    let why = "files were edited between two runs; the edits belong to neither commit";
    refuse(edited, why, "commit these files yourself; `git add -p` and `decree diff` help")
}

/// A node as git stores it: no directories, and of the mode only the owner's execute bit.
pub fn in_git(node: Option<Node>) -> Option<Node> {
    match node? {
        Node::File { hash, size, mode } => {
            Some(Node::File { hash, size, mode: FileMode::from_bits(mode.for_git()) })
        }
        link @ Node::Symlink { .. } => Some(link),
        Node::Dir { .. } => None,
    }
}
