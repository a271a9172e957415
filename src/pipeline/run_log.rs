//! Records whether a run's change is in the tree: in its result and in the tracker. A restore does so before its journal is removed, so
//! a process that is killed leaves the record, or the journal from which recovery writes it.

use std::cell::RefCell;

use super::result::{RevertRecord, RunResult};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::{FinishedRestore, RestoreAction, RestoreLog};
use crate::error::{ErrorKind, Result};
use crate::history::RunDir;
use crate::history::audit::AuditLog;
use crate::message::MessageId;
use crate::project::Layout;
use crate::spec::Tracker;

/// The log of restores that revert runs or apply them: each run's own record, then the audit trail.
pub struct RunLog<'l> {
    layout: &'l Layout,
    audit: AuditLog,
    spec: RefCell<Option<String>>,
}

impl<'l> RunLog<'l> {
    /// The caller holds the project's lock.
    pub fn new(layout: &'l Layout) -> Self {
        RunLog { layout, audit: AuditLog::new(layout.audit()), spec: RefCell::default() }
    }

    /// The spec that the last restore added to the tracker or removed from it.
    pub(super) fn take_spec(&self) -> Option<String> {
        self.spec.take()
    }
}

impl RestoreLog for RunLog<'_> {
    fn settle(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        let reverted = match restore.action {
            RestoreAction::Revert => Some(RevertRecord::of(restore)),
            RestoreAction::Apply => None,
            // A run that failed is settled as a whole; a rollback is not of a run.
            RestoreAction::PutBack | RestoreAction::Rollback => return Ok(()),
        };
        let Some(id) = MessageId::parse(restore.subject) else { return Ok(()) };
        let run = RunDir::of(self.layout, &id).checkpoint();
        match record_state(self.layout, &run, reverted) {
            Ok(spec) => *self.spec.borrow_mut() = spec,
            // The restore is done. A record that was damaged meanwhile must not keep its journal for ever.
            Err(error) if error.kind() == ErrorKind::Integrity => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn record(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        self.audit.record(restore)
    }
}

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
