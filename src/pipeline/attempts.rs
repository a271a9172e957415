//! All attempts of a run: retry on top of what the last one left, once more on a reverted tree, then give up.

use std::time::{Duration, Instant};

use super::attempt::{self, AttemptInputs, Execution};
use super::context::{ActiveBatch, PipelineContext};
use super::events::{AttemptNumber, Event};
use super::failure_context::{self, FailedAttempt};
use super::git_state::{check_clean_slate, restore_git};
use super::result::{AttemptRecord, RunRecord};
use super::revert_tree::{restore_settings, revert_tree, withdraw_follow_ups};
use super::uncaptured;
use super::verdict::{Ending, Verdict};
use crate::checkpoint::change_record::{ChangeRecord, PathChange};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::TRACKER;
use crate::checkpoint::quote;
use crate::error::Result;
use crate::fs::atomic;
use crate::history::RunDir;
use crate::history::own_files::{OwnFiles, RepairReport, SettingsSnapshot};
use crate::history::uncaptured::NotRestored;
use crate::humanize::count;
use crate::interrupt;
use crate::message::display_name;

/// How many of decree's own files a warning names.
const MAX_NAMED: usize = 5;

/// The attempts of a run, at least one, and how they ended.
pub(super) struct Attempts {
    pub records: Vec<AttemptRecord>,
    /// What the last attempt left changed.
    pub changes: ChangeRecord,
    /// Why no more were made although more were allowed.
    pub stopped: Option<(Verdict, String)>,
}

/// Makes attempts until one succeeds, none is left, or something stops them.
pub(super) fn run_attempts(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    settings: &SettingsSnapshot<'_>,
    record: &mut RunRecord,
) -> Result<Attempts> {
    let max_retries = batch.context.overrides.max_retries.unwrap_or(batch.context.config.max_retries);
    let mut current = AttemptNumber { number: 1, of: max_retries.saturating_add(1), clean_slate: false };
    let (mut records, mut tails) = (Vec::new(), Vec::new());
    loop {
        let mut executed = execute(batch, inputs, current, record)?;
        tails.push(executed.tail.clone());
        let judged = attempt::judge(batch, inputs, &executed, current);
        let is_kept = judged.as_ref().is_ok_and(|(attempt, _)| attempt.ending == Ending::Succeeded);
        let settled = settle_queue(batch, inputs, &mut executed.own, is_kept, record);
        batch.own_files = Some(executed.own.into_lasting());
        let (attempt, changes) = judged?;
        settled?;
        batch.event(&Event::AttemptEnds { record: &attempt, of: current.of });
        let ending = attempt.ending.clone();
        records.push(attempt);
        let interrupted = |signal: u8| Some((Verdict::Interrupted, format!("signal {signal}")));
        let stop = |records, stopped| Ok(Attempts { records, changes, stopped });
        if matches!(ending, Ending::Succeeded | Ending::Interrupted) {
            return stop(records, None);
        }
        if let Some(signal) = interrupt::requested() {
            return stop(records, interrupted(signal));
        }
        if current.number == current.of || ending.is_final() {
            return stop(records, None);
        }
        if let Some(why) = batch.meter.used_up() {
            return stop(records, Some((Verdict::Budget, why)));
        }
        let number = current.number + 1;
        // What a failed attempt left may be almost right, so only the last one starts on the reverted tree.
        current = AttemptNumber { number, clean_slate: number == current.of, ..current };
        if current.clean_slate {
            revert_for_clean_slate(batch, inputs, &records, &tails, record)?;
            restore_settings(batch, settings, &inputs.run.dir, record)?;
        }
        if let Some(signal) = wait(batch, current.number) {
            return stop(records, interrupted(signal));
        }
    }
}

/// Executes one attempt, then repairs what the routine did to decree's own files.
fn execute(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    attempt: AttemptNumber,
    record: &mut RunRecord,
) -> Result<Execution> {
    batch.meter.attempts += 1;
    batch.event(&Event::AttemptBegins(attempt));
    if let Err(error) = inputs.run.begin_attempt(batch.context.layout, attempt, inputs.job.timeout) {
        // Only `decree status` reads it.
        batch.warn(&format!("running.json does not have attempt {}: {error}", attempt.number));
    }
    let executed = attempt::execute(batch, inputs, attempt)?;
    batch.context.lock.renew()?;
    if let Err(error) = batch.context.workspace.store().repair() {
        // The content that this run needs is held open.
        batch.warn(&format!(
            "the routine removed files of the store, and they could not be written again: {error}"
        ));
    }
    for repair in &executed.repairs {
        if repair.lost_runs > 0 {
            let why =
                format!("the routine deleted the records of {}", count(repair.lost_runs, "earlier run"));
            let layout = batch.context.layout;
            record.lost_before.push(NotRestored { path: layout.shown(&layout.runs()), why });
        }
        for text in describe_repair(&batch.context, inputs, repair)? {
            batch.warn_in(record, text);
        }
    }
    Ok(executed)
}

/// Restores the messages that a failed attempt edited; reports those that a successful one edited.
fn settle_queue(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    own: &mut OwnFiles,
    is_kept: bool,
    record: &mut RunRecord,
) -> Result<()> {
    let report = if is_kept { own.edited_queue() } else { own.repair_queue()? };
    for text in describe_repair(&batch.context, inputs, &report)? {
        batch.warn_in(record, text);
    }
    Ok(())
}

