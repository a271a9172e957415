//! Runs whose work left the tree, or came back, because the tree went to a checkpoint or a change was applied over theirs. Such a run is
//! recorded like one that is reverted or applied, or the log would call work kept that is not there.

use std::collections::BTreeMap;

use super::result::{RevertRecord, RunResult};
use super::run_state::record_state;
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::tree::Tree;
use crate::error::{Error, Result};
use crate::history;
use crate::humanize::count;
use crate::project::Layout;

/// What later runs whose work is in the tree left at a path.
type LaterWork = BTreeMap<String, Option<Node>>;

/// Where the tree went.
pub struct TreeMove<'m> {
    /// What a path is now; the outer `None` for a path that was not part of it.
    pub now: &'m dyn Fn(&TreePath) -> Option<Option<Node>>,
    /// What was there before, and the checkpoint that holds it; `None` if nothing differed.
    pub saved: Option<(&'m str, &'m Tree)>,
    /// The time of the checkpoint that the tree went to: runs since then are not in it.
    pub since: Option<&'m str>,
    /// The checkpoint that the whole tree went to.
    pub checkpoint: Option<&'m str>,
    /// Only find the runs, and record nothing.
    pub dry_run: bool,
}

/// What became of a run.
#[derive(Debug)]
pub struct MovedRun {
    pub id: String,
    pub fate: RunFate,
    /// The spec that left the tracker or is on it again.
    pub spec: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFate {
    /// Nothing of its work is in the tree: it counts as reverted.
    RolledBack,
    /// Some of its paths are no longer what it left: it counts as kept.
    Partly { paths: usize, of: usize },
    /// Its work is in the tree again.
    Kept,
}

impl MovedRun {
    /// The sentence about it.
    pub fn sentence(&self, dry_run: bool) -> String {
        let (id, is) = (&self.id, if dry_run { "would be" } else { "is" });
        match (self.fate, &self.spec) {
            (RunFate::RolledBack, Some(spec)) => format!(
                "the work of run {id} {is} no longer in the tree; removed {spec} from the tracker: `decree process` runs it again"
            ),
            (RunFate::RolledBack, None) => format!("the work of run {id} {is} no longer in the tree"),
            (RunFate::Partly { paths, of }, _) => format!(
                "a part of the work of run {id} {is} no longer in the tree: {paths} of {}; the run still counts as kept",
                count(of, "path")
            ),
            (RunFate::Kept, Some(spec)) => {
                format!("the work of run {id} {is} in the tree again; {spec} is on the tracker again")
            }
            (RunFate::Kept, None) => format!("the work of run {id} {is} in the tree again"),
        }
    }
}

/// Finds these runs and records what became of them. Doing it again changes nothing, so a kill in between is repaired by going to the
/// same checkpoint once more. The caller holds the project's lock.
pub fn record_moved_runs(layout: &Layout, tree: &TreeMove<'_>) -> Result<Vec<MovedRun>> {
    let (mut moved, mut left) = (Vec::new(), LaterWork::new());
    // The latest first: what a later run left is no loss of an earlier one's.
    for id in history::run_ids(layout)?.into_iter().rev() {
        let dir = CheckpointDir::new(&id, layout.runs().join(&id));
        // A damaged record says nothing about the tree; `decree log` names it.
        let Ok(Some(result)) = RunResult::read(&dir) else { continue };
        let became = tree.fate(&result, &left);
        let is_kept = match &became {
            Some((fate, _)) => *fate != RunFate::RolledBack,
            None => result.run.kept && result.run.reverted.is_none(),
        };
        if let (true, Some(changes)) = (is_kept, result.changes) {
            for (path, change) in changes.changes {
                left.entry(path).or_insert(change.after);
            }
        }
        moved.extend(became.map(|(fate, record)| (dir, fate, record)));
    }
    let record = |(dir, fate, record): (CheckpointDir, RunFate, Option<RevertRecord>)| {
        let id = dir.id().to_owned();
        let mut spec = None;
        if !tree.dry_run && !matches!(fate, RunFate::Partly { .. }) {
            spec = record_state(layout, &dir, record).map_err(|error| not_recorded(&id, error))?;
        }
        Ok(MovedRun { id, fate, spec })
    };
    moved.into_iter().rev().map(record).collect()
}

fn not_recorded(id: &str, error: Error) -> Error {
    error
        .detail(format!("the tree is what it should be, but run {id} is not recorded as such"))
        .hint("remove the cause, then run the same command again")
}

impl TreeMove<'_> {
    /// What became of a run, and how it is recorded; `None` if nothing did.
    fn fate(&self, result: &RunResult, left: &LaterWork) -> Option<(RunFate, Option<RevertRecord>)> {
        if let Some(reverted) = &result.run.reverted {
            let is_back = self.checkpoint.is_some() && reverted.saved.as_deref() == self.checkpoint;
            return is_back.then_some((RunFate::Kept, None));
        }
        let changes = result.changes.as_ref().filter(|changes| result.run.kept && !changes.is_empty())?;
        let of = changes.changes.len();
        let (gone, was_there) = self.gone(changes, left);
        // Within one second the times do not say which came first; what was there before does.
        let is_newer = self.since.is_some_and(|since| {
            *result.started_at > *since || (*result.started_at == *since && self.saved.is_none())
        });
        if gone == 0 || !(is_newer || was_there) {
            return None;
        }
        if gone < of {
            return Some((RunFate::Partly { paths: gone, of }, None));
        }
        let record = RevertRecord {
            paths: of as u64,
            files: changes.changes.keys().cloned().collect(),
            verified: of as u64,
            saved: self.saved.map(|(id, _)| id.to_owned()),
            ..RevertRecord::default()
        };
        Some((RunFate::RolledBack, Some(record)))
    }

    /// How many paths of a run are not what it left, and whether one of these was, before.
    fn gone(&self, changes: &ChangeRecord, left: &LaterWork) -> (usize, bool) {
        let (mut gone, mut was_there) = (0, false);
        for (name, change) in &changes.changes {
            let Ok(path) = TreePath::from_json(name) else { continue };
            let is_gone = |now: Option<Node>| now != change.after && left.get(name) != Some(&now);
            if (self.now)(&path).is_some_and(is_gone) {
                gone += 1;
                was_there |= self.saved.is_some_and(|(_, tree)| tree.get(&path) == change.after);
            }
        }
        (gone, was_there)
    }
}
