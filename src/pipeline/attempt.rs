//! One execution of a routine: run it, verify it, write down what changed, and judge.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use super::active_run::ActiveRun;
use super::budget::Usage;
use super::events::{Event, Reporter};
use super::policy;
use super::prepare::Prepared;
use super::queue::Pipeline;
use super::result::AttemptRecord;
use super::run_dir::RunDir;
use super::verdict::Ending;
use crate::checkpoint::checkpoint_dir::ChangeRecord;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
use crate::history::own_files::RepairReport;
use crate::interrupt;
use crate::process::log::CappedLog;
use crate::process::marked::MARK_VARIABLE;
use crate::process::redact::Redactor;
use crate::process::{Exec, ExecEnd, ExecResult};
use crate::project::OnNoChange;
use crate::routine::Invocation;
use crate::sanitize::one_line;

/// Which attempt it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptNumber {
    /// From 1.
    pub number: u32,
    /// At most.
    pub of: u32,
    /// Whether the tree was put back before it.
    pub clean_slate: bool,
}

impl Pipeline<'_> {
    /// Executes the routine and what has to succeed after it.
    pub(super) fn execute(
        &mut self,
        job: &Prepared,
        run: &RunDir,
        running: &ActiveRun,
        turn: AttemptNumber,
    ) -> Result<Execution> {
        let dir = run.attempt_dir(turn.number);
        fs::create_dir_all(&dir).at("create", &dir)?;
        let mut own = run.hold_own_files(self.layout, turn.number, &running.file())?;
        let began = Instant::now();
        let invocation = Invocation::new(&job.routine, self.parameters(job, run), self.layout, &dir)?;
        let mut environment = self.environment.clone();
        environment.extend(self.facts(running, turn));
        environment.extend(invocation.environment);
        let deadline = (!job.timeout.is_zero()).then(|| began + job.timeout);

        let log = CappedLog::create(dir.join(invocation.log), self.config.log_limit)?;
        run.publish(turn.number, &[invocation.log])?;
        let mut tee = Tee {
            redactor: &mut self.redactor,
            log,
            reporter: &mut *self.reporter,
            clean: Vec::new(),
            trouble: None,
        };
        let root = self.layout.root();
        let exec = |program: &OsString, arguments: &[OsString]| {
            Exec::new(program)
                .args(arguments)
                .directory(root)
                .environment(environment.clone())
                .timeout(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
        };
        let ended = exec(&invocation.program, &invocation.arguments).run(&mut |bytes: &[u8]| tee.take(bytes));
        // Before anything else is written, whatever the end was.
        let mut repairs = vec![own.repair()?];
        let (mut ending, mut survivors) = match ended {
            Ok(ended) => (routine_ending(&ended, job.timeout), ended.survivors),
            Err(error) => (Ending::NotStarted { why: error.to_string() }, 0),
        };
        if ending == Ending::Succeeded && !job.verify.is_empty() {
            tee.take(format!("[decree] verify: {}\n", job.verify).as_bytes())?;
            tee.reporter.event(&Event::Verifying(&job.verify));
            let ended = exec(&"bash".into(), &["-c".into(), (&job.verify).into()])
                .run(&mut |bytes: &[u8]| tee.take(bytes));
            repairs.push(own.repair()?);
            let ended = ended?;
            survivors += ended.survivors;
            ending = verify_ending(&ended, job);
        }
        let (tail, trouble) = tee.finish();
        if survivors > 0 {
            let count = crate::humanize::count(survivors, "process").replace("processs", "processes");
            self.warn(&format!("{count} of the routine could not be ended and may go on changing files"));
        }
        if let Some(error) = trouble {
            self.warn(&format!("the log of attempt {} is not whole: {error}", turn.number));
        }
        Ok(Execution { ending, duration: began.elapsed(), tail, repairs })
    }

    /// What a routine finds in its environment.
    fn parameters(&mut self, job: &Prepared, run: &RunDir) -> BTreeMap<String, String> {
        let message = &job.message;
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let mut parameters: BTreeMap<String, String> = [
            ("spec_file", message.spec().unwrap_or_default().to_owned()),
            ("input_file", message.input_file.clone().unwrap_or_default()),
            ("message_file", path(&run.message())),
            ("message_id", message.id.to_string()),
            ("message_dir", path(run.path())),
            ("chain", message.id.chain().to_string()),
            ("seq", message.id.seq().to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        for parameter in &job.routine.parameters {
            if parameters.contains_key(&parameter.name) {
                continue;
            }
            let Some(value) = message.document.get_text(&parameter.name) else { continue };
            if crate::process::environment::is_reserved(&parameter.name) || value.contains('\0') {
                self.warn(&format!(
                    "{} is not for a message to set like this; it is left out",
                    parameter.name
                ));
            } else {
                parameters.insert(parameter.name.clone(), value);
            }
        }
        parameters
    }

    fn facts(&self, running: &ActiveRun, turn: AttemptNumber) -> Vec<(OsString, OsString)> {
        [
            ("DECREE_ATTEMPT", turn.number.to_string()),
            ("DECREE_MAX_ATTEMPTS", turn.of.to_string()),
            ("DECREE_AI", self.config.commands.ai.clone()),
            (MARK_VARIABLE, running.mark().map_or_else(String::new, |mark| mark.as_str().to_owned())),
        ]
        .into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
    }

    /// Writes down what an attempt changed, and says what it came to.
    pub(super) fn judge(
        &mut self,
        executed: Execution,
        run: &RunDir,
        manifest: &Manifest,
        turn: AttemptNumber,
    ) -> Result<(AttemptRecord, ChangeRecord)> {
        // From here on everything leads to a tree that is kept or put back; a signal is heeded after that.
        let _shield = interrupt::shield();
        let dir = run.attempt_dir(turn.number);
        fs::create_dir_all(&dir).at("create", &dir)?;
        let seal = run
            .attempt(turn.number)
            .record_changes(self.workspace, manifest, true, self.reporter.progress())?
            .expect("an empty change is written down, too");
        let ending = match executed.ending {
            Ending::Succeeded => self.check_policy(&seal),
            ending => ending,
        };
        let ending = ending.map_text(|text| self.redactor.redact(text).into_owned());
        let usage = self.usage(run, turn)?;
        let headline = one_line(&self.redactor.redact(headline(&executed.tail)));
        let record = AttemptRecord {
            number: turn.number,
            clean_slate: turn.clean_slate,
            reason: one_line(&ending.describe()),
            exit_code: ending.exit_code(),
            ending,
            duration_ms: executed.duration.as_millis() as u64,
            files: seal.changes.len() as u64,
            added: seal.added,
            removed: seal.removed,
            headline,
            usage,
        };
        Ok((record, seal))
    }

    /// The routine and the verification are content; the policy has to be, too.
    fn check_policy(&self, seal: &ChangeRecord) -> Ending {
        let violations = policy::violations(&self.config.policy, seal);
        if !violations.is_empty() {
            return Ending::Policy { violations };
        }
        match seal.is_empty() && self.config.on_no_change == OnNoChange::Retry {
            true => Ending::NothingChanged,
            false => Ending::Succeeded,
        }
    }

    /// What the attempt says it used; the next one says its own.
    fn usage(&mut self, run: &RunDir, turn: AttemptNumber) -> Result<Option<Usage>> {
        let usage = match Usage::read(&run.usage()) {
            None => return Ok(None),
            Some(Ok(usage)) => usage,
            Some(Err(why)) => {
                self.warn(&format!("usage.json is left out of account: {why}"));
                Usage::default()
            }
        };
        let kept = run.attempt_dir(turn.number).join("usage.json");
        fs::rename(run.usage(), &kept).at("move", run.usage())?;
        self.meter.used.add(&usage);
        Ok((!usage.is_nothing()).then_some(usage))
    }
}

/// What an execution came to, before anybody looked at what it changed.
pub(super) struct Execution {
    pub ending: Ending,
    pub duration: Duration,
    /// The last lines of its output.
    pub tail: Vec<String>,
    /// What it had done to decree's own files: the routine, then the verification.
    pub repairs: Vec<RepairReport>,
}

/// Output goes to the log and to whoever listens, without secrets. A log that cannot be written is no reason to end a routine: it
/// may have filled the disk, and may be about to clean up.
struct Tee<'t> {
    redactor: &'t mut Redactor,
    log: CappedLog,
    reporter: &'t mut dyn Reporter,
    clean: Vec<u8>,
    trouble: Option<Error>,
}

impl Tee<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.clean.clear();
        self.redactor.push(bytes, &mut self.clean);
        self.pass_on();
        Ok(())
    }

    /// The last lines, and what went wrong with the log.
    fn finish(mut self) -> (Vec<String>, Option<Error>) {
        self.clean.clear();
        self.redactor.flush(&mut self.clean);
        self.pass_on();
        let tail = self
            .log
            .tail_lines(super::run::TAIL_LINES)
            .iter()
            .map(|line| crate::sanitize::final_line(line))
            .collect();
        (tail, self.log.finish().err().or(self.trouble))
    }

    fn pass_on(&mut self) {
        self.reporter.event(&Event::Output(&self.clean));
        if let Err(error) = self.log.write(&self.clean) {
            self.trouble.get_or_insert(error);
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
        ExecEnd::Exited(code) if code != 0 => Ending::Verify { code: Some(code), command },
        ExecEnd::Signalled(_) => Ending::Verify { code: None, command },
        _ => routine_ending(ended, job.timeout),
    }
}

/// The last line that says something, short enough for a table.
fn headline(tail: &[String]) -> &str {
    const LONGEST: usize = 200;
    let says_something = |line: &&String| line.chars().any(char::is_alphanumeric);
    let line = tail.iter().rev().find(says_something).map_or("", |line| line.trim());
    let end = line.char_indices().nth(LONGEST).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_is_the_last_line_that_says_something() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(headline(&lines("one\ntwo: FAILED\n\n-----\n")), "two: FAILED");
        assert_eq!(headline(&[]), "");
        assert_eq!(headline(&["é".repeat(300)]).chars().count(), 200);
    }
}
