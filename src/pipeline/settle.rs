//! The end of a run: result, tree, queue and tracker, and only then is it no longer active. A process that is killed on the way
//! leaves a run that is settled again from the start, so every step can be repeated.

use std::fs;

use super::active_run::ActiveRun;
use super::context::{ActiveBatch, PipelineContext};
use super::git_state::restore_git;
use super::result::RunResult;
use super::revert_tree::{revert_tree, withdraw_follow_ups};
use super::summary::MessageSummary;
use super::tree_periods::TreePeriod;
use super::verdict::Verdict;
use super::{dead_letter, hooks, uncaptured};
use crate::checkpoint::manifest::Manifest;
use crate::error::{IoContext, Result};
use crate::fs::untrusted;
use crate::history;
use crate::humanize::count;
use crate::interrupt;
use crate::spec::Tracker;

/// Writes the verdict of a run and does what follows from it. `manifest` is the checkpoint to revert to; a run in which no attempt
/// began has none.
pub(super) fn settle(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    manifest: Option<&Manifest>,
    mut result: RunResult,
) -> Result<MessageSummary> {
    let (run, checkpoint) = (&active.dir, active.dir.checkpoint());
    active.mark_text().clone_into(&mut result.mark);
    result.store = history::external_store(batch.context.layout);
    if result.run.kept {
        if result.in_tree.is_empty() {
            result.in_tree.push(TreePeriod::begin());
        }
        // A change that the result calls kept has to survive a power failure.
        batch.context.workspace.root().sync().at("sync", batch.context.layout.root())?;
    }
    result.write(&checkpoint)?;
    if let Some(manifest) = manifest
        && !result.run.kept
        && result.run.reverted.is_none()
    {
        let mut reverted = revert_tree(batch, run, None, manifest)?;
        for lost in std::mem::take(&mut result.run.lost_before) {
            if reverted.not_restored.iter().all(|known| known.path != lost.path) {
                reverted.not_restored.push(lost);
            }
        }
        result.run.warnings.extend(reverted.notes.iter().cloned());
        result.run.reverted = Some(reverted);
        uncaptured::report_reverted(batch, &mut result.run);
        restore_git(batch, run, None, manifest, &mut result.run);
        result.write(&checkpoint)?;
    }
    let state = if result.run.kept { "kept" } else { "reverted" };
    let id = run.id();
    interrupt::set_last_words(Some(format!(
        "the change is {state}; the next `decree process` completes run {id}"
    )));
    if !result.run.kept {
        withdraw_follow_ups(&batch.context, active, run.last_attempt())?;
    }
    if waits(&result, manifest) {
        requeue_if_gone(batch, active)?;
    } else {
        settle_message(&batch.context, active, &result)?;
    }
    ActiveRun::clear(batch.context.layout)?;
    interrupt::set_last_words(None);
    hooks::after_each(batch, active, &result);
    Ok(MessageSummary::of_run(run, &result))
}

/// Whether an interrupted message waits for the next command. If no attempt began, it was given up and becomes a dead letter.
pub(super) fn waits(result: &RunResult, manifest: Option<&Manifest>) -> bool {
    let was_attempted = manifest.is_some() || !result.run.attempts.is_empty();
    result.verdict == Verdict::Interrupted && was_attempted
}

/// Writes a message that waits to the inbox again if it is not there: a routine may have deleted it before decree was killed, and the
/// run's directory has it, too.
pub(super) fn requeue_if_gone(batch: &mut ActiveBatch<'_>, active: &ActiveRun) -> Result<()> {
    let (file, copy) = (active.file(), active.dir.message());
    let waiting = batch.context.inbox.path(&file);
    if waiting.symlink_metadata().is_ok() {
        return Ok(());
    }
    let Some(text) = untrusted::read(&copy).if_exists().at("read", &copy)? else { return Ok(()) };
    batch.context.inbox.add(&file, &String::from_utf8_lossy(&text))?;
    let waiting = batch.context.layout.shown(&waiting);
    batch.warn(&format!("{waiting} was gone; it is restored from {}", batch.context.layout.shown(&copy)));
    Ok(())
}

/// `done/` before the tracker: a spec in the tracker is always one that was processed.
fn settle_message(context: &PipelineContext<'_>, active: &ActiveRun, result: &RunResult) -> Result<()> {
    let (file, record) = (active.file(), &result.run);
    let path = active.dir.message();
    let text = fs::read(&path).at("read", &path)?;
    if !record.kept {
        let error = match record.attempts.len() {
            0 => record.reason.clone(),
            n => format!("{} ({})", record.reason, count(n, "attempt")),
        };
        let letter = dead_letter::render(&text, &error, result.verdict);
        return context.inbox.dead_letter(&file, &text, &letter);
    }
    context.inbox.finish(&file, &text)?;
    if let Some(name) = record.tracked_name(context.layout) {
        Tracker::append(&context.layout.tracker(), &name)?;
    }
    Ok(())
}
