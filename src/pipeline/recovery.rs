//! A run that was cut short: by `kill -9`, by a power failure, or by an error inside decree.
//!
//! Everything follows from `running.json` and the run's directory. No manifest: nothing had happened. A result: the run was
//! decided, and is settled as decided. A manifest and no result: an attempt was active; the whole tree is saved as a checkpoint
//! (the user may have edited it since), the difference becomes that attempt's diff, and the tree is reverted.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use super::active_run::ActiveRun;
use super::context::ActiveBatch;
use super::result::{RevertRecord, RunRecord, RunResult};
use super::revert_tree::{check_restorable, save_present};
use super::settle::{requeue_if_gone, settle, waits};
use super::summary::MessageSummary;
use super::uncaptured;
use super::verdict::Verdict;
use crate::checkpoint::compare::Changes;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::quote::for_people;
use crate::checkpoint::tree::Tree;
use crate::error::{Error, ErrorKind, FailureReason, IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::history::{GitChange, RunDir};
use crate::humanize::count;
use crate::interrupt;
use crate::message::{GoneMessage, SecondNames, display_name, is_spec};
use crate::process::log;

/// How many messages a warning names.
const MAX_NAMED: usize = 10;
/// How many likely secrets an error names.
const MAX_DETAILS: usize = 20;

/// Settles the run that an earlier process left unfinished, if there is one.
pub(super) fn recover(batch: &mut ActiveBatch<'_>) -> Result<()> {
    let Some(run) = ActiveRun::read(batch.context.layout)? else {
        return Ok(());
    };
    run.refuse_other_store(batch.context.layout)?;
    end_processes(batch, &run);
    let lost = restore_gone_messages(batch, &run)?;
    let settled = settle_killed(batch, &run);
    // The run is settled, and the next command works. But nothing runs before the user knows that messages are lost.
    match (settled, lost) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(lost)) => Err(lost),
        (Err(error), None) => Err(error),
        (Err(error), Some(lost)) => {
            Err(error.detail(lost.to_string()).details(lost.detail_lines().to_vec(), MAX_NAMED + 1))
        }
    }
}

fn settle_killed(batch: &mut ActiveBatch<'_>, run: &ActiveRun) -> Result<()> {
    let id = run.dir.id();
    let _shield = interrupt::shield();
    let checkpoint = run.dir.checkpoint();
    let has_manifest = run.has_manifest()?;
    if let Some(result) = run.read_own_result()? {
        batch.note(&format!("run {id} was interrupted after its verdict; it is completed now"));
        let manifest =
            has_manifest.then(|| checkpoint.manifest(batch.context.workspace.store())).transpose()?;
        let waits = waits(&result, manifest.as_ref());
        let summary = settle(batch, run, manifest.as_ref(), result)?;
        let not_restored = uncaptured::not_restored(std::slice::from_ref(&summary));
        // A message that waits is recorded when it is decided.
        if !waits {
            batch.record(summary);
        }
        return not_restored.map_or(Ok(()), Err);
    }
    if !has_manifest && run.attempt().is_some() {
        return Err(Error::integrity(format!("the manifest of run {id} is gone, so the run cannot be reverted"))
            .detail("an attempt had begun: the tree may have its changes")
            .hint("`decree checkpoint list` shows what you can roll back to; `decree recover` closes the run, so that decree works again"));
    }
    if !has_manifest {
        requeue_if_gone(batch, run)?;
        batch.note(&format!("run {id} was interrupted before it began; its message waits in the inbox"));
        return ActiveRun::clear(batch.context.layout);
    }
    let manifest = checkpoint.manifest(batch.context.workspace.store())?;
    quarantine_routine_result(&run.dir)?;
    let reverted = revert_unfinished(batch, run, &manifest, "the decree that worked on it has ended");
    let summary = reverted.map_err(|error| not_reverted(&run.dir, error))?;
    // The run is settled, and the next command works. But nothing runs before the user knows that a repository or a secret is gone.
    let lost = uncaptured::not_restored(std::slice::from_ref(&summary));
    lost.or_else(|| lost_git(&summary)).map_or(Ok(()), Err)
}

/// The error about git directories that are gone, so that nothing could be restored in them.
fn lost_git(summary: &MessageSummary) -> Option<Error> {
    let lost = summary.run.git.iter().filter(|change| !change.restored && change.is_unrestored());
    let lines: Vec<String> = lost.flat_map(GitChange::unrestored_lines).collect();
    (!lines.is_empty()).then(|| {
        Error::integrity("git's own state is not restored after a run that was cut off")
            .details(lines, MAX_DETAILS)
            .hint("restore it from a backup or from where it came from; every file of the checkpoint is as it was")
    })
}

