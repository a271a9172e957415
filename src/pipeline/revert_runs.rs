//! Reverts runs that were kept, or applies one again: in the tree, its result and the tracker.

use super::result::{RevertRecord, RunResult};
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::{RestoreAction, RestoreLog, RestoreOutcome, RestoreReport};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, FailureReason, Result};
use crate::project::Layout;
use crate::spec::Tracker;

/// One run that was reverted.
#[derive(Debug)]
pub struct RevertedRun<'r> {
    pub run: &'r CheckpointDir,
    pub how: RunRevert,
    /// The spec that was removed from the tracker.
    pub untracked: Option<String>,
}

/// What it took to revert a run.
#[derive(Debug)]
pub enum RunRevert {
    /// Its paths were reverted.
    Done(RestoreReport),
    /// It had been reverted before.
    Already,
    /// It had not changed anything.
    ChangedNothing,
}

/// Reverts runs, given in the order in which they ran, from the last to the first: all of them, or none.
pub fn revert_runs<'r>(
    layout: &Layout,
    workspace: &Workspace,
    runs: &'r [CheckpointDir],
    log: &dyn RestoreLog,
) -> Result<Vec<RevertedRun<'r>>> {
    let mut reverted: Vec<(&CheckpointDir, Option<RunResult>, RunRevert)> = Vec::new();
    for run in runs.iter().rev() {
        let result = RunResult::read(run);
        match result.and_then(|result| Ok((revert_one(workspace, run, result.as_ref(), log)?, result))) {
            Ok((how, result)) => reverted.push((run, result, how)),
            Err(error) => return Err(apply_again(workspace, &reverted, error, log)),
        }
    }
    reverted.into_iter().map(|(run, result, how)| settle(layout, run, result, how)).collect()
}

fn revert_one(
    workspace: &Workspace,
    run: &CheckpointDir,
    result: Option<&RunResult>,
    log: &dyn RestoreLog,
) -> Result<RunRevert> {
    let was_reverted = result.is_some_and(|result| result.run.reverted.is_some());
    let changes = result.and_then(|result| result.changes.as_ref());
    let never_began = !run.manifest_path().exists() && !run.has_change_record() && changes.is_none();
    if never_began || changes.is_some_and(ChangeRecord::is_empty) {
        return Ok(if was_reverted { RunRevert::Already } else { RunRevert::ChangedNothing });
    }
    match run.revert(workspace, &run.manifest()?, RestoreAction::Revert, log) {
        Ok(RestoreOutcome::Done(done)) => Ok(RunRevert::Done(done)),
        Ok(RestoreOutcome::AlreadyThere) => Ok(RunRevert::Already),
        // The tree was edited after the run had been reverted; there is nothing left to revert.
        Err(error) if was_reverted && error.is(FailureReason::Conflict) => Ok(RunRevert::Already),
        Err(error) => Err(error.hint(format!("`decree diff {}` shows the run", run.id()))),
    }
}

/// Applies the runs again that were reverted before one that could not be.
fn apply_again(
    workspace: &Workspace,
    reverted: &[(&CheckpointDir, Option<RunResult>, RunRevert)],
    mut error: Error,
    log: &dyn RestoreLog,
) -> Error {
    for (run, ..) in reverted.iter().rev().filter(|(.., how)| matches!(how, RunRevert::Done(_))) {
        if let Err(worse) = run.apply(workspace, log) {
            return error.detail(format!("and {} could not be applied again: {worse}", run.id()));
        }
        error = error.detail(format!("{} was reverted and is applied again", run.id()));
    }
    error
}

/// Tracker before result: after a kill in between, the same command does both again.
fn settle<'r>(
    layout: &Layout,
    run: &'r CheckpointDir,
    result: Option<RunResult>,
    how: RunRevert,
) -> Result<RevertedRun<'r>> {
    let mut untracked = None;
    if let Some(mut result) = result.filter(|result| result.run.reverted.is_none()) {
        if let Some(name) = result.run.tracked_name(layout).filter(|_| result.run.kept)
            && Tracker::remove(&layout.tracker(), &name)?
        {
            untracked = Some(name);
        }
        result.run.reverted = Some(match &how {
            RunRevert::Done(done) => RevertRecord::new(done, done.verified),
            RunRevert::Already | RunRevert::ChangedNothing => RevertRecord::default(),
        });
        result.write(run)?;
    }
    Ok(RevertedRun { run, how, untracked })
}

/// A recorded change that is in the tree again.
#[derive(Debug)]
pub struct AppliedChange {
    pub outcome: RestoreOutcome,
    /// The spec that was added to the tracker.
    pub tracked: Option<String>,
}

/// Whether there is a change to apply.
pub fn check_applicable(dir: &CheckpointDir) -> Result<()> {
    if dir.has_change_record() {
        return Ok(());
    }
    Err(Error::project(format!("{} has no recorded change to apply", dir.id()))
        .hint(format!("`decree diff {}` shows what is different now", dir.id())))
}

/// Applies the recorded change of a run, or of a revert to a checkpoint, and then records that it is in the tree. With `force`, what is
/// at its paths is overwritten; the caller has saved it.
pub fn apply(
    layout: &Layout,
    workspace: &Workspace,
    dir: &CheckpointDir,
    log: &dyn RestoreLog,
    force: bool,
) -> Result<AppliedChange> {
    check_applicable(dir)?;
    let outcome = if force { dir.apply_forced(workspace, log)? } else { dir.apply(workspace, log)? };
    let mut applied = AppliedChange { outcome, tracked: None };
    // Also if it was applied already: an earlier apply may have been interrupted before this step.
    if let Some(mut result) = RunResult::read(dir)?.filter(|result| result.run.reverted.is_some()) {
        // The tracker first, as in `settle`.
        if let Some(name) = result.run.tracked_name(layout).filter(|_| result.run.kept)
            && Tracker::append(&layout.tracker(), &name)?
        {
            applied.tracked = Some(name);
        }
        result.run.reverted = None;
        result.write(dir)?;
    }
    Ok(applied)
}
