//! What the steps of the pipeline work with: the project, which none of them changes, and the batch of messages that a command
//! works on, with everything that the steps report and count. No secret passes through.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::budget::BudgetMeter;
use super::events::{Event, Reporter};
use super::result::RunRecord;
use super::summary::{MessageSummary, Summary};
use crate::checkpoint::progress::Progress;
use crate::checkpoint::workspace::Workspace;
use crate::error::{ErrorKind, Result};
use crate::history::own_files::LastingFiles;
use crate::history::uncaptured::HeldForRun;
use crate::message::{Inbox, QueueView};
use crate::process::environment::child_environment;
use crate::process::redact::Redactor;
use crate::project::{Config, Layout, Lock, Project, RoutineName};
use crate::routine::Routines;
use crate::sanitize::one_line;

/// Options of the command line that override the config.
#[derive(Clone, Debug, Default)]
pub struct RunOverrides {
    /// The limit of every attempt, whatever config and front matter say.
    pub timeout: Option<Duration>,
    /// The number of retries, whatever the config says.
    pub max_retries: Option<u32>,
    /// The routine of messages and specs that name none; the router is not asked then.
    pub routine: Option<RoutineName>,
}

/// The project as one command of decree sees it.
pub(super) struct PipelineContext<'p> {
    pub layout: &'p Layout,
    pub config: &'p Config,
    pub workspace: &'p Workspace,
    pub lock: &'p Lock,
    pub overrides: RunOverrides,
    pub routines: Routines,
    pub inbox: Inbox,
    /// What routines, hooks and the router inherit.
    pub environment: BTreeMap<OsString, OsString>,
}

/// What one command is doing: what it reports, what it has used of the budget, and what it has done.
pub struct ActiveBatch<'p> {
    pub(super) context: PipelineContext<'p>,
    pub(super) reporter: &'p mut dyn Reporter,
    pub(super) redactor: Redactor,
    pub(super) meter: BudgetMeter,
    pub(super) summary: Summary,
    /// What is held of the run in progress that its checkpoint does not hold.
    pub(super) uncaptured: Option<HeldForRun>,
    pub(super) queue: QueueView,
    /// The queue, checkpoints and earlier runs, as they were held for the last routine.
    pub(super) own_files: Option<LastingFiles>,
    /// The router is not asked again once it has timed out: it would cost its time limit for every message.
    pub(super) router_timed_out: bool,
    began: Instant,
}

impl PipelineContext<'_> {
    /// The limit of an attempt that neither message nor spec limits; zero means none.
    pub fn timeout(&self) -> Duration {
        self.overrides.timeout.unwrap_or(self.config.timeout)
    }
}

impl<'p> ActiveBatch<'p> {
    pub fn new(
        project: &'p Project,
        workspace: &'p Workspace,
        lock: &'p Lock,
        overrides: RunOverrides,
        command: &str,
        reporter: &'p mut dyn Reporter,
    ) -> Result<Self> {
        let (layout, config) = (&project.layout, &project.config);
        let (routines, inbox) = (Routines::of(project)?, Inbox::of(layout));
        let environment = child_environment(std::env::vars_os(), &config.pass_env);
        let context =
            PipelineContext { layout, config, workspace, lock, overrides, routines, inbox, environment };
        Ok(ActiveBatch {
            context,
            reporter,
            redactor: Redactor::of_this_process(),
            meter: BudgetMeter::new(config.budget.clone()),
            summary: Summary::new(command),
            uncaptured: None,
            queue: QueueView::new(layout),
            own_files: None,
            router_timed_out: false,
            began: Instant::now(),
        })
    }

    pub fn progress(&self) -> &dyn Progress {
        self.reporter.progress()
    }

    pub fn event(&mut self, event: &Event<'_>) {
        self.reporter.event(event);
    }

    pub fn note(&mut self, text: &str) {
        self.event(&Event::Note(text));
    }

    pub fn warn(&mut self, text: &str) {
        let text = one_line(&self.redactor.redact(text));
        self.event(&Event::Warning(&text));
    }

    /// A warning that the run's record has, too.
    pub fn warn_in(&mut self, run: &mut RunRecord, text: String) {
        self.warn(&text);
        run.warnings.push(text);
    }

    /// Reports the outcome of a message and adds it to the summary.
    pub fn record(&mut self, mut message: MessageSummary) {
        message.run.reason = one_line(&message.run.reason);
        message.redact(&self.redactor);
        self.event(&Event::MessageEnds(&message));
        self.summary.add(message);
    }

    /// Writes the summary, whether the work succeeded or failed.
    pub fn finish(mut self, done: Result<()>) -> Result<Summary> {
        if let Err(error) = &done
            && let ErrorKind::Interrupted { signal } = error.kind()
        {
            self.summary.interrupted = Some(signal);
        }
        if !self.context.layout.running().exists() && self.queue.refresh_unwatched().is_ok() {
            self.queue.update_second_names();
        }
        self.summary.duration_ms = self.began.elapsed().as_millis() as u64;
        let written = self.summary.write(&self.context.layout.summary());
        self.event(&Event::End);
        done.and(written)?;
        Ok(self.summary)
    }
}
