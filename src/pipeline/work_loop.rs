//! The loop that `run` and `process` share: take what the queue chooses, prepare it, run it, record the outcome.

use std::ffi::OsStr;
use std::fs;

use super::context::ActiveBatch;
use super::events::Event;
use super::prepare::{Preparation, Prepared, RejectedMessage, prepare};
use super::queue::{Plan, Queue, QueueItem, Selection, add_message, enqueue, plan};
use super::summary::{MessageSummary, Summary};
use super::unrestored::{self, RecoveredRun};
use super::verdict::Verdict;
use super::{dead_letter, hooks, recovery, route, run, uncaptured};
use crate::error::{Error, ErrorKind, Result};
use crate::history::{PendingGitRestore, RunDir};
use crate::humanize::count;
use crate::interrupt;
use crate::message::{Document, Message, MessageId, MessageName, Rejection, begin_chain, display_name};
use crate::routine::{RoutineKind, papermill};
use crate::spec::Spec;

/// Runs messages for one command.
pub struct Pipeline<'p> {
    batch: ActiveBatch<'p>,
    queue: Queue,
}

impl<'p> Pipeline<'p> {
    pub fn new(batch: ActiveBatch<'p>) -> Self {
        Pipeline { batch, queue: Queue::default() }
    }

    /// Settles the run that an earlier process left unfinished, if there is one. Returns what was decided by that.
    pub fn recover(mut self) -> Result<Vec<MessageSummary>> {
        recovery::recover(&mut self.batch)?;
        Ok(self.batch.summary.messages)
    }

    /// Settles it even if it cannot be reverted as a whole; `None` if there is none.
    pub fn recover_partially(mut self, dry_run: bool) -> Result<Option<RecoveredRun>> {
        unrestored::recover(&mut self.batch, dry_run)
    }

    /// Adds what [`recover`](Self::recover) decided to the summary, so that it is not done again.
    pub fn adopt_recovered(&mut self, settled: &[MessageSummary]) {
        for message in settled {
            self.queue.handled.extend(message.run.spec.clone());
            self.batch.summary.add(message.clone());
        }
    }

    /// Runs one new message and its follow-ups. A message that was given no name gets one.
    pub fn run_message(mut self, name: Option<MessageName>, mut document: Document) -> Result<Summary> {
        let (chain, dir) = begin_chain(self.batch.context.layout, &mut self.batch.queue)?;
        document.set("id", MessageId::root(chain.clone()).to_string());
        let name = name.map_or_else(|| route::name_for(&mut self.batch, &document, &chain), Ok);
        let done = name.and_then(|name| {
            self.with_hooks(|pipeline| {
                let file = add_message(&pipeline.batch.context.inbox, name, &document)?;
                pipeline.batch.event(&Event::Begin { messages: 1, specs: 0, pending: 0 });
                pipeline.queue.messages.push_back(file);
                pipeline.work(false)
            })
        });
        if done.is_err() {
            // The directory that reserved the id. It is empty if the message was not run.
            let _ = fs::remove_dir(dir);
        }
        done
    }

    /// Runs the messages that wait in the inbox, then every spec that is selected.
    pub fn process(self, selection: &Selection) -> Result<Summary> {
        self.with_hooks(|pipeline| {
            let plan = plan(pipeline.batch.context.layout, selection)?;
            let (messages, pending) = (plan.messages.len(), plan.specs.len());
            let specs = pending.min(selection.limit.unwrap_or(usize::MAX));
            pipeline.batch.event(&Event::Begin { messages, specs, pending });
            pipeline.batch.summary.specs_left = pending - specs;
            for problem in &plan.problems {
                pipeline.batch.warn(problem);
            }
            pipeline.queue.messages.extend(plan.messages.iter().cloned());
            pipeline.queue.specs.extend(plan.specs.iter().take(specs).cloned());
            pipeline.work(selection.fail_fast)?;
            pipeline.report_new_specs(selection, &plan)
        })
    }

