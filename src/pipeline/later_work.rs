//! Whose work a file is. Two runs can leave the same bytes, or one takes back what another did: reverting or applying one of them would
//! then undo the other's work, and the tree alone does not show that.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::result::RunResult;
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::quote::json_for_people;
use crate::checkpoint::restore::RestoreAction;
use crate::error::{Error, FailureReason, Result};
use crate::history;
use crate::humanize::count;
use crate::message::MessageId;
use crate::project::Layout;

/// When something happened, and to which run: what happened at the same time is in the order of the ids.
type Moment = (Option<Timestamp>, MessageId);

/// A run whose change is in the tree.
struct RunInTree {
    id: MessageId,
    /// When it ran.
    start: Option<Timestamp>,
    /// Since when its change is in the tree: a run that was applied again can be there later than one that ran after it.
    since: Option<Timestamp>,
    changes: ChangeRecord,
}

impl RunInTree {
    fn since(&self) -> Moment {
        (self.since, self.id.clone())
    }

    /// When it was at its place in the order that counts for an action.
    fn moment(&self, action: RestoreAction) -> Moment {
        match action {
            // What is applied goes on top of runs that ran before it, whenever those were applied.
            RestoreAction::Apply => (self.start, self.id.clone()),
            _ => self.since(),
        }
    }

    /// A damaged record proves nothing, so it is no such run; the content of each path is compared in any case.
    fn read(layout: &Layout, id: MessageId) -> Option<RunInTree> {
        let dir = CheckpointDir::new(id.to_string(), layout.runs().join(id.to_string()));
        let mut result = RunResult::read(&dir).ok()??;
        let changes = result.changes.take().filter(|_| result.run.reverted.is_none())?;
        Some(RunInTree { id, start: result.start(), since: result.in_tree_since(), changes })
    }

    fn others(layout: &Layout, id: &MessageId) -> Result<Vec<RunInTree>> {
        let ids = history::run_ids(layout)?.into_iter().filter_map(|other| MessageId::parse(&other));
        Ok(ids.filter(|other| other != id).filter_map(|other| RunInTree::read(layout, other)).collect())
    }
}

/// Refuses to take a run's paths to the other side of its change where a later run, whose change is in the tree, left what is there.
/// `undone` are runs of the same chain that count as reverted although their records do not say so yet.
pub(super) fn refuse_later_work(
    layout: &Layout,
    run: &CheckpointDir,
    result: &RunResult,
    changes: &ChangeRecord,
    action: RestoreAction,
    undone: &[&str],
) -> Result<()> {
    let Some(id) = MessageId::parse(run.id()) else { return Ok(()) };
    let own = match action {
        RestoreAction::Apply => (result.start(), id.clone()),
        _ => (result.in_tree_since(), id.clone()),
    };
    let mut wrong: BTreeMap<&str, Moment> = BTreeMap::new();
    for later in RunInTree::others(layout, &id)? {
        let moment = later.moment(action);
        if moment <= own || undone.contains(&later.id.to_string().as_str()) {
            continue;
        }
        for (path, change) in &changes.changes {
            let Some(left) = later.changes.changes.get(path).map(|change| &change.after) else { continue };
            if *left == change.before || *left == change.after {
                note_latest(&mut wrong, path, &moment);
            }
        }
        // What no diff holds moves away, whatever it is by now.
        for path in changes.out_of_scope.iter().filter(|path| later.changes.changes.contains_key(*path)) {
            note_latest(&mut wrong, path, &moment);
        }
    }
    let Some((_, latest)) = wrong.values().max().cloned() else { return Ok(()) };
    let mut hint = format!("`decree revert {latest}` reverts the later run; revert that one first");
    if latest.chain == id.chain && action == RestoreAction::Revert {
        hint.push_str(&format!("; `decree revert {}` reverts the whole chain", id.chain));
    }
    Err(others_work(action, run, changes, &wrong, "a later run").hint(hint))
}

/// Refuses to record that a run is applied where what it left is there already, as the work of another run: reverting the one would
/// undo the other.
pub(super) fn refuse_same_work(layout: &Layout, run: &CheckpointDir, result: &RunResult) -> Result<()> {
    let (Some(id), Some(changes)) = (MessageId::parse(run.id()), &result.changes) else { return Ok(()) };
    if result.is_in_tree() {
        return Ok(());
    }
    let others = RunInTree::others(layout, &id)?;
    let mut wrong: BTreeMap<&str, Moment> = BTreeMap::new();
    for (path, change) in &changes.changes {
        // What is there is the last one's; those before it had left something else by then.
        let touching = others.iter().filter(|other| other.changes.changes.contains_key(path));
        let Some(owner) = touching.max_by_key(|other| other.since()) else { continue };
        if owner.changes.changes.get(path).is_some_and(|left| left.after == change.after) {
            wrong.insert(path, owner.since());
        }
    }
    let Some((_, latest)) = wrong.values().max().cloned() else { return Ok(()) };
    let hint = format!("`decree revert {latest}` reverts that run; after that, {id} can be applied");
    Err(others_work(RestoreAction::Apply, run, changes, &wrong, "another run").hint(hint))
}

fn note_latest<'p>(wrong: &mut BTreeMap<&'p str, Moment>, path: &'p str, moment: &Moment) {
    let known = wrong.entry(path).or_insert_with(|| moment.clone());
    if *known < *moment {
        known.clone_from(moment);
    }
}

/// `wrong` are the paths, and the runs that left what is there.
fn others_work(
    action: RestoreAction,
    run: &CheckpointDir,
    changes: &ChangeRecord,
    wrong: &BTreeMap<&str, Moment>,
    whose: &str,
) -> Error {
    let (n, all) = (wrong.len(), count(changes.changes.len(), "path"));
    let (id, are) = (run.id(), if n == 1 { "is" } else { "are" });
    let lines = wrong
        .iter()
        .map(|(path, (_, other))| format!("{}: run {other} left it as it is", json_for_people(path)));
    Error::failed(format!("cannot {action} {id}: {n} of {all} {are} the work of {whose}"))
        .because(FailureReason::Conflict)
        .details(lines.collect(), 20)
        .detail("nothing was touched")
}
