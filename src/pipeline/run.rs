//! One run of a message: checkpoint, attempts, verdict.

use std::time::Instant;

use super::active_run::ActiveRun;
use super::attempt::AttemptInputs;
use super::attempts::{Attempts, run_attempts};
use super::context::ActiveBatch;
use super::events::Event;
use super::git_state::record_git;
use super::prepare::Prepared;
use super::result::{RunRecord, RunResult, interruptions_in_a_row};
use super::revert_tree::restore_settings;
use super::settle::settle;
use super::summary::MessageSummary;
use super::tree_periods::exact_now;
use super::verdict::{Ending, Verdict};
use super::{hooks, recovery, uncaptured};
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::coverage::WayBack;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::atomic;
use crate::history::RunDir;
use crate::history::own_files::SettingsSnapshot;
use crate::interrupt;

/// A message that was interrupted this often in a row is not run again.
const MAX_INTERRUPTIONS: usize = 5;

/// Runs a message and settles it: afterwards its change is kept, or the tree is what it was before.
pub(super) fn run(batch: &mut ActiveBatch<'_>, job: &Prepared) -> Result<MessageSummary> {
    let (message, name) = (&job.message, job.message.name());
    batch.queue.refresh()?;
    batch.queue.update_second_names();
    let waiting = batch.queue.write_list();
    let active = ActiveRun::new(batch.context.layout, &message.id, &message.file, waiting);
    active.dir.begin()?;
    // Of an earlier run. What a routine put there instead is moved away after the next attempt.
    let _ = std::fs::remove_file(batch.context.layout.run_ended());
    active.write(batch.context.layout)?;
    atomic::write(&active.dir.message(), message.text.as_bytes())?;
    let shown = batch.redactor.redact(&name).into_owned();
    let routine = job.routine.name.as_str();
    batch.event(&Event::MessageBegins { id: &message.id, name: &shown, routine });
    let spec = message.spec().map(str::to_owned);
    let mut run = RunRecord { name, routine: Some(routine.to_owned()), spec, ..RunRecord::default() };
    for warning in &job.warnings {
        batch.warn_in(&mut run, warning.clone());
    }
    let mut result = RunResult::undecided(run, super::now_text());
    result.exact_time = Some(exact_now());
    if let Some((verdict, why)) = refusal(batch, job, &active.dir)? {
        (result.verdict, result.run.reason) = (verdict, why);
        return settle(batch, &active, None, result);
    }
    attempt_and_settle(batch, job, &active, result)
}

/// Why the message is given up before its first attempt, if it is.
fn refusal(batch: &mut ActiveBatch<'_>, job: &Prepared, run: &RunDir) -> Result<Option<(Verdict, String)>> {
    let interruptions = interruptions_in_a_row(run)?;
    if let Some(latest) = interruptions.first().filter(|_| interruptions.len() >= MAX_INTERRUPTIONS) {
        let times = interruptions.len();
        let why = format!("it was interrupted {times} times in a row; the last time: {latest}");
        return Ok(Some((Verdict::Interrupted, why)));
    }
    let Err(why) = hooks::before_each(batch, job) else {
        return Ok(None);
    };
    if interrupt::requested().is_some() {
        ActiveRun::clear(batch.context.layout)?;
        interrupt::check()?;
    }
    Ok(Some((Verdict::Skipped, why)))
}

fn attempt_and_settle(
    batch: &mut ActiveBatch<'_>,
    job: &Prepared,
    run: &ActiveRun,
    mut result: RunResult,
) -> Result<MessageSummary> {
    let began = Instant::now();
    let prepared = create_checkpoint(batch, &run.dir, &mut result.run)
        .and_then(|manifest| uncaptured::hold(batch, run, &manifest, &mut result.run).map(|()| manifest));
    let manifest = match prepared {
        Ok(manifest) => manifest,
        Err(error) => {
            // The tree is untouched: the message waits.
            ActiveRun::clear(batch.context.layout)?;
            return Err(error);
        }
    };
    interrupt::set_last_words(Some(format!(
        "the tree is NOT reverted: the next `decree process` saves it as a checkpoint, reverts it, and starts run {} again",
        run.dir.id()
    )));
    let settings = SettingsSnapshot::read(batch.context.layout)?;
    let inputs = AttemptInputs { job, run, manifest: &manifest };
    let attempts = match run_attempts(batch, inputs, &settings, &mut result.run) {
        Ok(attempts) => attempts,
        Err(error) => {
            uncaptured::move_back(batch, &run.dir);
            return Err(recovery::revert_after_error(batch, run, &manifest, error));
        }
    };
    let number = attempts.records.len() as u32;
    decide(&mut result, attempts);
    result.run.duration_ms = began.elapsed().as_millis() as u64;
    let _shield = interrupt::shield();
    if result.run.kept {
        uncaptured::report_kept(batch, &mut result.run);
        report_outside_diff(batch, &settings, &mut result)?;
        record_git(batch, &manifest, &mut result.run);
        run.dir.publish(number, &RunDir::PUBLISHED)?;
        return settle(batch, run, Some(&manifest), result);
    }
    let settled = restore_settings(batch, &settings, &run.dir, &mut result.run)
        .and_then(|()| run.dir.publish(number, &RunDir::PUBLISHED))
        .and_then(|()| settle(batch, run, Some(&manifest), result));
    settled.map_err(|error| {
        let secrets = uncaptured::restore_first(batch, &run.dir, &manifest);
        not_settled(run, error.details(secrets, 20))
    })
}