/// What to warn of after decree's own files were repaired. An overwritten manifest is written again from memory.
fn describe_repair(
    context: &PipelineContext<'_>,
    inputs: AttemptInputs<'_>,
    repair: &RepairReport,
) -> Result<Vec<String>> {
    let checkpoint = inputs.run.dir.checkpoint();
    let mut warnings = Vec::from_iter(repair.project_text("the routine"));
    if !repair.restored.is_empty() {
        let files = count(repair.restored.len(), "file");
        let named = repair.restored.iter().take(MAX_NAMED).map(|path| context.layout.shown(path));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if repair.restored.len() > MAX_NAMED { ", …" } else { "" };
        warnings.push(format!(
            "the routine removed or replaced {files} of decree's own; restored: {named}{more}"
        ));
    }
    if let Some(files) = repair.overwritten_text(context.layout) {
        warnings
            .push(format!("the routine, or another program, changed {files} during the attempt; restored"));
    }
    if repair.set_aside > 0 {
        let set_aside = context.layout.shown(&checkpoint.quarantine_dir());
        warnings.push(format!("what the routine put in place of decree's own files is in {set_aside}"));
    }
    if repair.lost_runs > 0 {
        let runs = count(repair.lost_runs, "earlier run");
        warnings.push(format!("the routine deleted the directories of {runs}; they are lost"));
    }
    if repair.stripped_runs > 0 {
        let runs = count(repair.stripped_runs, "earlier run");
        warnings.push(format!(
            "the routine deleted the directories of {runs}; their messages, diffs and results are restored, their logs are lost"
        ));
    }
    if repair.tracker {
        warnings.push(format!("the routine changed {TRACKER}; it was restored"));
    }
    for path in &repair.spoiled {
        if *path == checkpoint.manifest_path() {
            context.workspace.write_manifest(inputs.manifest, path)?;
        } else {
            let path = context.layout.shown(path);
            warnings.push(format!("the routine overwrote {path}; its old content is lost"));
        }
    }
    for path in &repair.edited {
        let path = context.layout.shown(path);
        warnings.push(format!("the routine changed {path}, which is in no diff"));
    }
    Ok(warnings)
}

/// Reverts the tree and writes what the attempts showed to `failure-context.md`, for the last attempt.
fn revert_for_clean_slate(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    records: &[AttemptRecord],
    tails: &[Vec<String>],
    run_record: &mut RunRecord,
) -> Result<()> {
    let _shield = interrupt::shield();
    let (run, last, layout) = (&inputs.run.dir, records.len() as u32, batch.context.layout);
    let reverted = revert_tree(batch, run, Some(last), inputs.manifest)?;
    run_record.lost_before.extend(reverted.not_restored);
    uncaptured::reserve_room(batch);
    restore_git(batch, run, Some(last), inputs.manifest, run_record);
    check_clean_slate(run, run_record)?;
    withdraw_follow_ups(&batch.context, inputs.run, Some(last))?;
    let mut failed = Vec::new();
    for (record, tail) in records.iter().zip(tails) {
        let changes = run.attempt(record.number).result()?;
        let dir = run.attempt_shown(record.number);
        let log = run.log(Some(record.number));
        failed.push(FailedAttempt {
            record,
            tail: tail.clone(),
            changed: changes.map_or_else(Vec::new, |changes| changed_paths(&changes)),
            diff: format!("{dir}/{}", CheckpointDir::DIFF),
            log: log.map_or_else(|| format!("{dir}/{}", RunDir::ROUTINE_LOG), |log| layout.shown(&log)),
        });
    }
    let name = display_name(&inputs.run.file(), &run.read_message().body);
    atomic::write(&run.failure_context(), failure_context::render(&name, &failed).as_bytes())
}

/// Every changed path with its line counts: `src/a.rs +4 −1`.
fn changed_paths(changes: &ChangeRecord) -> Vec<String> {
    let describe = |(path, change): (&String, &PathChange)| {
        // The name may contain anything, and the text becomes part of a prompt.
        let path = quote::json_for_people(path);
        if change.binary {
            format!("{path} (binary)")
        } else {
            format!("{path} +{} −{}", change.added, change.removed)
        }
    };
    changes.changes.iter().map(describe).collect()
}

/// Waits before an attempt; returns the signal that ended the wait, if one did.
fn wait(batch: &mut ActiveBatch<'_>, number: u32) -> Option<u8> {
    let jitter =
        u8::from_str_radix(&crate::fs::random_hex()[..2], 16).map_or(0.0, |byte| f64::from(byte) / 255.0);
    let delay = delay(batch.context.config.retry_delay, number, jitter);
    if delay.is_zero() {
        return interrupt::requested();
    }
    batch.event(&Event::Waiting(delay));
    let until = Instant::now() + delay;
    while interrupt::requested().is_none() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    interrupt::requested()
}

/// How long to wait before attempt `number`: doubled each time. `jitter` (0 to 1) takes up to a quarter off, so that jobs
/// that failed together do not retry together.
fn delay(base: Duration, number: u32, jitter: f64) -> Duration {
    if base.is_zero() || number < 2 {
        return Duration::ZERO;
    }
    let doubled = base.saturating_mul(1_u32.checked_shl(number - 2).unwrap_or(u32::MAX));
    let most = Duration::from_secs(60 * 60);
    doubled.min(most).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_has_an_end() {
        let base = Duration::from_secs(2);
        assert_eq!(delay(base, 1, 0.0), Duration::ZERO);
        assert_eq!(delay(base, 2, 0.0), base);
        assert_eq!(delay(base, 4, 0.0), base * 4);
        assert_eq!(delay(base, 2, 1.0), Duration::from_millis(1500));
        assert_eq!(delay(base, 60, 0.0), Duration::from_secs(3600));
        assert_eq!(delay(Duration::ZERO, 9, 0.0), Duration::ZERO);
    }
}
