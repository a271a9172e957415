//! One message: checkpoint, attempts, verdict.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::active_run::ActiveRun;
use super::attempt::AttemptNumber;
use super::events::{Event, MessageHeader};
use super::failure_context::{self, FailedAttempt};
use super::prepare::Prepared;
use super::queue::Pipeline;
use super::result::{AttemptRecord, RevertRecord, RunRecord, RunResult};
use super::retry::{self, NextStep};
use super::run_dir::{PUBLISHED, RunDir};
use super::secrets::Secrets;
use super::settle::message_of;
use super::verdict::{Ending, Verdict};
use crate::checkpoint::checkpoint_dir::{ChangeRecord, CheckpointDir};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreReport};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::history::audit::AuditLog;
use crate::history::own_files::{RepairReport, SettingsSnapshot};
use crate::history::{self, CheckpointLabel, HistoryContext, Scope};
use crate::interrupt;
use crate::message::display_name;

/// How much of a log is told in `failure-context.md`.
pub(super) const TAIL_LINES: usize = 40;
/// How often the tree is put back anew because something else goes on writing.
const MOST_PUT_BACKS: u32 = 6;
/// A message that was cut off so often in a row is not tried again.
const MOST_INTERRUPTIONS: usize = 5;

/// The attempts of a run, and how they ended.
struct Attempts {
    attempts: Vec<AttemptRecord>,
    seal: ChangeRecord,
    last: u32,
    /// Why no more were made although more were allowed.
    stopped: Option<(Verdict, String)>,
}

