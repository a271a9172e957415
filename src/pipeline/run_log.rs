//! Records whether a run's change is in the tree: in its result and in the tracker. A restore does so before its journal is removed, so
//! a process that is killed leaves the record, or the journal from which recovery writes it.

use std::cell::{LazyCell, RefCell};

use super::result::{RevertRecord, RunResult};
use super::rolled_back::{MoveTarget, MovedRun, TreeMove, checkpoint_time, record_moved_runs};
use super::run_state::record_state;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::restore::{FinishedRestore, RestoreAction, RestoreLog};
use crate::checkpoint::store::Store;
use crate::error::{ErrorKind, Result};
use crate::history::audit::AuditLog;
use crate::history::{self, GitChange, KeptRuns, RunDir};
use crate::message::MessageId;
use crate::project::Layout;

/// The log of restores that revert runs or apply them: each run's own record, then the audit trail.
pub struct RunLog<'l> {
    layout: &'l Layout,
    store: &'l Store,
    audit: AuditLog,
    spec: RefCell<Option<String>>,
    moved: RefCell<Vec<MovedRun>>,
}

impl<'l> RunLog<'l> {
    /// The caller holds the project's lock.
    pub fn new(layout: &'l Layout, store: &'l Store) -> Self {
        RunLog {
            layout,
            store,
            audit: AuditLog::new(layout.audit()),
            spec: RefCell::default(),
            moved: RefCell::default(),
        }
    }

    /// The spec that the last restore added to the tracker or removed from it.
    pub(super) fn take_spec(&self) -> Option<String> {
        self.spec.take()
    }

    /// The runs that left the tree, or came back, with the restores of checkpoints.
    pub fn take_moved_runs(&self) -> Vec<MovedRun> {
        self.moved.take()
    }
}

impl RunLog<'_> {
    /// Records which runs left the tree, or came back, when it went to a checkpoint, or to what was there before it was reverted to one.
    fn settle_checkpoint(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        let Ok(found) = history::find(self.layout, restore.subject) else { return Ok(()) };
        let mut dir = found.dir().clone();
        if restore.action == RestoreAction::Apply {
            dir = history::find_recorded_change(self.layout, &dir)?;
        }
        // Reading it takes a while, and without runs in between nobody asks. If it cannot be read, nothing is known to have moved.
        let manifest = LazyCell::new(|| dir.manifest(self.store).ok());
        let now = |path: &TreePath| {
            let manifest = manifest.as_ref().filter(|_| restore.paths.contains(path))?;
            Some(manifest.tree.get(path))
        };
        // A part of the tree, or all of it.
        let target = MoveTarget::Past { time: checkpoint_time(&dir), is_whole: false };
        let tree = TreeMove { now: &now, saved: None, target, dry_run: false };
        let moved = record_moved_runs(self.layout, &tree)?;
        self.moved.borrow_mut().extend(moved.into_iter().filter(MovedRun::is_recorded));
        Ok(())
    }
}

impl KeptRuns for RunLog<'_> {
    fn is_reverted(&self, run: &str) -> Result<bool> {
        let Some(id) = MessageId::parse(run) else { return Ok(false) };
        let result = RunResult::read(&RunDir::of(self.layout, &id).checkpoint())?;
        Ok(result.is_none_or(|result| result.run.reverted.is_some()))
    }

    fn record(&self, run: &str, change: &GitChange) -> Result<()> {
        let Some(id) = MessageId::parse(run) else { return Ok(()) };
        let run = RunDir::of(self.layout, &id).checkpoint();
        let Some(mut result) = RunResult::read(&run)? else { return Ok(()) };
        result.run.git.pop();
        result.run.git.push(change.clone());
        result.write(&run)
    }
}

impl RestoreLog for RunLog<'_> {
    fn settle(&self, restore: &FinishedRestore<'_>) -> Result<()> {
        let reverted = match restore.action {
            RestoreAction::Revert => Some(RevertRecord::of(restore)),
            RestoreAction::Apply => None,
            RestoreAction::Rollback => return self.settle_checkpoint(restore),
            // A run that failed is settled as a whole.
            RestoreAction::PutBack => return Ok(()),
        };
        let Some(id) = MessageId::parse(restore.subject) else { return self.settle_checkpoint(restore) };
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
