//! One attempt: execute the routine, verify, record what changed, and judge.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::active_run::ActiveRun;
use super::budget::Usage;
use super::context::{ActiveBatch, PipelineContext};
use super::events::{AttemptNumber, Event, Reporter};
use super::prepare::Prepared;
use super::result::AttemptRecord;
use super::verdict::Ending;
use super::{policy, uncaptured, verify_program};
use crate::checkpoint::change_record::ChangeRecord;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::root::Root;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::history::RunDir;
use crate::history::own_files::{OwnFiles, RepairReport};
use crate::humanize::count;
use crate::interrupt;
use crate::message::Document;
use crate::process::environment::is_reserved;
use crate::process::log::CappedLog;
use crate::process::marked::MARK_VARIABLE;
use crate::process::redact::Redactor;
use crate::process::{Exec, ExecEnd, ExecResult, STRICT_BASH};
use crate::project::OnNoChange;
use crate::routine::{Invocation, RoutineKind};
use crate::sanitize::one_line;
use crate::yaml::{ScalarKind, YamlValue};

/// What decree writes to the log before a verification, in front of its command.
const VERIFY_LINE: &str = "[decree] verify: ";
/// How many lines of a log the next attempt gets.
const TAIL_LINES: usize = 40;
/// How many bytes these lines have at most: a line can be as long as the whole log.
const TAIL_BYTES: usize = 16 * 1024;

/// What all attempts of a run share.
#[derive(Clone, Copy)]
pub(super) struct AttemptInputs<'r> {
    pub job: &'r Prepared,
    pub run: &'r ActiveRun,
    pub manifest: &'r Manifest,
}

/// How an execution ended, before its change was looked at.
pub(super) struct Execution {
    pub ending: Ending,
    pub duration: Duration,
    /// The last lines of the output.
    pub tail: Vec<String>,
    /// What the routine, and then the verification, had done to decree's own files.
    pub repairs: Vec<RepairReport>,
    /// decree's own files as they were: which messages are restored depends on how the attempt is judged.
    pub own: OwnFiles,
}