/// A failed run whose end could not be settled. Unless its record says that it is reverted, the tree may have its changes.
fn not_settled(run: &ActiveRun, error: Error) -> Error {
    let id = run.dir.id();
    let result = RunResult::read(&run.dir.checkpoint()).ok().flatten();
    if result.is_some_and(|result| result.run.reverted.is_some()) {
        return error.detail(format!("the tree is reverted; the next `decree process` completes run {id}"));
    }
    error
        .into_kind(ErrorKind::Integrity)
        .detail(format!("run {id} failed, and the tree is not reverted, or not verified"))
        .hint("remove the cause, then run the same command again: it continues from here")
}

/// Writes the content, then the manifest: from then on the tree can be reverted.
fn create_checkpoint(batch: &mut ActiveBatch<'_>, run: &RunDir, record: &mut RunRecord) -> Result<Manifest> {
    let began = Instant::now();
    let manifest = batch.context.workspace.capture(batch.progress())?;
    batch.context.workspace.write_manifest(&manifest, &run.checkpoint().manifest_path())?;
    batch.context.workspace.store().hold()?;
    let (files, _) = manifest.tree.count();
    batch.event(&Event::Checkpointed { files: files as u64, took: began.elapsed() });
    for text in manifest.coverage.warnings(WayBack::Automatic) {
        batch.warn_in(record, text);
    }
    Ok(manifest)
}

/// Derives the verdict from the attempts.
fn decide(result: &mut RunResult, attempts: Attempts) {
    let Attempts { records, changes, stopped } = attempts;
    let last = records.last().expect("a run has at least one attempt");
    let succeeded = last.ending == Ending::Succeeded;
    for usage in records.iter().filter_map(|record| record.usage.as_ref()) {
        result.run.usage.add(usage);
    }
    result.run.kept = stopped.is_none() && succeeded;
    (result.verdict, result.run.reason) = match stopped {
        Some(stopped) => stopped,
        None if succeeded && changes.is_empty() => (Verdict::NoChange, String::new()),
        None if succeeded => (Verdict::Success, String::new()),
        None => (last.ending.verdict(), last.reason.clone()),
    };
    result.run.attempts = records;
    result.changes = Some(changes);
}

/// Warns of files that a kept run made and that no diff shows.
fn report_outside_diff(
    batch: &mut ActiveBatch<'_>,
    settings: &SettingsSnapshot<'_>,
    result: &mut RunResult,
) -> Result<()> {
    let record = &mut result.run;
    let reported = uncaptured::reported(record);
    for path in settings.added()? {
        let path = batch.context.layout.shown(&path);
        batch.warn_in(record, format!("the routine created {path}; it is in no diff and is kept"));
    }
    for path in settings.edited() {
        let path = batch.context.layout.shown(&path);
        batch.warn_in(record, format!("{path} is kept as the routine changed it"));
    }
    for path in result.changes.iter().flat_map(|changes| &changes.live_databases) {
        let text = format!(
            "{path} is an SQLite database that another program has open: what changed in it is in no diff"
        );
        batch.warn_in(record, text);
    }
    for path in result.changes.iter().flat_map(|changes: &ChangeRecord| &changes.out_of_scope) {
        if reported.contains(path) {
            continue;
        }
        batch.warn_in(
            record,
            format!("the routine created {path}, which is ignored or left out: it is in no diff and is kept"),
        );
    }
    Ok(())
}
