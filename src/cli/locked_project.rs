//! What commands that change the tree have in common: the lock, and what is left to be settled; and for those that carry
//! messages out the reporter and the closing words.

use std::io::{self, IsTerminal};
use std::time::Duration;

use super::{Context, Format};
use crate::checkpoint::progress::Progress;
use crate::checkpoint::workspace::Workspace;
use crate::doctor;
use crate::error::{ErrorKind, IoContext, Result};
use crate::github;
use crate::history::HistoryContext;
use crate::pipeline::Summary;
use crate::pipeline::events::Reporter;
use crate::pipeline::{MessageSummary, Pipeline, RunOverrides, UnfinishedRun};
use crate::process;
use crate::project::{Lock, Project, parse_duration};
use crate::report::text::{self, Paint};
use crate::report::{ReportLimits, load};
use crate::ui::{LineReporter, LiveReporter};

/// Limits that outrank what config, messages and specs say.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LimitArgs {
    /// Limit for each attempt (30s, 10m, 1h30m; 0 for none), whatever config and specs say
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Retries before a message is given up, whatever the config says
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
}

impl LimitArgs {
    /// For the pipeline.
    pub fn settings(self) -> RunOverrides {
        RunOverrides { timeout: self.timeout, max_retries: self.max_retries, routine: None }
    }
}

/// A project that this command has to itself.
pub struct LockedProject<'c> {
    context: &'c Context,
    pub project: Project,
    pub workspace: Workspace,
    command: &'static str,
    lock: Lock,
    /// What was left by an earlier decree and is settled now.
    settled: Vec<MessageSummary>,
}

impl<'c> LockedProject<'c> {
    /// Takes the project.
    pub fn open(context: &'c Context, command: &'static str) -> Result<Self> {
        let project = context.project()?;
        let workspace = project.workspace()?;
        let lock = context.lock(&project, &workspace, command)?;
        process::become_subreaper().at("take in orphans in", project.layout.root())?;
        let mut shop = LockedProject { context, project, workspace, command, lock, settled: Vec::new() };
        shop.settled = shop.settle_unfinished()?;
        Ok(shop)
    }

    /// What checkpoints are made of and put back to.
    pub fn site<'s>(&'s self, progress: &'s dyn Progress) -> HistoryContext<'s> {
        super::context::history_context(&self.project, &self.workspace, progress)
    }

    /// A missing tool should cost a second, and no attempts.
    pub fn preflight(&self, routines: &[String]) -> Result<()> {
        doctor::preflight(&self.project, routines)
    }

    /// Settles the run that an earlier decree left; on a terminal, asks first.
    fn settle_unfinished(&self) -> Result<Vec<MessageSummary>> {
        let Some(unfinished) = UnfinishedRun::find(&self.project.layout)? else {
            return Ok(Vec::new());
        };
        if unfinished.in_attempt {
            self.context.confirm_revert(&unfinished)?;
        }
        self.with_reporter(|reporter| self.pipeline(RunOverrides::default(), reporter)?.recover())
    }

    /// Does the work.
    pub fn work(
        &mut self,
        settings: RunOverrides,
        work: impl FnOnce(Pipeline<'_>) -> Result<Summary>,
    ) -> Result<Summary> {
        self.with_reporter(|reporter| {
            let mut pipeline = self.pipeline(settings, reporter)?;
            pipeline.adopt_recovered(&self.settled);
            work(pipeline)
        })
    }

    fn pipeline<'w>(
        &'w self,
        settings: RunOverrides,
        reporter: &'w mut dyn Reporter,
    ) -> Result<Pipeline<'w>> {
        Pipeline::new(&self.project, &self.workspace, &self.lock, settings, self.command, reporter)
    }

    fn with_reporter<T>(&self, work: impl FnOnce(&mut dyn Reporter) -> Result<T>) -> Result<T> {
        let ui = self.context.ui;
        // A runner may hand out a terminal; its log is read by people later all the same.
        let live = io::stderr().is_terminal() && !ui.is_quiet() && !self.context.verbose;
        match live && !github::in_actions() {
            true => work(&mut LiveReporter::new(ui)),
            false => work(&mut LineReporter::new(ui, self.project.config.log_limit)),
        }
    }

    /// In GitHub Actions: annotations, outputs, the step's page. The work is done; that it cannot be told is no failure.
    fn tell_github(&self) {
        let ui = &self.context.ui;
        if !github::in_actions() {
            return;
        }
        let path = self.project.layout.summary();
        let told = load(&path, ReportLimits::EXCERPTS).and_then(|report| {
            let Some(report) = report else { return Ok(()) };
            let place = github::in_workspace(self.project.layout.root());
            ui.command(&github::step_report::annotations(&report.summary, &place));
            github::step_report::write_outputs(&github::StepFiles::from_environment(), &report, &path)
        });
        if let Err(error) = told {
            ui.warn(&format!("what was done cannot be told to GitHub: {error}"));
        }
    }

    /// The closing words, and the exit code.
    pub fn tell(&self, summary: Result<Summary>, format: Format) -> Result<u8> {
        let ui = &self.context.ui;
        if summary.as_ref().err().is_none_or(|error| matches!(error.kind(), ErrorKind::Interrupted { .. })) {
            self.tell_github();
        }
        let summary = match summary {
            Err(error) if format == Format::Json && matches!(error.kind(), ErrorKind::Interrupted { .. }) => {
                // What was done until then was written down.
                let path = self.project.layout.summary();
                ui.print(&std::fs::read_to_string(&path).at("read", &path)?)?;
                return Err(error);
            }
            summary => summary?,
        };
        match format {
            Format::Json => {
                let text = serde_json::to_string_pretty(&summary).expect("a summary is plain data");
                ui.print(&format!("{text}\n"))?;
            }
            Format::Text => ui.print(&text::closing(&summary, Paint(ui.colors_output())))?,
        }
        Ok(if summary.all_kept() { 0 } else { 1 })
    }
}