    fn with_hooks(mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<Summary> {
        let done = hooks::before_all(&mut self.batch).and_then(|()| {
            let done = work(&mut self);
            hooks::after_all(&mut self.batch);
            done
        });
        self.batch.finish(done)
    }

    fn work(&mut self, fail_fast: bool) -> Result<()> {
        while let Some(item) = self.queue.next(&self.batch.context.inbox, &mut self.batch.queue)? {
            // A chain is worked on to its end.
            let has_failed = fail_fast && self.batch.summary.reverted > 0 && self.queue.chain.is_none();
            let is_blocked = PendingGitRestore::exists(self.batch.context.layout);
            let stops = has_failed || is_blocked;
            match item {
                QueueItem::Message(_) if stops => {}
                QueueItem::Message(file) => self.work_on(&file)?,
                QueueItem::Spec(spec) => {
                    interrupt::check()?;
                    if is_blocked {
                        self.skip(
                            &spec,
                            Verdict::Skipped,
                            "git's own state is not restored after an earlier one",
                        );
                    } else if stops {
                        self.skip(&spec, Verdict::Skipped, "an earlier one failed (--fail-fast)");
                    } else if let Some(why) = self.batch.meter.used_up() {
                        self.skip(&spec, Verdict::Budget, &why);
                    } else {
                        let ActiveBatch { context, queue, .. } = &mut self.batch;
                        let file = enqueue(context.layout, &context.inbox, queue, &spec)?;
                        self.work_on(&file)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn work_on(&mut self, file: &OsStr) -> Result<()> {
        match prepare(&mut self.batch, file)? {
            Preparation::Gone => Ok(()),
            Preparation::Rejected(rejected) => self.reject(&rejected),
            Preparation::Ready(prepared) => self.run_prepared(prepared),
        }
    }

    fn run_prepared(&mut self, mut job: Prepared) -> Result<()> {
        if let Some(why) = self.batch.meter.used_up() {
            let mut summary = summary_of(&job.message, Verdict::Budget);
            summary.run.reason = why;
            self.record(summary);
            // What is left of its chain waits for the next command.
            self.queue.chain = None;
            return Ok(());
        }
        if job.routine.kind == RoutineKind::Notebook
            && let Err(error) = self.prepare_python()
        {
            if let ErrorKind::Interrupted { .. } = error.kind() {
                return Err(error);
            }
            let why = format!("{error}; {}", error.hint_text().unwrap_or_default());
            let rejection = Rejection { code: "NoPython", why };
            return self.reject(&RejectedMessage::of(job.message, rejection));
        }
        if job.name_routine() {
            self.batch.context.inbox.add(&job.message.file, &job.message.text)?;
        }
        let id = &job.message.id;
        let summary = run::run(&mut self.batch, &job)?;
        let interrupted = summary.verdict == Verdict::Interrupted && !summary.run.attempts.is_empty();
        let not_restored = uncaptured::not_restored(std::slice::from_ref(&summary));
        self.record(summary);
        if interrupted {
            not_restored.map_or(Ok(()), Err)?;
            interrupt::check().map_err(|error| {
                Error::new(error.kind(), "interrupted")
                    .detail(format!("run {id} was reverted; its message waits in the inbox"))
                    .hint("the next `decree process` runs it first")
            })?;
        }
        self.queue.chain.get_or_insert_with(|| id.chain.clone());
        Ok(())
    }

    /// Python is installed before the checkpoint: the time it takes is not the message's.
    fn prepare_python(&mut self) -> Result<()> {
        if papermill::find(self.batch.context.layout).is_none() {
            self.batch.note("creating a Python environment for notebooks; this happens once");
        }
        let ActiveBatch { context, reporter, .. } = &mut self.batch;
        reporter.event(&Event::HookBegins("Python for notebooks"));
        let prepared = papermill::prepare(context.layout, &context.environment, &mut |bytes: &[u8]| {
            reporter.event(&Event::Output(bytes));
            Ok(())
        });
        reporter.event(&Event::HookEnds);
        prepared
    }

    /// Makes a message that cannot be run a dead letter.
    fn reject(&mut self, rejected: &RejectedMessage) -> Result<()> {
        let (inbox, reason) = (&self.batch.context.inbox, rejected.rejection.to_string());
        match &rejected.text {
            None => inbox.dead_letter_unread(&rejected.file)?,
            Some(text) => {
                let letter = dead_letter::render(text, &reason, Verdict::FailedReverted);
                inbox.dead_letter(&rejected.file, text, &letter)?;
            }
        }
        let mut summary = match &rejected.message {
            Some(message) => {
                // The directory that reserved its id. One that is not empty stays.
                let _ = fs::remove_dir(RunDir::of(self.batch.context.layout, &message.id).path());
                summary_of(message, Verdict::FailedReverted)
            }
            None => MessageSummary::without_run(display_name(&rejected.file, ""), Verdict::FailedReverted),
        };
        summary.run.reason = reason;
        self.record(summary);
        Ok(())
    }

    fn skip(&mut self, spec: &Spec, verdict: Verdict, why: &str) {
        let name = MessageName::from_spec_file(&spec.file_name);
        let name = name.map_or(spec.file_name.clone(), |name| name.to_string());
        let mut summary = MessageSummary::without_run(name, verdict);
        (summary.run.spec, summary.run.reason) = (Some(spec.shown()), why.to_owned());
        self.record(summary);
    }

    fn record(&mut self, message: MessageSummary) {
        self.queue.handled.extend(message.run.spec.clone());
        self.batch.record(message);
    }

    /// Specs that routines wrote wait for the next `process`: otherwise a routine could keep decree busy without end.
    fn report_new_specs(&mut self, selection: &Selection, plan: &Plan) -> Result<()> {
        let known = |spec: &Spec| plan.specs.contains(spec) || self.queue.handled.contains(&spec.shown());
        let found = super::queue::plan(self.batch.context.layout, selection)?;
        let new = found.specs.iter().filter(|spec| !known(spec)).count();
        if new > 0 {
            let new = count(new, "spec");
            self.batch.note(&format!("{new} appeared during this run; left for the next `decree process`"));
        }
        Ok(())
    }
}

fn summary_of(message: &Message, verdict: Verdict) -> MessageSummary {
    let mut summary = MessageSummary::without_run(message.name(), verdict);
    summary.id = Some(message.id.to_string());
    summary.seq = message.id.seq;
    summary.run.spec = message.spec().map(str::to_owned);
    summary.run.routine = message.document.get_text("routine");
    summary
}
