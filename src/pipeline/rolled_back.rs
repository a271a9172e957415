//! Runs whose work left the tree, or came back, because the tree went to a checkpoint or a change was applied over theirs. Such a run is
//! recorded like one that is reverted or applied, or the log would call work kept that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use jiff::Timestamp;

use super::result::{RevertRecord, RunResult};
use super::run_state::{record_state, spec_that_would_move};
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::entry::Node;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::checkpoint::tree::Tree;
use crate::checkpoint::unlocked_dirs::UnlockedDirs;
use crate::error::{Error, Result};
use crate::history::{self, CheckpointRecord};
use crate::humanize::count;
use crate::message::MessageId;
use crate::project::Layout;

/// What later runs whose work is in the tree left at a path.
type LaterWork = BTreeMap<String, Option<Node>>;

/// What the runs left at a path that were in the tree at the time to which it went as a whole.
type WorkThen = BTreeMap<String, Vec<Option<Node>>>;

/// Where the tree went.
pub struct TreeMove<'m> {
    /// What a path is now; the outer `None` for a path that was not part of it.
    pub now: &'m dyn Fn(&TreePath) -> Option<Option<Node>>,
    /// What was there before; `None` if nothing differed, or it is not known.
    pub saved: Option<&'m Tree>,
    pub target: MoveTarget<'m>,
    /// Only find the runs, and record nothing.
    pub dry_run: bool,
}

#[derive(Clone, Copy)]
pub enum MoveTarget<'m> {
    /// To what it was at a time, as a whole or in part; `None` if the time is not known.
    Past { time: Option<Timestamp>, is_whole: bool },
    /// To what this run left, whatever was there.
    Forced { run: &'m str },
}

/// What became of a run.
#[derive(Debug)]
pub struct MovedRun {
    pub id: String,
    pub fate: RunFate,
    /// The spec that left the tracker or is on it again.
    pub spec: Option<String>,
    /// Whether the spec's file is there.
    pub is_spec_there: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFate {
    /// Nothing of its work is in the tree: it counts as reverted.
    RolledBack,
    /// Some of its paths are no longer what it left: it counts as kept.
    Partly { paths: usize, of: usize },
    /// Its work is in the tree again.
    Kept,
    /// What it left is there, as the work of another run, and nothing else of its work is: it counts as reverted.
    Replaced,
    /// Some of its paths are what it left again: it counts as reverted.
    PartlyBack { paths: usize, of: usize },
}

impl MovedRun {
    /// Whether its record is another one now.
    pub fn is_recorded(&self) -> bool {
        matches!(self.fate, RunFate::RolledBack | RunFate::Replaced | RunFate::Kept)
    }

    /// The sentence about it.
    pub fn sentence(&self, dry_run: bool) -> String {
        let (id, is) = (&self.id, if dry_run { "would be" } else { "is" });
        match (self.fate, &self.spec) {
            (RunFate::RolledBack, _) => {
                format!("the work of run {id} {is} no longer in the tree{}", self.spec_removed(dry_run))
            }
            (RunFate::Replaced, _) => {
                format!("what run {id} left {is} the work of another run now{}", self.spec_removed(dry_run))
            }
            (RunFate::Partly { paths, of }, _) => format!(
                "a part of the work of run {id} {is} no longer in the tree: {paths} of {}; the run still counts as kept",
                count(of, "path")
            ),
            (RunFate::PartlyBack { paths, of }, _) => format!(
                "a part of the work of run {id} {is} in the tree again: {paths} of {}; the run still counts as reverted",
                count(of, "path")
            ),
            (RunFate::Kept, Some(spec)) => {
                format!("the work of run {id} {is} in the tree again; {spec} {is} on the tracker again")
            }
            (RunFate::Kept, None) => format!("the work of run {id} {is} in the tree again"),
        }
    }

