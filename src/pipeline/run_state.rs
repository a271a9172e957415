//! Whether a run's change is in the tree, in its result and in the tracker.

use super::result::{RevertRecord, RunResult};
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
    let (tracker, name) = (layout.tracker(), result.run.tracked_name(layout).filter(|_| result.run.kept));
    let changed = match &name {
        Some(name) if reverted.is_some() => Tracker::remove(&tracker, name)?,
        Some(name) => Tracker::append(&tracker, name)?,
        None => false,
    };
    result.run.reverted = reverted;
    result.write(run)?;
    Ok(name.filter(|_| changed))
}
