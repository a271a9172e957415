//! Reverts runs that were kept, or applies one again: in the tree, its result and the tracker.

use super::later_work::{refuse_later_work, refuse_same_work};
use super::result::{RevertRecord, RunResult};
use super::rolled_back::MovedRun;
use super::run_log::RunLog;
use super::run_state::record_state;
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreReport, is_recovery_needed};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::untrusted;
use crate::history::uncaptured::{SecretChange, SecretFate};
use crate::history::{GitChange, GitRestore, PendingGitRestore, RunDir, TriedOutcome};
use crate::interrupt;
use crate::message::{Inbox, MessageId};
use crate::project::Layout;

/// One run that was reverted.
#[derive(Debug)]
pub struct RevertedRun<'r> {
    pub run: &'r CheckpointDir,
    pub how: RunRevert,
    /// The spec that was removed from the tracker.
    pub untracked: Option<String>,
    /// What became of the commits that the run made.
    pub git: GitRevert,
    /// What else the run changed, and no diff has.
    pub outside_diff: OutsideDiff,
}

/// What a kept run changed besides its diff: a revert does not restore it.
#[derive(Debug, Default)]
pub struct OutsideDiff {
    /// Databases that other programs had open.
    pub databases: Vec<TreePath>,
    /// Likely secrets.
    pub secrets: Vec<SecretChange>,
}

impl OutsideDiff {
    fn of(result: &RunResult) -> OutsideDiff {
        let databases = result.changes.iter().flat_map(|changes| changes.live_databases.iter().cloned());
        // A new file moves away, and what a file was before it became a secret is in the diff.
        let moves = |secret: &SecretChange| {
            let is_new = |changes: &ChangeRecord| changes.out_of_scope.contains(&secret.path);
            secret.was_ordinary
                || secret.change == SecretFate::Made && result.changes.as_ref().is_some_and(is_new)
        };
        let secrets = result.run.secrets.iter().filter(|secret| !secret.restored && !moves(secret));
        OutsideDiff { databases: databases.collect(), secrets: secrets.cloned().collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.databases.is_empty() && self.secrets.is_empty()
    }
}

/// What became of git's own state when a kept run was reverted.
#[derive(Debug)]
pub enum GitRevert {
    /// The run had not changed it.
    Unchanged,
    /// It is as before the run, as far as it could be restored.
    Restored(Box<GitChange>),
    /// It is left as it is, for this reason.
    Left(String),
}

/// What it took to revert a run.
#[derive(Debug)]
pub enum RunRevert {
    /// Its paths were reverted.
    Done(RestoreReport),
    /// Its record says that it was reverted before. Nothing was touched.
    Already,
    /// Its change was no longer in the tree. Nothing was touched, and its record says now that it is reverted.
    NotThere,
    /// It had not changed anything.
    ChangedNothing,
    /// It had changed only what no diff has. Nothing was touched, and it does not count as reverted.
    NotPossible,
}

/// Reverts runs, given in the order in which they ran, from the last to the first: all of them, or none. A run that was reverted
/// before is left alone, whatever the tree has now: its work may be another run's by now. A signal midway counts as a failure, after
/// which the others are applied again; when all are reverted, it no longer stops anything.
pub fn revert_runs<'r>(
    layout: &Layout,
    workspace: &Workspace,
    runs: &'r [CheckpointDir],
) -> Result<Vec<RevertedRun<'r>>> {
    let log = RunLog::new(layout, workspace.store());
    note_git(layout, workspace, runs)?;
    let mut reverted: Vec<RevertedRun<'_>> = Vec::new();
    if runs.len() > 1 {
        interrupt::set_last_words(Some(
            "the next decree command that changes the project finishes or undoes the run in progress; others of the chain may be \
             reverted: `decree log` shows which"
                .to_owned(),
        ));
    }
    for run in runs.iter().rev() {
        let undone: Vec<&str> = reverted.iter().map(|it| it.run.id()).collect();
        match revert_one(layout, workspace, run, &undone, &log) {
            Ok((how, outside_diff)) => {
                let (untracked, git) = (log.take_spec(), GitRevert::Unchanged);
                reverted.push(RevertedRun { run, how, untracked, git, outside_diff })
            }
            // The next start finishes or undoes that restore first; nothing may be applied on top of it.
            Err(error) if is_recovery_needed(&layout.scratch()) => {
                return Err(name_reverted(error, done(&reverted)).detail(format!(
                    "the next decree command that changes the project finishes or undoes the revert of {}",
                    run.id()
                )));
            }
            Err(error) => return Err(apply_again(workspace, &reverted, error, &log)),
        }
    }
    let _shield = interrupt::shield();
    // A restore is recorded when it is done. A run without one is recorded when all are reverted.
    for RevertedRun { run, how, untracked, .. } in &mut reverted {
        if matches!(how, RunRevert::NotThere | RunRevert::ChangedNothing) {
            *untracked = record_state(layout, run, Some(RevertRecord::default()))?;
        }
    }
    for tried in PendingGitRestore::finish(layout, workspace, &log)? {
        let is_of = |it: &&mut RevertedRun<'_>| Some(it.run.id()) == tried.run.as_deref();
        let Some(RevertedRun { how, git, .. }) = reverted.iter_mut().find(is_of) else { continue };
        *git = match tried.outcome {
            TriedOutcome::Restored(change) | TriedOutcome::Failed(change) => GitRevert::Restored(change),
            TriedOutcome::Left(_) if matches!(how, RunRevert::Already) => GitRevert::Unchanged,
            TriedOutcome::Left(why) => GitRevert::Left(why),
        };
    }
    Ok(reverted)
}

