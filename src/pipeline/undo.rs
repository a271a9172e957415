//! Taking back what runs did, and bringing it back: the tree, the record, and the tracker with it.

use super::result::{RevertRecord, RunRecord, RunResult};
use super::settle::tracked_name;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::{RestoreAction, RestoreLog, RestoreOutcome, RestoreReport};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, FailureReason, Result};
use crate::project::Layout;
use crate::spec::Tracker;

/// What taking one run back came to.
#[derive(Debug)]
pub struct RevertedRun<'r> {
    /// Which run.
    pub run: &'r CheckpointDir,
    /// What it took.
    pub how: RunRevert,
    /// The spec that is off the tracker now.
    pub untracked: Option<String>,
}

/// What it took to undo a run.
#[derive(Debug)]
pub enum RunRevert {
    /// Its paths were put back.
    Done(RestoreReport),
    /// The tree had been put back before.
    Already,
    /// There never was anything to put back.
    ChangedNothing,
}

/// Undoes runs in this order: all of them, or none.
pub fn undo<'r>(
    layout: &Layout,
    workspace: &Workspace,
    runs: &'r [CheckpointDir],
    log: &dyn RestoreLog,
) -> Result<Vec<RevertedRun<'r>>> {
    let mut undone: Vec<(&CheckpointDir, Option<RunResult>, RunRevert)> = Vec::new();
    for run in runs {
        let result = RunResult::read(&run.result_path());
        match result.and_then(|result| Ok((undo_one(workspace, run, result.as_ref(), log)?, result))) {
            Ok((how, result)) => undone.push((run, result, how)),
            Err(error) => return Err(redo(workspace, &undone, error, log)),
        }
    }
    undone.into_iter().map(|(run, result, how)| settle(layout, run, result, how)).collect()
}

fn undo_one(
    workspace: &Workspace,
    run: &CheckpointDir,
    result: Option<&RunResult>,
    log: &dyn RestoreLog,
) -> Result<RunRevert> {
    let put_back = result.is_some_and(|result| result.story.put_back.is_some());
    let seal = result.and_then(|result| result.seal.as_ref());
    let never_began = !run.manifest_path().exists() && !run.has_change_record() && seal.is_none();
    if never_began || seal.is_some_and(|seal| seal.changes.is_empty() && seal.beside.is_empty()) {
        return Ok(if put_back { RunRevert::Already } else { RunRevert::ChangedNothing });
    }
    match run.revert(workspace, &run.manifest()?, RestoreAction::Revert, log) {
        Ok(RestoreOutcome::Done(done)) => Ok(RunRevert::Done(done)),
        Ok(RestoreOutcome::AlreadyThere) => Ok(RunRevert::Already),
        // What was put back once is nobody's to guard: the tree has simply gone on.
        Err(error) if put_back && error.is(FailureReason::Conflict) => Ok(RunRevert::Already),
        Err(error) => Err(error.hint(format!("`decree diff {}` shows the run", run.id()))),
    }
}

/// Brings back what was undone before a run that could not be.
fn redo(
    workspace: &Workspace,
    undone: &[(&CheckpointDir, Option<RunResult>, RunRevert)],
    mut error: Error,
    log: &dyn RestoreLog,
) -> Error {
    for (run, ..) in undone.iter().rev().filter(|(.., how)| matches!(how, RunRevert::Done(_))) {
        if let Err(worse) = run.apply(workspace, log) {
            return error.detail(format!("and {} could not be brought back: {worse}", run.id()));
        }
        error = error.detail(format!("{} was undone and is back", run.id()));
    }
    error
}

/// Tracker before record: whoever is killed in between only has to do it again.
fn settle<'r>(
    layout: &Layout,
    run: &'r CheckpointDir,
    result: Option<RunResult>,
    how: RunRevert,
) -> Result<RevertedRun<'r>> {
    let mut untracked = None;
    if let Some(mut result) = result.filter(|result| result.story.put_back.is_none()) {
        if let Some(name) = name_of_spec(layout, &result.story).filter(|_| result.story.kept)
            && Tracker::remove(&layout.tracker(), &name)?
        {
            untracked = Some(name);
        }
        let (paths, set_aside) = match &how {
            RunRevert::Done(done) => (done.verified as u64, done.set_aside.as_slice()),
            RunRevert::Already | RunRevert::ChangedNothing => (0, [].as_slice()),
        };
        let set_aside = set_aside.iter().map(|(path, _)| path.to_string()).collect();
        result.story.put_back = Some(RevertRecord { paths, verified: paths, set_aside });
        result.write(&run.result_path())?;
    }
    Ok(RevertedRun { run, how, untracked })
}

/// A run's change is in the tree again. Returns the spec that is back on the tracker.
pub fn brought_back(layout: &Layout, run: &CheckpointDir) -> Result<Option<String>> {
    let Some(mut result) = RunResult::read(&run.result_path())? else {
        return Ok(None);
    };
    if result.story.put_back.take().is_none() {
        return Ok(None);
    }
    result.write(&run.result_path())?;
    match name_of_spec(layout, &result.story).filter(|_| result.story.kept) {
        Some(name) => Ok(Tracker::append(&layout.tracker(), &name)?.then_some(name)),
        None => Ok(None),
    }
}

fn name_of_spec(layout: &Layout, story: &RunRecord) -> Option<String> {
    story.spec.as_deref().and_then(|spec| tracked_name(layout, spec))
}