    /// What follows the sentence about a run that counts as reverted.
    fn spec_removed(&self, dry_run: bool) -> String {
        match &self.spec {
            None => String::new(),
            Some(spec) if dry_run => format!("; {spec} would leave the tracker"),
            Some(spec) => format!("; {}", removed_from_tracker(spec, self.is_spec_there)),
        }
    }
}

/// The words about a spec that left the tracker.
pub fn removed_from_tracker(spec: &str, is_there: bool) -> String {
    let next = if is_there { "`decree process` runs it again" } else { "its file is not in specs/ now" };
    format!("removed {spec} from the tracker: {next}")
}

/// A run whose record has to change, or whose work another one's may be.
struct MovableRun {
    dir: CheckpointDir,
    result: RunResult,
    changes: ChangeRecord,
    /// Whether its change was in the tree at the time that the tree went to.
    was_in_tree: bool,
}

/// Finds these runs and records what became of them. Doing it again changes nothing, so a kill in between is repaired by going to the
/// same checkpoint once more. The caller holds the project's lock.
pub fn record_moved_runs(layout: &Layout, tree: &TreeMove<'_>) -> Result<Vec<MovedRun>> {
    let (mut moved, mut left, mut owned) = (Vec::new(), LaterWork::new(), BTreeSet::new());
    let (runs, then) = tree.movable_runs(layout)?;
    // The latest first: what a later run left is no loss of an earlier one's.
    for run in runs.into_iter().rev() {
        let mut became = tree.fate(layout, &run, &left, &owned);
        if became.is_none() && tree.is_work_of_then(&run, &then) {
            became = Some(RunFate::Replaced);
        }
        let is_kept = match &became {
            Some(fate) => matches!(fate, RunFate::Kept | RunFate::Partly { .. }),
            None => run.result.is_in_tree(),
        };
        if run.result.is_in_tree() && !tree.target.is_forced_by(run.dir.id()) {
            owned.extend(run.changes.changes.keys().cloned());
        }
        let of = run.changes.changes.len();
        let files: Vec<String> = run.changes.changes.keys().cloned().collect();
        if is_kept {
            for (path, change) in run.changes.changes {
                left.entry(path).or_insert(change.after);
            }
        }
        let record =
            || RevertRecord { paths: of as u64, files, verified: of as u64, ..RevertRecord::default() };
        let is_reverted = |fate: RunFate| matches!(fate, RunFate::RolledBack | RunFate::Replaced);
        moved.extend(became.map(|fate| (run.dir, fate, is_reverted(fate).then(record))));
    }
    let record = |(dir, fate, record): (CheckpointDir, RunFate, Option<RevertRecord>)| {
        let id = dir.id().to_owned();
        let spec = match fate {
            RunFate::Partly { .. } | RunFate::PartlyBack { .. } => None,
            _ if tree.dry_run => spec_that_would_move(layout, &dir, record.is_some())?,
            _ => record_state(layout, &dir, record).map_err(|error| not_recorded(&id, error))?,
        };
        let is_spec_there = spec.as_ref().is_some_and(|spec| layout.specs().join(spec).exists());
        Ok(MovedRun { id, fate, spec, is_spec_there })
    };
    moved.into_iter().rev().map(record).collect()
}

/// When the checkpoint of a user or of a run was made.
pub fn checkpoint_time(dir: &CheckpointDir) -> Option<Timestamp> {
    match CheckpointRecord::read(dir.dir()) {
        Ok(record) => record.exact_time.unwrap_or(record.created_at).parse().ok(),
        Err(_) => RunResult::read(dir).ok().flatten()?.start(),
    }
}

fn not_recorded(id: &str, error: Error) -> Error {
    error
        .detail(format!("the tree is what it should be, but run {id} is not recorded as such"))
        .hint("remove the cause, then run the same command again")
}

/// What is at a path now; the outer `None` if it cannot be read.
fn present(layout: &Layout, path: &TreePath) -> Option<Option<Node>> {
    let root = Root::open(layout.root()).ok()?;
    UnlockedDirs::above(&root, iter::once(path)).ok()?.present(path).ok()
}

impl MoveTarget<'_> {
    fn is_forced_by(&self, id: &str) -> bool {
        matches!(self, MoveTarget::Forced { run } if *run == id)
    }
}

