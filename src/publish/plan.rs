//! What there is to publish: the runs of a summary whose change is in the tree, a commit for each chain.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::patch::parse::{Patch, PatchRecord};
use crate::checkpoint::path::TreePath;
use crate::error::{Error, Result};
use crate::message::MessageId;
use crate::pipeline::{RunDir, RunResult, Summary, tracked_name};
use crate::project::Layout;

/// A run whose change is in the tree.
pub struct PlannedRun {
    /// Which.
    pub id: MessageId,
    /// What is known of it.
    pub result: RunResult,
    /// What it changed.
    pub patch: Patch,
}

/// Runs that become one commit: a message, and what followed from it.
pub struct Chain {
    /// In their order; at least one.
    pub runs: Vec<PlannedRun>,
}

/// What a chain did to one path, all in all.
pub struct NetChange<'c> {
    /// What its first run found.
    pub before: Option<Node>,
    /// What its last run left.
    pub after: Option<Node>,
    /// The record that the content can be made from.
    pub record: &'c PatchRecord,
    /// The diff that it is in.
    pub patch: &'c Patch,
}

/// The runs of a summary that were kept and not put back since, in their order.
pub fn runs(layout: &Layout, summary: &Summary) -> Result<Vec<PlannedRun>> {
    let mut runs = Vec::new();
    let mut seen = BTreeSet::new();
    for message in summary.messages.iter().filter(|message| message.kept) {
        let Some(id) = message.id.as_deref().and_then(MessageId::parse) else { continue };
        let saved = RunDir::of(layout, &id).saved();
        let result = RunResult::read(&saved.result_path())?.ok_or_else(|| {
            Error::project(format!(
                "the summary has run {id}, which is not in {}",
                layout.shown(&layout.runs())
            ))
            .hint("publish where the specs were processed; the content is in that project's .decree/")
        })?;
        let in_tree = result.story.kept && result.story.put_back.is_none();
        if in_tree && seen.insert(id.clone()) {
            runs.push(PlannedRun { patch: saved.patch()?, id, result });
        }
    }
    Ok(runs)
}

/// A commit for each chain. A chain that something else came between is two: its commits have to be in the order of
/// what happened.
pub fn chains(runs: Vec<PlannedRun>) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for run in runs {
        match chains.last_mut() {
            Some(chain) if chain.first().id.chain() == run.id.chain() => chain.runs.push(run),
            _ => chains.push(Chain { runs: vec![run] }),
        }
    }
    chains
}

impl Chain {
    /// Its first run.
    pub fn first(&self) -> &PlannedRun {
        self.runs.first().expect("a chain has a run")
    }

    /// The spec it fulfils.
    pub fn spec(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.result.story.spec.as_deref())
    }

    /// The specs that it puts on the tracker, by their file names.
    pub fn tracked(&self, layout: &Layout) -> Vec<String> {
        let specs = self.runs.iter().filter_map(|run| run.result.story.spec.as_deref());
        specs.filter_map(|spec| tracked_name(layout, spec)).collect()
    }

    /// What it did to each path that git knows of. Fails if something else changed a path between two of its runs.
    pub fn net(&self) -> Result<BTreeMap<&TreePath, NetChange<'_>>> {
        let mut net: BTreeMap<&TreePath, NetChange<'_>> = BTreeMap::new();
        let mut moved_on = Vec::new();
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
                    moved_on.push(format!("{}: before {}", change.path, run.id));
                }
                *known = NetChange { before: known.before, ..fresh };
            }
        }
        between(moved_on)?;
        Ok(net)
    }
}

/// Somebody's edit between two runs belongs to neither.
pub fn between(moved_on: Vec<String>) -> Result<()> {
    if moved_on.is_empty() {
        return Ok(());
    }
    Err(Error::failed(
        "something else changed files between two runs: no commit of a run alone can have that",
    )
    .details(moved_on, 20)
    .detail("nothing was done")
    .hint("commit these files yourself; `git add -p` and `decree diff` help"))
}

/// A node as far as git can tell: it knows no directories, and of modes only whether the owner may execute.
pub fn in_git(node: Option<Node>) -> Option<Node> {
    match node? {
        Node::File { hash, size, mode } => {
            Some(Node::File { hash, size, mode: FileMode::from_bits(mode.for_git()) })
        }
        link @ Node::Symlink { .. } => Some(link),
        Node::Dir { .. } => None,
    }
}
