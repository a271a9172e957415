//! Whether a run's change is in the tree, in its result and in the tracker.

use super::result::{RevertRecord, RunResult};
use super::tree_periods::TreePeriod;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::project::Layout;
use crate::spec::Tracker;

/// Records that a run's change is not in the tree, with how it was reverted, or that it is. Returns the spec that left the tracker or
/// is on it again. The tracker comes first: after a kill in between, both are done again.
pub(super) fn record_state(
    layout: &Layout,
    run: &CheckpointDir,
    reverted: Option<RevertRecord>,
) -> Result<Option<String>> {
    let Some(mut result) = RunResult::read(run)? else { return Ok(None) };
    if result.run.reverted.is_some() == reverted.is_some() {
        return Ok(None);
    }
    let (tracker, name) = (layout.tracker(), tracked_spec(layout, &result));
    let changed = match &name {
        Some(name) if reverted.is_some() => Tracker::remove(&tracker, name)?,
        Some(name) => Tracker::append(&tracker, name)?,
        None => false,
    };
    if result.in_tree.is_empty() && result.run.kept && reverted.is_some() {
        result.in_tree.push(TreePeriod::since(&result.started_at));
    }
    match &reverted {
        Some(_) => result.in_tree.iter_mut().for_each(TreePeriod::end),
        None => result.in_tree.push(TreePeriod::begin()),
    }
    result.run.reverted = reverted;
    result.write(run)?;
    Ok(name.filter(|_| changed))
}

/// The spec that is on the tracker while a run's change is in the tree.
fn tracked_spec(layout: &Layout, result: &RunResult) -> Option<String> {
    result.run.tracked_name(layout).filter(|_| result.run.kept)
}

/// The spec that [`record_state`] would return; nothing is changed.
pub(super) fn spec_that_would_move(
    layout: &Layout,
    run: &CheckpointDir,
    is_reverted: bool,
) -> Result<Option<String>> {
    let Some(result) = RunResult::read(run)? else { return Ok(None) };
    if result.run.reverted.is_some() == is_reverted {
        return Ok(None);
    }
    let Some(name) = tracked_spec(layout, &result) else { return Ok(None) };
    let is_tracked = Tracker::read(&layout.tracker())?.contains(&name);
    Ok((is_tracked == is_reverted).then_some(name))
}
