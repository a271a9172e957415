//! Records whether a run's change is in the tree: in its result and in the tracker. A restore does so before its journal is removed, so
//! a process that is killed leaves the record, or the journal from which recovery writes it.

use std::cell::RefCell;

use super::result::RevertRecord;
use super::rolled_back::{TreeMove, record_moved_runs};
use super::run_state::record_state;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::restore::{FinishedRestore, RestoreAction, RestoreLog};
use crate::error::{ErrorKind, Result};
use crate::history::audit::AuditLog;
use crate::history::{self, CheckpointRecord, RunDir};
use crate::message::MessageId;
use crate::project::Layout;

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

impl RunLog<'_> {
    /// Records which runs left the tree with a rollback that another process began and did not record.
    fn settle_rollback(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        let Ok(found) = history::find(self.layout, restore.subject) else { return Ok(()) };
        let Ok(manifest) = found.dir().manifest() else { return Ok(()) };
        let since = CheckpointRecord::read(found.dir().dir()).ok().map(|record| record.created_at);
        let now = |path: &TreePath| restore.paths.contains(path).then(|| manifest.tree.get(path));
        let since = since.as_deref();
        let tree = TreeMove { now: &now, saved: None, since, checkpoint: None, dry_run: false };
        record_moved_runs(self.layout, &tree).map(drop)
    }
}

impl RestoreLog for RunLog<'_> {
    fn settle(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        let reverted = match restore.action {
            RestoreAction::Revert => Some(RevertRecord::of(restore)),
            RestoreAction::Apply => None,
            RestoreAction::Rollback => return self.settle_rollback(restore),
            // A run that failed is settled as a whole.
            RestoreAction::PutBack => return Ok(()),
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