fn revert_one(
    layout: &Layout,
    workspace: &Workspace,
    run: &CheckpointDir,
    undone: &[&str],
    log: &RunLog<'_>,
) -> Result<(RunRevert, OutsideDiff)> {
    let nothing_else = OutsideDiff::default();
    let Some(mut result) = RunResult::read(run)? else {
        if never_began(layout, run)? {
            return Ok((RunRevert::ChangedNothing, nothing_else));
        }
        return Err(no_result(run, workspace));
    };
    if result.run.reverted.is_some() {
        return Ok((RunRevert::Already, nothing_else));
    }
    let outside_diff = OutsideDiff::of(&result);
    // A run that was given up before its first attempt has no changes.
    let Some(changes) = result.changes.take().filter(|changes| !changes.is_empty()) else {
        let nothing = outside_diff.is_empty();
        return Ok((if nothing { RunRevert::ChangedNothing } else { RunRevert::NotPossible }, outside_diff));
    };
    refuse_later_work(layout, run, &result, &changes, RestoreAction::Revert, undone)?;
    let manifest = run.manifest(workspace.store()).map_err(|error| hint_at_records(error, run, workspace))?;
    match run.revert(workspace, &manifest, RestoreAction::Revert, log) {
        // A signal may stop the rest of a chain: this run is applied again then.
        Ok(RestoreOutcome::Done(done)) => {
            Ok((RunRevert::Done(RestoreReport { shield: None, ..done }), outside_diff))
        }
        Ok(RestoreOutcome::AlreadyThere) => Ok((RunRevert::NotThere, outside_diff)),
        Err(error)
            if error.hint_text().is_some() || matches!(error.kind(), ErrorKind::Interrupted { .. }) =>
        {
            Err(error)
        }
        Err(error) if !run.has_change_record() => Err(hint_at_records(error, run, workspace)),
        Err(error) => Err(error.hint(format!("`decree diff {}` shows the run", run.id()))),
    }
}

/// Whether a run has nothing but its message, which still waits: decree was interrupted before the checkpoint.
fn never_began(layout: &Layout, run: &CheckpointDir) -> Result<bool> {
    let names = untrusted::names_in(run.dir()).at("read", run.dir())?;
    if names.iter().any(|name| name != RunDir::MESSAGE && name != CheckpointDir::PREVIOUS) {
        return Ok(false);
    }
    let id = MessageId::parse(run.id());
    Ok(Inbox::of(layout).pending()?.iter().any(|pending| pending.id == id))
}