/// Executes the routine and the verification.
pub(super) fn execute(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    attempt: AttemptNumber,
) -> Result<Execution> {
    let AttemptInputs { job, run: active, .. } = inputs;
    let (run, layout) = (&active.dir, batch.context.layout);
    let dir = run.create_attempt(attempt.number)?;
    let mut own = run.hold_own_files(layout, attempt.number, &active.file(), batch.own_files.take())?;
    let began = Instant::now();
    let parameters = parameters(batch, job, run);
    let output = dir.join(RunDir::OUTPUT_NOTEBOOK);
    let typed = typed_parameters(job, &parameters);
    let invocation = Invocation::new(&job.routine, parameters, &typed, layout, &output)?;
    let mut environment = batch.context.environment.clone();
    environment.extend(variables(&batch.context, active, attempt));
    environment.extend(invocation.environment);
    let deadline = (!job.timeout.is_zero()).then(|| began + job.timeout);

    let log = match job.routine.kind {
        RoutineKind::Shell => RunDir::ROUTINE_LOG,
        RoutineKind::Notebook => RunDir::PAPERMILL_LOG,
    };
    let capped = CappedLog::create(dir.join(log), batch.context.config.log_limit)?;
    let root = batch.context.workspace.root();
    let mut tee = Tee::new(batch, Some(capped));
    run.publish(attempt.number, &[log])?;
    let exec = |program: &OsString, arguments: &[OsString]| {
        Exec::new(program)
            .args(arguments)
            .directory(layout.root())
            .environment(environment.clone())
            .end_note(layout.run_ended())
            .timeout(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    };
    let ended = exec(&invocation.program, &invocation.arguments).run(&mut |bytes: &[u8]| tee.take(bytes));
    // Before anything else is written, and even if the execution failed.
    let mut repairs = vec![repair(root, &mut own)?];
    let (mut ending, mut survivors) = match ended {
        Ok(ended) => (routine_ending(&ended, job.timeout), ended.survivors),
        Err(error) => (Ending::NotStarted { why: error.to_string() }, 0),
    };
    if ending == Ending::Succeeded && !job.verify.is_empty() {
        tee.take(format!("{VERIFY_LINE}{}\n", job.verify).as_bytes())?;
        tee.reporter.event(&Event::Verifying(&job.verify));
        let line = STRICT_BASH.into_iter().chain([&*job.verify]).map(OsString::from).collect::<Vec<_>>();
        let ended = exec(&"bash".into(), &line).run(&mut |bytes: &[u8]| tee.take(bytes));
        repairs.push(repair(root, &mut own)?);
        let ended = ended.inspect_err(|_| drop(own.repair_queue()))?;
        survivors += ended.survivors;
        ending = verify_ending(&ended, job);
        if let Ending::Verify { code: Some(127), not_installed, .. } = &mut ending {
            let arguments = |arguments: &[OsString]| exec(&"bash".into(), arguments);
            *not_installed = verify_program::missing_program(&job.verify, arguments);
        }
    }
    let (tail, log_error) = tee.finish();
    if survivors > 0 {
        let processes = count(survivors, "process");
        batch.warn(&format!("{processes} of the routine could not be ended and may go on changing files"));
    }
    if let Some(error) = log_error {
        batch.warn(&format!("the log of attempt {} is not complete: {error}", attempt.number));
    }
    Ok(Execution { ending, duration: began.elapsed(), tail, repairs, own })
}

/// Repairs decree's own files, with the directory of the project, which may be another one from then on.
fn repair(root: &Root, own: &mut OwnFiles) -> Result<RepairReport> {
    let repaired = own.repair();
    let followed = root.follow_path().at("open", root.path());
    let report = repaired?;
    followed.map(|()| report)
}

/// The parameters of a routine: what decree sets, and those of its own that the message sets, or else the spec.
fn parameters(batch: &mut ActiveBatch<'_>, job: &Prepared, run: &RunDir) -> BTreeMap<String, String> {
    let message = &job.message;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let mut parameters: BTreeMap<String, String> = [
        ("spec_file", message.spec().unwrap_or_default().to_owned()),
        ("input_file", message.input_file.clone().unwrap_or_default()),
        ("message_file", path(&run.message())),
        ("message_id", message.id.to_string()),
        ("message_dir", path(run.path())),
        ("chain", message.id.chain.to_string()),
        ("seq", message.id.seq.to_string()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    for parameter in &job.routine.parameters {
        if parameters.contains_key(&parameter.name) {
            continue;
        }
        let set_by = |document: &Document| document.get_text(&parameter.name);
        let Some(value) = set_by(&message.document).or_else(|| set_by(&job.spec)) else { continue };
        if is_reserved(&parameter.name) || value.contains('\0') {
            batch.warn(&format!("a message cannot set {} to this value; it is ignored", parameter.name));
        } else {
            parameters.insert(parameter.name.clone(), value);
        }
    }
    parameters
}

/// The parameters that the YAML of the message, or else of the spec, gives as something else than text, for routines that know types.
fn typed_parameters(job: &Prepared, texts: &BTreeMap<String, String>) -> BTreeMap<String, YamlValue> {
    let names = job.routine.parameters.iter().map(|parameter| &parameter.name);
    // A name that the message cannot set has no text either.
    let settable = names.filter(|name| texts.contains_key(*name) || !is_reserved(name));
    let set_by = |document: &Document, name: &str| {
        document.get(name).filter(|value| **value != YamlValue::Null).cloned()
    };
    let value = |name: &String| {
        let value = set_by(&job.message.document, name).or_else(|| set_by(&job.spec, name))?;
        Some((name.clone(), value))
    };
    // A text of the message outranks a list of the spec, and is passed as text.
    let is_typed = |value: &YamlValue| !matches!(value, YamlValue::Scalar(ScalarKind::Text, _));
    settable.filter_map(value).filter(|(_, value)| is_typed(value)).collect()
}

fn variables(
    context: &PipelineContext<'_>,
    run: &ActiveRun,
    attempt: AttemptNumber,
) -> [(OsString, OsString); 4] {
    [
        ("DECREE_ATTEMPT", attempt.number.to_string()),
        ("DECREE_MAX_ATTEMPTS", attempt.of.to_string()),
        ("DECREE_AI", context.config.commands.ai.clone()),
        (MARK_VARIABLE, run.mark_text().to_owned()),
    ]
    .map(|(key, value)| (key.into(), value.into()))
}

/// Records what an attempt changed, and decides how it ended.
pub(super) fn judge(
    batch: &mut ActiveBatch<'_>,
    inputs: AttemptInputs<'_>,
    executed: &Execution,
    attempt: AttemptNumber,
) -> Result<(AttemptRecord, ChangeRecord)> {
    // From here on everything leads to a tree that is kept or reverted; a signal is obeyed after that.
    let _shield = interrupt::shield();
    let checkpoint = inputs.run.dir.attempt(attempt.number);
    fs::create_dir_all(checkpoint.dir()).at("create", checkpoint.dir())?;
    let record = |batch: &ActiveBatch<'_>| -> Result<ChangeRecord> {
        checkpoint.record_changes(batch.context.workspace, inputs.manifest, &|_| {}, batch.progress())
    };
    let ending = uncaptured::check_attempt(batch, &inputs.run.dir, executed.ending.clone());
    let mut changes = record(batch)?;
    let ending = match ending {
        Ending::Succeeded => check_policy(&batch.context, inputs.job, &changes),
        ending => ending,
    };
    if ending != Ending::Succeeded && uncaptured::move_back(batch, &inputs.run.dir) {
        changes = record(batch)?;
    }
    uncaptured::note_present(batch, inputs.manifest, &changes.secrets);
    let ending = ending.map_text(|text| batch.redactor.redact(text).into_owned());
    if ending != Ending::Succeeded {
        write_log_tail(batch, &inputs.run.dir, attempt.number, &executed.tail);
    }
    let headline = one_line(&batch.redactor.redact(headline(&executed.tail, &ending)));
    let record = AttemptRecord {
        number: attempt.number,
        clean_slate: attempt.clean_slate,
        reason: one_line(&ending.describe()),
        exit_code: ending.exit_code(),
        ending,
        duration_ms: executed.duration.as_millis() as u64,
        files: changes.changes.len() as u64,
        added: changes.added,
        removed: changes.removed,
        headline,
        usage: usage(batch, &inputs.run.dir, attempt.number)?,
    };
    Ok((record, changes))
}

/// Writes the end of a failed attempt's log for the next attempt. It only helps, so a failure is a warning.
fn write_log_tail(batch: &mut ActiveBatch<'_>, run: &RunDir, number: u32, tail: &[String]) {
    let text: String = tail.iter().map(|line| format!("{line}\n")).collect();
    if let Err(error) = atomic::write(&run.log_tail(number), text.as_bytes()) {
        batch.warn(&format!("the end of the log of attempt {number} is not passed on: {error}"));
    }
}

/// How an attempt ends whose routine and verification succeeded.
fn check_policy(context: &PipelineContext<'_>, job: &Prepared, changes: &ChangeRecord) -> Ending {
    let needs_change = match context.config.on_no_change {
        OnNoChange::Accept => false,
        OnNoChange::Retry => true,
        // A spec describes a change. An agent that makes none has declined or failed, whatever its exit code.
        OnNoChange::Auto => job.message.is_spec && job.routine.is_agent,
    };
    let violations = policy::violations(&context.config.policy, changes);
    if !violations.is_empty() {
        Ending::Policy { violations }
    } else if changes.is_empty() && needs_change {
        Ending::NothingChanged
    } else {
        Ending::Succeeded
    }
}

/// What the attempt says it used. The file moves to the attempt, so that the next attempt writes its own.
fn usage(batch: &mut ActiveBatch<'_>, run: &RunDir, number: u32) -> Result<Option<Usage>> {
    let path = run.usage();
    let usage = match Usage::read(&path) {
        Ok(None) => return Ok(None),
        Ok(Some(usage)) => usage,
        Err(why) => {
            batch.warn(&format!("{} is ignored: {why}", RunDir::USAGE));
            Usage::default()
        }
    };
    fs::rename(&path, run.attempt_usage(number)).at("move", &path)?;
    batch.meter.used.add(&usage);
    Ok((!usage.is_nothing()).then_some(usage))
}

/// Passes output on to the reporter and the log, if there is one, without secrets. A log that cannot be written does not end the
/// routine: it may have filled the disk, and may be about to clean up.
pub(super) struct Tee<'t> {
    redactor: &'t mut Redactor,
    log: Option<CappedLog>,
    reporter: &'t mut dyn Reporter,
    clean: Vec<u8>,
    log_error: Option<Error>,
}

impl<'t> Tee<'t> {
    pub fn new(batch: &'t mut ActiveBatch<'_>, log: Option<CappedLog>) -> Self {
        let ActiveBatch { redactor, reporter, .. } = batch;
        Tee { redactor, log, reporter: &mut **reporter, clean: Vec::new(), log_error: None }
    }

    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.clean.clear();
        self.redactor.push(bytes, &mut self.clean);
        self.pass_on();
        Ok(())
    }

    /// The last lines of the log, and what went wrong with it.
    pub fn finish(mut self) -> (Vec<String>, Option<Error>) {
        self.clean.clear();
        self.redactor.flush(&mut self.clean);
        self.pass_on();
        let Some(log) = self.log else { return (Vec::new(), None) };
        let tail = log.tail_lines(TAIL_LINES, TAIL_BYTES, self.redactor);
        (tail, log.finish().err().or(self.log_error))
    }

    fn pass_on(&mut self) {
        self.reporter.event(&Event::Output(&self.clean));
        if let Some(log) = &mut self.log
            && let Err(error) = log.write(&self.clean)
        {
            self.log_error.get_or_insert(error);
        }
    }
}