impl TreeMove<'_> {
    /// The runs that may have left the tree or come back, and those whose work others may be built on, in the order in which they ran.
    fn movable_runs(&self, layout: &Layout) -> Result<(Vec<MovableRun>, WorkThen)> {
        let (mut runs, mut then) = (Vec::new(), WorkThen::new());
        for id in history::run_ids(layout)? {
            let dir = CheckpointDir::new(&id, layout.runs().join(&id));
            // A damaged record says nothing about the tree; `decree log` names it.
            let Ok(Some(mut result)) = RunResult::read(&dir) else { continue };
            let Some(changes) = result.changes.take().filter(|changes| !changes.is_empty()) else { continue };
            let is_in_tree = result.is_in_tree();
            let (was_in_tree, is_whole) = match self.target {
                MoveTarget::Past { time: Some(time), is_whole } => (result.was_in_tree(time), is_whole),
                MoveTarget::Past { time: None, .. } | MoveTarget::Forced { .. } => (is_in_tree, false),
            };
            if was_in_tree && is_whole {
                for (path, change) in &changes.changes {
                    then.entry(path.clone()).or_default().push(change.after);
                }
            }
            if is_in_tree != was_in_tree || is_in_tree && !is_whole {
                runs.push(MovableRun { dir, result, changes, was_in_tree });
            }
        }
        // A message that is retried keeps its id.
        runs.sort_by_cached_key(|run| (run.result.start(), MessageId::parse(run.dir.id())));
        Ok((runs, then))
    }

    /// Whether a run that was not in the tree then left only what others had left that were: going there made it theirs.
    fn is_work_of_then(&self, run: &MovableRun, then: &WorkThen) -> bool {
        let is_work =
            |path: &String, left: &Option<Node>| then.get(path).is_some_and(|then| then.contains(left));
        let changes = &run.changes.changes;
        run.result.is_in_tree()
            && !run.was_in_tree
            && !changes.is_empty()
            && changes.iter().all(|(path, change)| is_work(path, &change.after))
    }

    /// What became of a run; `None` if nothing did.
    fn fate(
        &self,
        layout: &Layout,
        run: &MovableRun,
        left: &LaterWork,
        owned: &BTreeSet<String>,
    ) -> Option<RunFate> {
        let is_in_tree = run.result.is_in_tree();
        let is_whole = matches!(self.target, MoveTarget::Past { is_whole: true, .. });
        let is_forced = matches!(self.target, MoveTarget::Forced { .. });
        if is_forced && self.target.is_forced_by(run.dir.id()) || !is_forced && is_in_tree == run.was_in_tree
        {
            return None;
        }
        let of = run.changes.changes.len();
        let (mut there, mut taken, mut moved) = (0, 0, false);
        for (name, change) in &run.changes.changes {
            let Ok(path) = TreePath::from_json(name) else { continue };
            let moved_to = (self.now)(&path);
            let Some(now) = moved_to.or_else(|| present(layout, &path)) else { continue };
            // The same bytes are the work of the run that is applied now.
            let is_taken = is_forced && moved_to.is_some() && now == change.after;
            let is_there = !is_taken && (now == change.after || left.get(name) == Some(&now));
            there += usize::from(is_there);
            taken += usize::from(is_taken);
            // What a later run had overwritten was not this run's to lose.
            let was_own = !is_forced || !owned.contains(name);
            let has_moved = moved_to.is_some() && self.saved.is_none_or(|tree| tree.get(&path) != now);
            moved |= (has_moved || is_taken) && was_own && is_there != is_in_tree;
        }
        match (is_in_tree, there) {
            (true, _) if there == of => None,
            (false, _) if is_whole => Some(RunFate::Kept),
            _ if !is_whole && !moved => None,
            (true, _) if there == 0 && taken == of => Some(RunFate::Replaced),
            (true, _) if is_whole || there == 0 => Some(RunFate::RolledBack),
            (true, _) => Some(RunFate::Partly { paths: of - there, of }),
            (false, _) if there == of => Some(RunFate::Kept),
            (false, _) => Some(RunFate::PartlyBack { paths: there, of }),
        }
    }
}