/// Without its result it is unknown what the run left, and whether it was reverted before.
fn no_result(run: &CheckpointDir, workspace: &Workspace) -> Error {
    let (id, path) = (run.id(), run.result_path());
    let why = if path.exists() { "does not say how the run ended" } else { "is missing" };
    let error = Error::integrity(format!("cannot revert {id}: {} {why}", path.display()))
        .detail("it is unknown what the run changed, and whether it was reverted before")
        .detail("nothing was touched");
    hint_at_records(error, run, workspace)
}

/// Adds the way out for a run that lacks a record which a revert needs, or whose record is damaged.
fn hint_at_records(error: Error, run: &CheckpointDir, workspace: &Workspace) -> Error {
    let id = run.id();
    if error.kind() != ErrorKind::Integrity || error.hint_text().is_some() {
        error
    } else if run.manifest(workspace.store()).is_ok() {
        error.hint(format!("`decree rollback {id}` restores the tree to the state before the run, and saves the present state first"))
    } else {
        error.hint("restore the run's directory from a backup; `decree checkpoint list` shows the checkpoints to roll back to")
    }
}

/// The runs whose revert changed the tree, in the order in which they ran.
fn done<'i, 'r>(reverted: &'i [RevertedRun<'r>]) -> impl Iterator<Item = &'i RevertedRun<'r>> {
    reverted.iter().rev().filter(|it| matches!(it.how, RunRevert::Done(_)))
}

/// Names the runs of a chain that are reverted although the chain is not.
fn name_reverted<'i, 'r: 'i>(error: Error, runs: impl Iterator<Item = &'i RevertedRun<'r>>) -> Error {
    let lines = runs.map(|RevertedRun { run, .. }| {
        let id = run.id();
        format!("{id} stays reverted: `decree apply {id}` applies it again")
    });
    lines.fold(error, |error, line| {
        error.without_detail("nothing was touched").into_kind(ErrorKind::Integrity).detail(line)
    })
}