impl Pipeline<'_> {
    /// Carries a message out, and decides.
    pub(super) fn carry_out(&mut self, job: Prepared) -> Result<()> {
        let run = RunDir::of(self.layout, &job.message.id);
        run.begin()?;
        let running = ActiveRun::new(&job.message.id, &job.message.file, &self.inbox.files()?);
        running.write(self.layout)?;
        atomic::write(&run.message(), job.message.text.as_bytes())?;
        self.reporter.event(&Event::MessageBegins(&MessageHeader {
            id: job.message.id.clone(),
            name: self.redactor.redact(&job.message.name()).into_owned(),
            routine: job.routine.name.to_string(),
        }));
        let mut story = self.story(&job);
        let interruptions = run.interruptions_in_a_row()?;
        if interruptions >= MOST_INTERRUPTIONS {
            story.status = Verdict::Interrupted;
            story.reason = format!("it was cut off {interruptions} times in a row");
            let summary = self.settle(&running, &run, None, RunResult { seal: None, story }, true)?;
            self.record_outcome(summary);
            return Ok(());
        }
        if let Err(why) = self.hook("before_each", &self.config.hooks.before_each, &self.hook_facts(&job)) {
            if interrupt::requested().is_some() {
                ActiveRun::clear(self.layout)?;
                return interrupt::check();
            }
            story.status = Verdict::Skipped;
            story.reason = format!("hooks.before_each failed: {why}");
            let summary = self.settle(&running, &run, None, RunResult { seal: None, story }, true)?;
            self.record_outcome(summary);
            return Ok(());
        }
        let began = Instant::now();
        let manifest = match self.checkpoint(&run, &mut story) {
            Ok(manifest) => manifest,
            Err(error) => {
                // Nothing has happened to the tree: the message simply waits on.
                ActiveRun::clear(self.layout)?;
                return Err(error);
            }
        };
        let secrets = Secrets::remember(self.workspace.root(), &manifest.coverage);
        let settings = SettingsSnapshot::read(self.layout)?;
        let tried = match self.try_all(&job, &run, &running, &manifest, &settings, &mut story) {
            Ok(tried) => tried,
            Err(error) => return Err(self.rescue(&running, &manifest, error)),
        };
        for path in secrets.changed(self.workspace.root()) {
            let text = format!(
                "{path} was changed; it is not in any checkpoint, as a likely secret, so its content was not kept"
            );
            self.warn(&text);
            story.warnings.push(text);
        }
        decide(&mut story, &tried);
        story.duration_ms = began.elapsed().as_millis() as u64;
        let shield = interrupt::shield();
        match story.kept {
            true => self.tell_added(&settings, &tried.seal, &mut story)?,
            false => self.put_back_settings(&settings, &run, &mut story)?,
        }
        run.publish(tried.last, &PUBLISHED)?;
        let result = RunResult { seal: Some(tried.seal), story };
        let interrupted = result.story.status == Verdict::Interrupted;
        let summary = self.settle(&running, &run, Some(&manifest), result, false)?;
        self.record_outcome(summary);
        drop(shield);
        match interrupted {
            true => interrupt::check().map_err(|error| {
                Error::new(error.kind(), "interrupted")
                    .detail(format!("run {} was put back; its message waits in the inbox", job.message.id))
                    .hint("the next `decree process` takes it first")
            }),
            false => Ok(()),
        }
    }

    fn story(&self, job: &Prepared) -> RunRecord {
        RunRecord {
            routine: Some(job.routine.name.to_string()),
            spec: job.message.spec().map(str::to_owned),
            ..RunRecord::begins(job.message.name(), super::now_text())
        }
    }

    pub(super) fn hook_facts(&self, job: &Prepared) -> Vec<(&'static str, String)> {
        vec![
            ("message_id", job.message.id.to_string()),
            ("message_name", job.message.name()),
            ("routine", job.routine.name.to_string()),
            ("spec_file", job.message.spec().unwrap_or_default().to_owned()),
        ]
    }

    /// Content, then manifest: after this the tree can always be put back.
    fn checkpoint(&mut self, run: &RunDir, story: &mut RunRecord) -> Result<Manifest> {
        let began = Instant::now();
        let manifest = self.workspace.capture(self.reporter.progress())?;
        manifest.write(&run.saved().manifest_path())?;
        self.workspace.store().hold()?;
        let (files, _) = manifest.tree.count();
        self.reporter.event(&Event::Checkpointed { files: files as u64, took: began.elapsed() });
        for text in manifest.coverage.warnings() {
            self.warn(&text);
            story.warnings.push(text);
        }
        Ok(manifest)
    }

    fn try_all(
        &mut self,
        job: &Prepared,
        run: &RunDir,
        running: &ActiveRun,
        manifest: &Manifest,
        settings: &SettingsSnapshot<'_>,
        story: &mut RunRecord,
    ) -> Result<Attempts> {
        let max_retries = self.settings.max_retries.unwrap_or(self.config.max_retries);
        let mut turn = AttemptNumber { number: 1, of: retry::max_attempts(max_retries), clean_slate: false };
        let mut attempts: Vec<AttemptRecord> = Vec::new();
        let mut tails = Vec::new();
        loop {
            self.meter.count_attempt();
            self.reporter.event(&Event::AttemptBegins {
                number: turn.number,
                of: turn.of,
                clean_slate: turn.clean_slate,
            });
            let executed = self.execute(job, run, running, turn)?;
            self.lock.renew()?;
            if let Err(error) = self.workspace.store().repair() {
                // What this run needs of it is held open.
                self.warn(&format!(
                    "the routine removed files of the store, and they could not be written again: {error}"
                ));
            }
            for repair in &executed.repairs {
                self.tell_repair(repair, run, manifest, story)?;
            }
            tails.push(executed.tail.clone());
            let (record, seal) = self.judge(executed, run, manifest, turn)?;
            self.reporter.event(&Event::AttemptEnds { record: &record, of: turn.of });
            let ending = record.ending.clone();
            attempts.push(record);
            let last = turn.number;
            let tried = |attempts, stopped| Attempts { attempts, seal, last, stopped };
            if matches!(ending, Ending::Succeeded | Ending::Interrupted) {
                return Ok(tried(attempts, None));
            }
            if let Some(signal) = interrupt::requested() {
                return Ok(tried(attempts, Some((Verdict::Interrupted, format!("signal {signal}")))));
            }
            let next = retry::after_failure(turn.number, max_retries);
            if next == NextStep::GiveUp {
                return Ok(tried(attempts, None));
            }
            if let Some(why) = self.meter.used_up() {
                return Ok(tried(attempts, Some((Verdict::Budget, why))));
            }
            if next == NextStep::CleanSlate {
                self.clean_slate(run, running, manifest, &attempts, &tails)?;
                self.put_back_settings(settings, run, story)?;
            }
            turn =
                AttemptNumber { number: turn.number + 1, clean_slate: next == NextStep::CleanSlate, ..turn };
            if let Some(signal) = self.wait(turn.number) {
                return Ok(tried(attempts, Some((Verdict::Interrupted, format!("signal {signal}")))));
            }
        }
    }

    /// What a routine had done to decree's own files is undone, and told.
    fn tell_repair(
        &mut self,
        repair: &RepairReport,
        run: &RunDir,
        manifest: &Manifest,
        story: &mut RunRecord,
    ) -> Result<()> {
        let count = |n| crate::humanize::count(n, "file");
        let mut told = Vec::new();
        if !repair.restored.is_empty() {
            let files = count(repair.restored.len());
            told.push(format!(
                "the routine removed or replaced {files} of decree's own; they are as they were"
            ));
        }
        if repair.set_aside > 0 {
            let aside = format!("{}/set-aside", run.shown());
            told.push(format!("what the routine put in the place of decree's own is in {aside}"));
        }
        if repair.lost_runs > 0 {
            let runs = crate::humanize::count(repair.lost_runs, "earlier run");
            told.push(format!("the routine deleted what was kept of {runs}; that is gone"));
        }
        if repair.tracker {
            told.push("the routine changed specs/processed-spec.md; it is as it was".to_owned());
        }
        for path in &repair.spoiled {
            match *path == run.saved().manifest_path() {
                true => manifest.write(path)?,
                false => {
                    told.push(format!("the routine changed {}, a record of its run", self.layout.shown(path)))
                }
            }
        }
        for path in &repair.edited {
            let path = self.layout.shown(path);
            told.push(format!("the routine changed {path}; that is in no diff and stays"));
        }
        for text in told {
            self.warn(&text);
            story.warnings.push(text);
        }
        Ok(())
    }

    /// Settings and routines are in no checkpoint; a run that is put back leaves them as they were all the same.
    fn put_back_settings(
        &mut self,
        settings: &SettingsSnapshot<'_>,
        run: &RunDir,
        story: &mut RunRecord,
    ) -> Result<()> {
        for path in settings.restore(&run.path().join("set-aside"))? {
            let path = self.layout.shown(&path);
            self.tell(
                story,
                format!("{path} is as it was; what the routine made of it is in {}/set-aside", run.shown()),
            );
        }
        Ok(())
    }

    /// What a kept run made that no diff shows.
    fn tell_added(
        &mut self,
        settings: &SettingsSnapshot<'_>,
        seal: &ChangeRecord,
        story: &mut RunRecord,
    ) -> Result<()> {
        for path in settings.added()? {
            let path = self.layout.shown(&path);
            self.tell(story, format!("the routine made {path}; that is in no diff and stays"));
        }
        for path in &seal.beside {
            self.tell(
                story,
                format!("the routine made {path}, which is ignored or left out: it is in no diff and stays"),
            );
        }
        Ok(())
    }

    /// A warning that also stands in the record.
    fn tell(&mut self, story: &mut RunRecord, text: String) {
        self.warn(&text);
        story.warnings.push(text);
    }

    /// Puts the tree back and writes down what was learned, for the last attempt.
    fn clean_slate(
        &mut self,
        run: &RunDir,
        running: &ActiveRun,
        manifest: &Manifest,
        attempts: &[AttemptRecord],
        tails: &[Vec<String>],
    ) -> Result<()> {
        let _shield = interrupt::shield();
        let last = attempts.len() as u32;
        let put_back = self.put_back(run, &run.attempt(last), manifest)?;
        self.reporter.event(&Event::Reverted(&put_back));
        self.withdraw_follow_ups(run, running, &run.attempt_dir(last))?;
        let mut lessons = Vec::new();
        for (record, tail) in attempts.iter().zip(tails) {
            let seal = run.attempt(record.number).result()?;
            let dir = format!("{}/attempts/{}", run.shown(), record.number);
            lessons.push(FailedAttempt {
                record,
                tail: tail.clone(),
                changed: seal.map_or_else(Vec::new, |seal| changed_paths(&seal)),
                diff: format!("{dir}/changes.diff"),
                log: format!("{dir}/{}", self.log_name(run, record.number)),
            });
        }
        let name = display_name(&running.file(), &message_of(run).body);
        atomic::write(&run.failure_context(), failure_context::render(&name, &lessons).as_bytes())
    }

    fn log_name(&self, run: &RunDir, attempt: u32) -> &'static str {
        let dir = run.attempt_dir(attempt);
        ["routine.log", "papermill.log"]
            .into_iter()
            .find(|name| dir.join(name).exists())
            .unwrap_or("routine.log")
    }

    /// Puts the tree back to what the manifest has, and proves it. If something else has changed the tree since the attempt was
    /// written down, everything is saved as a checkpoint first, and what is there now is put back.
    pub(super) fn put_back(
        &mut self,
        run: &RunDir,
        saved: &CheckpointDir,
        manifest: &Manifest,
    ) -> Result<RevertRecord> {
        self.revert(saved, manifest).or_else(|error| self.put_back_all(run, manifest, error))
    }

    fn put_back_all(&mut self, run: &RunDir, manifest: &Manifest, error: Error) -> Result<RevertRecord> {
        let failed = |worse: Error| {
            let what = format!("run {} could not be put back: {worse}", run.id());
            Error::integrity(what)
                .details(worse.detail_lines().to_vec(), 20)
                .detail(format!("first: {error}"))
                .detail(format!("what the run changed is in {}", run.shown()))
                .hint("stop what is writing here, or free some space; then run the same command again: it goes on from here")
        };
        let since = CheckpointDir::new(run.id().to_string(), run.path().join("put-back"));
        let saved = std::fs::create_dir_all(since.dir())
            .at("create", since.dir())
            .and_then(|()| self.save_present(&format!("as run {} was put back", run.id())))
            .map_err(&failed)?;
        let mut tries = 0;
        let put_back = loop {
            since
                .record_changes(self.workspace, manifest, true, self.reporter.progress())
                .map_err(&failed)?;
            match self.revert(&since, manifest) {
                Ok(put_back) => break put_back,
                // Whoever writes may be at it still; nothing is said meanwhile, as that may be what is written.
                Err(_) if tries < MOST_PUT_BACKS => std::thread::sleep(Duration::from_millis(20 << tries)),
                Err(error) => return Err(failed(error)),
            }
            tries += 1;
        };
        self.warn(&format!(
            "something else changed the tree while run {} was put back; everything as it was is saved: `decree revert {saved}` brings it back",
            run.id()
        ));
        Ok(put_back)
    }

    /// The whole tree as it is, as a checkpoint. Returns its id.
    pub(super) fn save_present(&mut self, reason: &str) -> Result<String> {
        let site = HistoryContext {
            layout: self.layout,
            config: self.config,
            workspace: self.workspace,
            progress: self.reporter.progress(),
        };
        Ok(history::save_tree(site, &CheckpointLabel::because(reason), &Scope::default())?.0.record.id)
    }

    /// Puts the paths of a diff back and reads them again; then compares the whole tree.
    fn revert(&mut self, saved: &CheckpointDir, manifest: &Manifest) -> Result<RevertRecord> {
        let log = AuditLog::new(self.layout.audit());
        let report = match saved.revert(self.workspace, manifest, RestoreAction::PutBack, &log)? {
            RestoreOutcome::AlreadyThere => RestoreReport::default(),
            RestoreOutcome::Done(report) => report,
        };
        if let Some(error) = report.log_failure {
            self.warn(&format!("the audit trail has no line of this: {error}"));
        }
        let changes = self.workspace.compare(manifest, self.reporter.progress())?;
        if !changes.list.is_empty() {
            let paths = changes.list.iter().map(|change| change.path.to_string()).collect();
            let what = format!("{} was put back, but the tree is not what it was", saved.id());
            return Err(Error::integrity(what).details(paths, 20));
        }
        let (files, _) = manifest.tree.count();
        Ok(RevertRecord {
            paths: report.verified as u64,
            verified: files as u64,
            set_aside: report.set_aside.iter().map(|(path, _)| path.to_string()).collect(),
        })
    }

    /// Waits before an attempt; returns the signal that ended the wait, if one did.
    fn wait(&mut self, number: u32) -> Option<u8> {
        let jitter =
            u8::from_str_radix(&crate::fs::random_hex()[..2], 16).map_or(0.0, |byte| f64::from(byte) / 255.0);
        let delay = retry::delay(self.config.retry_delay, number, jitter);
        if delay.is_zero() {
            return interrupt::requested();
        }
        self.reporter.event(&Event::Waiting(delay));
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

    /// Follow-ups that came from a run which was put back make no sense any more; they are kept with it.
    pub(super) fn withdraw_follow_ups(
        &mut self,
        run: &RunDir,
        running: &ActiveRun,
        attempt: &std::path::Path,
    ) -> Result<()> {
        let before: Vec<OsString> = running.inbox();
        for pending in self.inbox.pending()? {
            let of_this_chain = pending.id.as_ref().is_some_and(|id| id.chain() == run.id().chain());
            if of_this_chain && pending.file != running.file() && !before.contains(&pending.file) {
                self.inbox.withdraw(&pending.file, &attempt.join("follow-ups"))?;
            }
        }
        Ok(())
    }
}

/// Fills in what the attempts came to.
fn decide(story: &mut RunRecord, tried: &Attempts) {
    let last = tried.attempts.last().expect("there is at least one attempt");
    for usage in tried.attempts.iter().filter_map(|record| record.usage.as_ref()) {
        story.usage.add(usage);
    }
    (story.status, story.reason) = match &tried.stopped {
        Some((verdict, why)) => (*verdict, why.clone()),
        None if last.ending == Ending::Succeeded && tried.seal.is_empty() => {
            (Verdict::NoChange, String::new())
        }
        None if last.ending == Ending::Succeeded => (Verdict::Success, String::new()),
        None => (last.ending.verdict(), last.reason.clone()),
    };
    story.kept = tried.stopped.is_none() && last.ending == Ending::Succeeded;
    story.attempts = tried.attempts.clone();
}

/// `src/a.rs +4 −1`.
fn changed_paths(seal: &ChangeRecord) -> Vec<String> {
    seal.changes
        .iter()
        .map(|(path, change)| match change.binary {
            true => format!("{path} (binary)"),
            false => format!("{path} +{} −{}", change.added, change.removed),
        })
        .collect()
}