/// Restores the messages that waited when the run began and that it deleted. Returns the error about those of which nothing is left.
fn restore_gone_messages(batch: &mut ActiveBatch<'_>, run: &ActiveRun) -> Result<Option<Error>> {
    let layout = batch.context.layout;
    if run.lacks_list(layout) {
        let list = layout.shown(&layout.waiting_list());
        batch.warn(&format!(
            "{list} is not as run {} left it: messages that are gone and have no second name cannot be named",
            run.dir.id()
        ));
    }
    let waiting: HashSet<OsString> = batch.context.inbox.files()?.into_iter().collect();
    let is_gone = |file: &OsString| *file != run.file() && !waiting.contains(file);
    let (second_names, end) = (SecondNames::of(layout), ActiveRun::ended_at(layout));
    let set_aside = run.dir.checkpoint().quarantine_dir();
    let (mut restored, mut cancelled, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: Vec<OsString> = run.inbox(layout).into_iter().collect();
    known.sort();
    for file in known.into_iter().filter(is_gone) {
        let name = for_people(file.as_bytes()).into_owned();
        match second_names.restore(&file, end, &set_aside)? {
            GoneMessage::Restored => restored.push(name),
            GoneMessage::Cancelled(to) => cancelled.push(layout.shown(&to)),
            GoneMessage::Lost => lost.push(name),
        }
    }
    restore_gone_letters(batch, run, end)?;
    let id = run.dir.id();
    if !restored.is_empty() {
        let what = format!("messages that waited when run {id} began, and were gone when decree was killed");
        batch.warn(&format!("{what}, are in the inbox again: {}", named(&restored)));
    }
    if !cancelled.is_empty() {
        let what = "messages that were deleted from the inbox after the run had ended are not run";
        batch.warn(&format!("{what}; a copy of each is kept: {}", named(&cancelled)));
    }
    Ok((!lost.is_empty()).then(|| {
        let messages = count(lost.len(), "message");
        Error::integrity(format!("{messages} that waited when run {id} began, before decree was killed, cannot be restored"))
            .details(lost, MAX_NAMED)
            .hint("write them again, or restore them from a backup; the run is settled, and the next `decree process` goes on")
    }))
}

/// Restores the letters in `dead/` and `done/` that the run deleted. Those of which nothing is left are named when the run is settled.
fn restore_gone_letters(batch: &mut ActiveBatch<'_>, run: &ActiveRun, end: Option<SystemTime>) -> Result<()> {
    let layout = batch.context.layout;
    let (mut restored, mut cancelled) = (Vec::new(), Vec::new());
    for (name, became) in SecondNames::restore_letters(layout, end, &run.dir.checkpoint().quarantine_dir())? {
        match became {
            GoneMessage::Restored => restored.push(name),
            GoneMessage::Cancelled(to) => cancelled.push(layout.shown(&to)),
            GoneMessage::Lost => {}
        }
    }
    if !restored.is_empty() {
        let what = "letters that were gone from the queue when decree was killed are there again";
        batch.warn(&format!("{what}: {}", named(&restored)));
    }
    if !cancelled.is_empty() {
        let what = "letters that were deleted after the run had ended stay so; a copy of each is kept";
        batch.warn(&format!("{what}: {}", named(&cancelled)));
    }
    Ok(())
}

fn named(list: &[String]) -> String {
    let shown = list[..list.len().min(MAX_NAMED)].join(", ");
    match list.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Ends the processes that a killed decree left running.
pub(super) fn end_processes(batch: &mut ActiveBatch<'_>, run: &ActiveRun) {
    let ended = run.end_processes();
    if ended > 0 {
        let id = run.dir.id();
        batch.warn(&format!("ended {} that run {id} had left running", count(ended, "process")));
    }
}

/// Moves a `result.json` that the routine wrote out of the way, or it would be read as the verdict later.
pub(super) fn quarantine_routine_result(run: &RunDir) -> Result<()> {
    let to = run.routine_result();
    move_to_free_name(&run.checkpoint().result_path(), |number| numbered(&to, ".", number)).map(drop)
}

/// Saves the whole tree as a checkpoint, then reverts it and settles the run as interrupted.
fn revert_unfinished(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    manifest: &Manifest,
    reason: &str,
) -> Result<MessageSummary> {
    let run = &active.dir;
    let number = run.last_attempt().unwrap_or(1);
    uncaptured::move_left_entries(batch, run);
    let changed = {
        let changes = batch.context.workspace.compare(manifest, batch.progress())?;
        !changes.list.is_empty() || !changes.out_of_scope.is_empty()
    };
    let mut saved = None;
    if changed {
        check_restorable(batch, manifest).map_err(|error| unrestorable(run, error))?;
        let reason = format!("when run {} was interrupted", run.id());
        saved = Some(save_present(batch, &reason, manifest)?);
    }
    let tree = saved.as_ref().map(|(_, tree)| tree);
    let undecided = undecided(active, reason.to_owned());
    let settled = record_and_settle(batch, active, manifest, (number, tree), undecided);
    let Some((saved, _)) = saved else { return settled };
    let summary =
        settled.map_err(|error| error.detail(format!("the tree as it was found is saved as {saved}")))?;
    let reverted = summary.run.reverted.as_ref();
    let except = reverted.map_or_else(String::new, RevertRecord::exceptions);
    let is_whole = reverted.is_none_or(|reverted| reverted.set_aside.is_empty());
    let but = if is_whole { "" } else { ", except for what was set aside" };
    batch.warn(&format!(
        "run {} was interrupted; the tree is reverted{except}, and its state before that is saved: `decree revert {saved}` restores it{but}",
        run.id(),
    ));
    Ok(summary)
}

/// A failure that keeps the tree from being reverted, a full disk for example: whatever the command was, the tree is not what it has to be.
fn not_reverted(run: &RunDir, error: Error) -> Error {
    if error.kind() != ErrorKind::Failed && error.io_kind().is_none() {
        return error;
    }
    let next = "run the same command again: it continues from here";
    let hint = error.hint_text().map_or_else(|| format!("remove the cause, then {next}"), str::to_owned);
    error
        .into_kind(ErrorKind::Integrity)
        .detail(format!(
            "run {} was interrupted and is not reverted yet: the tree may have its changes",
            run.id()
        ))
        .hint(hint)
}

fn unrestorable(run: &RunDir, error: Error) -> Error {
    if !error.is(FailureReason::ContentLost) {
        return error;
    }
    Error::integrity(format!("run {} cannot be reverted: {error}", run.id()))
        .because(FailureReason::ContentLost)
        .details(error.detail_lines().to_vec(), 21)
        .detail("the tree is as the run left it")
        .hint(error.hint_text().unwrap_or_default())
}

/// Records what the attempt `number` changed, unless that is recorded, and settles the run as interrupted, which reverts the tree.
fn record_and_settle(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    manifest: &Manifest,
    (number, saved): (u32, Option<&Tree>),
    mut result: RunResult,
) -> Result<MessageSummary> {
    let run = &active.dir;
    let attempt = run.attempt(number);
    // If nothing differs, an existing record was written by a recovery that was cut off itself after it reverted the tree, or by the
    // routine; that one does not prove itself.
    let is_recorded = attempt.has_change_record() && attempt.result().is_ok();
    if saved.is_some() || !is_recorded {
        std::fs::create_dir_all(attempt.dir()).at("create", attempt.dir())?;
        let adjust = |changes: &mut Changes<'_>| {
            if let Some(saved) = saved {
                changes.quarantine_unsaved(&manifest.tree, saved);
            }
        };
        attempt.record_changes(batch.context.workspace, manifest, &adjust, batch.progress())?;
    }
    for name in RunDir::LOGS {
        // The tree is reverted whatever became of the log.
        if let Err(error) = log::recover(&attempt.dir().join(name)) {
            batch.warn(&format!("the log of attempt {number} is not complete: {error}"));
        }
    }
    run.publish(number, &RunDir::PUBLISHED)?;
    (result.changes, result.verdict) = (attempt.result()?, Verdict::Interrupted);
    settle(batch, active, Some(manifest), result)
}

/// The result of a run of which only the message is known.
pub(super) fn undecided(active: &ActiveRun, reason: String) -> RunResult {
    let document = active.dir.read_message();
    let name = display_name(&active.file(), &document.body);
    let spec = document.get_text("input_file").filter(|path| is_spec(path));
    let record =
        RunRecord { name, routine: document.get_text("routine"), spec, reason, ..RunRecord::default() };
    RunResult::undecided(record, active.started_at().to_owned())
}

/// Reverts the tree at once after an error inside decree in the middle of a run. Returns that error, with what came of it.
pub(super) fn revert_after_error(
    batch: &mut ActiveBatch<'_>,
    run: &ActiveRun,
    manifest: &Manifest,
    error: Error,
) -> Error {
    let _shield = interrupt::shield();
    let secrets = uncaptured::restore_first(batch, &run.dir, manifest);
    let reason = error.to_string();
    match revert_unfinished(batch, run, manifest, &reason) {
        Ok(summary) => {
            let except = summary.run.reverted.map_or_else(String::new, |record| record.exceptions());
            let error = error.details(secrets, MAX_DETAILS);
            error.detail(format!("the tree was reverted{except}; the message waits in the inbox"))
        }
        // Both name the same paths.
        Err(worse) if error.is(FailureReason::ContentLost) && worse.is(FailureReason::ContentLost) => {
            worse.details(secrets, MAX_DETAILS)
        }
        Err(worse) => error
            .details(secrets, MAX_DETAILS)
            .into_kind(ErrorKind::Integrity)
            .detail(format!("the tree could not be reverted: {worse}"))
            .details(worse.detail_lines().to_vec(), 21)
            .hint(
                worse
                    .hint_text()
                    .unwrap_or("remove the cause, then run the same command again: it continues from here"),
            ),
    }
}