/// Applies the runs again that were reverted before one that could not be, also if a signal is the reason.
fn apply_again(
    workspace: &Workspace,
    reverted: &[RevertedRun<'_>],
    mut error: Error,
    log: &RunLog<'_>,
) -> Error {
    let _shield = interrupt::shield();
    let mut is_unchanged = true;
    let mut runs = done(reverted);
    while let Some(RevertedRun { run, how, .. }) = runs.next() {
        // The failed revert touched nothing, but the ones before it did.
        error = error.without_detail("nothing was touched");
        if let Err(worse) = run.apply(workspace, log) {
            // The later ones build on it.
            let failed = reverted.iter().filter(|it| it.run.id() == run.id());
            let error = error.detail(format!("and {} could not be applied again: {worse}", run.id()));
            return name_reverted(error, failed.chain(runs));
        }
        error = error.detail(format!("{} was reverted and is applied again", run.id()));
        if let RunRevert::Done(done) = how {
            is_unchanged &= done.set_aside.is_empty();
            // No diff has it.
            let moved =
                done.set_aside.iter().map(|(path, to)| format!("{path} is not: it is in {}", to.display()));
            error = error.details(moved.collect(), 20);
        }
    }
    if is_unchanged { interrupt::name_unchanged(error) } else { error }
}

/// Notes what kept runs did to git's own state, before their files are reverted: it is taken back after that, by the next command if this one is
/// killed. For a run that was reverted before it is done if that failed then.
fn note_git(layout: &Layout, workspace: &Workspace, runs: &[CheckpointDir]) -> Result<()> {
    let mut reverts = Vec::new();
    for run in runs.iter().rev() {
        let Some(result) = RunResult::read(run)? else { continue };
        let is_open = |change: &&GitChange| change.attempt.is_none() && !change.restored;
        let last = result.run.git.last().filter(|_| result.run.kept).filter(is_open);
        let Some(left) = last else { continue };
        let manifest =
            run.manifest(workspace.store()).map_err(|error| hint_at_records(error, run, workspace))?;
        let Some(before) = manifest.git else { continue };
        let restore = GitRestore {
            workspace,
            keep_as: run.id().to_owned(),
            reason: format!("decree: run {} is reverted", run.id()),
            dir: run.dir(),
        };
        reverts.push(PendingGitRestore::of_revert(layout, &restore, before, left.clone()));
    }
    PendingGitRestore::note_reverts(layout, reverts)
}

/// A recorded change that is in the tree again.
#[derive(Debug)]
pub struct AppliedChange {
    pub outcome: RestoreOutcome,
    /// The spec that was added to the tracker.
    pub tracked: Option<String>,
    /// Whether the change was in this tree earlier.
    pub is_again: bool,
    /// The runs that came back with what was there before a revert to a checkpoint.
    pub moved: Vec<MovedRun>,
}

/// Whether there is a change to apply, and no later run's work in its place.
pub fn check_applicable(layout: &Layout, dir: &CheckpointDir) -> Result<()> {
    let result = RunResult::read(dir)?;
    let changes = result.as_ref().and_then(|result| result.changes.as_ref());
    if let (Some(result), Some(changes)) = (&result, changes) {
        refuse_later_work(layout, dir, result, changes, RestoreAction::Apply, &[])?;
    }
    if dir.has_change_record() {
        return Ok(());
    }
    refuse_lost_records(layout, dir)?;
    let id = dir.id();
    if changes.is_some_and(|changes| !changes.is_empty()) {
        let path = dir.diff_path();
        return Err(Error::integrity(format!("cannot apply {id}: {} is missing", path.display()))
            .detail("nothing was touched")
            .hint("restore the run's directory from a backup or an artifact"));
    }
    Err(Error::project(format!("{id} has no recorded change to apply"))
        .hint(format!("`decree diff {id}` shows what is different now")))
}

/// Whether what a run left, which is there, may count as its own work: it is not another run's.
pub fn check_own_work(layout: &Layout, dir: &CheckpointDir) -> Result<()> {
    RunResult::read(dir)?.map_or(Ok(()), |result| refuse_same_work(layout, dir, &result))
}

/// Refuses a run that was carried out, as the letter in `inbox/done/` shows, and has no result any more.
pub fn refuse_lost_records(layout: &Layout, dir: &CheckpointDir) -> Result<()> {
    let Some(id) = MessageId::parse(dir.id()).filter(|_| !dir.result_path().exists()) else { return Ok(()) };
    let Some(letter) = Inbox::of(layout).done_letters(&id.chain)?.remove(&id) else { return Ok(()) };
    let letter = layout.shown(&letter);
    Err(Error::integrity(format!("the records of run {id} are missing"))
        .detail(format!("it was carried out: its message is in {letter}"))
        .detail(format!("but {} is not there", layout.shown(&dir.result_path())))
        .hint("restore the run's directory from a backup or an artifact"))
}

/// Whether all of several runs are in the tree: a later one may have changed what an earlier one left.
pub fn are_applied(workspace: &Workspace, runs: &[CheckpointDir]) -> Result<bool> {
    let mut patches = Vec::new();
    for run in runs {
        if RunResult::read(run)?.is_none_or(|result| result.run.reverted.is_some())
            || !run.has_change_record()
        {
            return Ok(false);
        }
        patches.push(run.patch()?);
    }
    workspace.is_after_all(&patches)
}

/// Applies the recorded change of a run, or of a revert to a checkpoint, and records that it is in the tree. With `force`, what is at its
/// paths is overwritten, a later run's work included; the caller has saved it.
pub fn apply(
    layout: &Layout,
    workspace: &Workspace,
    dir: &CheckpointDir,
    force: bool,
) -> Result<AppliedChange> {
    let log = RunLog::new(layout, workspace.store());
    let is_again = RunResult::read(dir).ok().flatten().is_none_or(|result| result.was_ever_in_tree());
    let outcome = if force {
        dir.apply_forced(workspace, &log)?
    } else {
        check_applicable(layout, dir)?;
        dir.apply(workspace, &log)?
    };
    let tracked = match &outcome {
        RestoreOutcome::Done(_) => log.take_spec(),
        // It may have come back by other means.
        RestoreOutcome::AlreadyThere => {
            if !force {
                check_own_work(layout, dir)?;
            }
            record_state(layout, dir, None)?
        }
    };
    Ok(AppliedChange { outcome, tracked, is_again, moved: log.take_moved_runs() })
}