fn routine_ending(ended: &ExecResult, timeout: Duration) -> Ending {
    match ended.end {
        ExecEnd::Exited(0) => Ending::Succeeded,
        ExecEnd::Exited(code) => Ending::Exit { code },
        ExecEnd::Signalled(signal) => Ending::Signal { signal },
        ExecEnd::TimedOut => Ending::TimedOut { after_ms: timeout.as_millis() as u64 },
        ExecEnd::Interrupted => Ending::Interrupted,
        ExecEnd::SupervisorLost => Ending::Lost,
    }
}

fn verify_ending(ended: &ExecResult, job: &Prepared) -> Ending {
    let command = job.verify.clone();
    match ended.end {
        ExecEnd::Exited(code) if code != 0 => {
            Ending::Verify { code: Some(code), command, not_installed: None }
        }
        ExecEnd::Signalled(_) => Ending::Verify { code: None, command, not_installed: None },
        _ => routine_ending(ended, job.timeout),
    }
}

/// The last line that is not only punctuation, short enough for a table.
fn headline<'t>(tail: &'t [String], ending: &Ending) -> &'t str {
    const MAX_CHARS: usize = 200;
    let has_text = |line: &&String| line.chars().any(char::is_alphanumeric);
    // What a verification says comes after decree's own line, which says nothing new. If it says nothing, the routine's words do not
    // explain its failure.
    let is_own = |line: &&String| line.starts_with(VERIFY_LINE);
    let is_of_verify = matches!(ending, Ending::Verify { .. });
    let mut lines = tail.iter().rev().take_while(|line| !is_of_verify || !is_own(line));
    let line = lines.find(|line| has_text(line) && !is_own(line)).map_or("", |line| line.trim());
    let end = line.char_indices().nth(MAX_CHARS).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_is_the_last_line_that_has_text() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(headline(&lines("one\ntwo: FAILED\n\n-----\n"), &Ending::Lost), "two: FAILED");
        assert_eq!(headline(&[], &Ending::Lost), "");
        assert_eq!(headline(&["é".repeat(300)], &Ending::Lost).chars().count(), 200);
    }
}
