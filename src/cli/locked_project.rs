//! What commands that change the tree share: the lock, and the settlement of an unfinished run. Commands that run messages also
//! get their reporter and their closing report here.

use std::io::{self, IsTerminal};
use std::time::Duration;

use serde_json::Value;

use super::{Context, Format};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::progress::Progress;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::github;
use crate::history::{GuardRecord, HistoryContext, PendingGitRestore, SettledGuard};
use crate::pipeline::events::Reporter;
use crate::pipeline::{
    ActiveBatch, ActiveRun, MessageSummary, Pipeline, RecoveredRun, RunLog, RunOverrides, Summary,
    not_restored_error,
};
use crate::process;
use crate::project::{Lock, Project, parse_duration};
use crate::report::text::{self, Paint};
use crate::report::{ReportLimits, load};
use crate::ui::{LineReporter, LiveReporter};

/// Limits that override config, messages and specs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LimitArgs {
    /// Time limit of each attempt (90s, 1h30m, 2d; 0 for none); overrides config and specs
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Retries before a message fails; overrides the config
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
}

impl LimitArgs {
    pub fn overrides(self) -> RunOverrides {
        RunOverrides { timeout: self.timeout, max_retries: self.max_retries, routine: None }
    }
}

/// The command that settles what no other can.
pub const RECOVER: &str = "recover";

pub struct LockedProject<'c> {
    context: &'c Context,
    pub project: Project,
    pub workspace: Workspace,
    command: &'static str,
    lock: Lock,
    /// What an earlier process left unfinished and this one settled.
    settled: Vec<MessageSummary>,
}

impl<'c> LockedProject<'c> {
    /// Locks the project for a command that starts work, and settles what an earlier process left unfinished.
    pub fn open(context: &'c Context, command: &'static str) -> Result<Self> {
        let mut locked = Self::lock(context, context.project()?, command)?;
        if let Some(guard) = GuardRecord::find(&locked.project.layout) {
            return Err(guard.refusal(command));
        }
        locked.settled = locked.settle_unfinished()?;
        PendingGitRestore::refuse(&locked.project.layout)?;
        locked.project.check_queue()?;
        Ok(locked)
    }

    /// The same for a command that goes back, which a broken config does not keep from it.
    pub fn open_to_go_back(context: &'c Context, command: &'static str) -> Result<Self> {
        let mut locked = Self::lock(context, context.project_despite_config()?, command)?;
        locked.settled = locked.settle_unfinished()?;
        Ok(locked)
    }

    /// The lock, for work that may delete its file.
    pub fn held_lock(&self) -> &Lock {
        &self.lock
    }

    /// Locks the project for `recover`, which settles what is unfinished in its own way.
    pub fn open_unsettled(context: &'c Context, command: &'static str) -> Result<Self> {
        Self::lock(context, context.project_despite_config()?, command)
    }

    fn lock(context: &'c Context, project: Project, command: &'static str) -> Result<Self> {
        let workspace = project.workspace()?;
        let lock = context.lock(&project, &workspace, command)?;
        // Whatever the lock says of the end of the process that held it: the routine could write that, too.
        if GuardRecord::find(&project.layout).is_some()
            || !matches!(ActiveRun::read(&project.layout), Ok(None))
        {
            workspace.forget_cache();
        }
        process::become_subreaper().at("adopt orphaned processes in", project.layout.root())?;
        let locked = LockedProject { context, project, workspace, command, lock, settled: Vec::new() };
        match locked.finish_git_restores() {
            // It is what helps against a record that cannot be read.
            Err(error) if command == RECOVER => context.warn(&error.to_string()),
            finished => finished?,
        }
        Ok(locked)
    }

    /// Tries the restores of git's own state again that failed.
    pub fn finish_git_restores(&self) -> Result<()> {
        let layout = &self.project.layout;
        let tried =
            PendingGitRestore::finish(layout, &self.workspace, &RunLog::new(layout, self.workspace.store()))?;
        tried.iter().flat_map(|it| &it.lines).for_each(|line| self.context.warn(line));
        Ok(())
    }

    /// Settles the unfinished run even if it cannot be reverted as a whole; `None` if there is none.
    pub fn recover_run(&self, dry_run: bool) -> Result<Option<RecoveredRun>> {
        if let Some(unfinished) = ActiveRun::read(&self.project.layout)? {
            self.project.check_queue()?;
            unfinished.unlock_dir();
        }
        self.with_reporter(|reporter| {
            self.pipeline(RunOverrides::default(), reporter)?.recover_partially(dry_run)
        })
    }

    pub fn history_context<'s>(&'s self, progress: &'s dyn Progress) -> HistoryContext<'s> {
        super::context::history_context(&self.project, &self.workspace, progress)
    }

    /// The guarded command that was cut off, and whose checkpoint this is.
    pub fn guard_of(&self, checkpoint: &CheckpointDir) -> Option<GuardRecord> {
        let found = GuardRecord::find(&self.project.layout);
        found.filter(|guard| guard.checkpoint() == Some(checkpoint.id()))
    }

    /// Moves back what a guarded command had renamed, before the tree is rolled back. `refused` is as for [`GuardRecord::prepare`].
    pub fn prepare_guard(
        &self,
        guard: &GuardRecord,
        checkpoint: &CheckpointDir,
        refused: Option<&str>,
    ) -> Result<()> {
        let progress = self.context.ui.progress();
        let moved = guard.prepare(self.history_context(&progress), checkpoint, refused)?;
        moved.iter().for_each(|text| self.context.warn(text));
        Ok(())
    }

    /// Restores what belongs to a guarded command beside the tree, which was rolled back.
    pub fn settle_guard(&self, guard: &GuardRecord, checkpoint: &CheckpointDir) -> Result<SettledGuard> {
        let progress = self.context.ui.progress();
        guard.settle(self.history_context(&progress), checkpoint)
    }

    /// Settles the run that an earlier process left unfinished; asks first on a terminal.
    fn settle_unfinished(&self) -> Result<Vec<MessageSummary>> {
        let Some(unfinished) = ActiveRun::read(&self.project.layout)? else {
            return Ok(Vec::new());
        };
        self.project.check_queue()?;
        unfinished.unlock_dir();
        if unfinished.is_in_attempt()? {
            self.context.confirm_revert(&unfinished)?;
        }
        self.with_reporter(|reporter| self.pipeline(RunOverrides::default(), reporter)?.recover())
    }

    /// Runs messages with a pipeline, and a reporter for where the output goes.
    pub fn work(
        &mut self,
        overrides: RunOverrides,
        work: impl FnOnce(Pipeline<'_>) -> Result<Summary>,
    ) -> Result<Summary> {
        self.with_reporter(|reporter| {
            let mut pipeline = self.pipeline(overrides, reporter)?;
            pipeline.adopt_recovered(&self.settled);
            work(pipeline)
        })
    }

    fn pipeline<'w>(
        &'w self,
        overrides: RunOverrides,
        reporter: &'w mut dyn Reporter,
    ) -> Result<Pipeline<'w>> {
        ActiveBatch::new(&self.project, &self.workspace, &self.lock, overrides, self.command, reporter)
            .map(Pipeline::new)
    }

    fn with_reporter<T>(&self, work: impl FnOnce(&mut dyn Reporter) -> Result<T>) -> Result<T> {
        let ui = self.context.ui;
        // A CI runner may provide a terminal, but its output is read as a log.
        let live = io::stderr().is_terminal() && !ui.quiet && !self.context.verbose;
        if live && !github::in_actions() {
            work(&mut LiveReporter::new(ui))
        } else {
            work(&mut LineReporter::new(ui, self.project.config.log_limit))
        }
    }

    /// Writes annotations, outputs and the step summary in GitHub Actions. The work is done, so a failure is only a warning.
    fn report_to_github(&self) {
        let ui = &self.context.ui;
        if !github::in_actions() {
            return;
        }
        let path = self.project.layout.summary();
        let written = load(&path, ReportLimits::EXCERPTS).and_then(|report| {
            let Some(report) = report else { return Ok(()) };
            let place = github::in_workspace(self.project.layout.root());
            ui.command(&github::step_report::annotations(&report.summary, &place));
            github::step_report::write_outputs(&github::StepFiles::from_environment(), &report, &path)
        });
        if let Err(error) = written {
            ui.warn(&format!("cannot report to GitHub: {error}"));
        }
    }

    /// Prints the closing report and returns the exit code.
    pub fn report(&self, summary: Result<Summary>, format: Format) -> Result<u8> {
        let ui = &self.context.ui;
        if summary.as_ref().err().is_none_or(|error| matches!(error.kind(), ErrorKind::Interrupted { .. })) {
            self.report_to_github();
        }
        let summary = match summary {
            Err(error) if format == Format::Json && matches!(error.kind(), ErrorKind::Interrupted { .. }) => {
                // The summary of what was done before the signal was written.
                let path = self.project.layout.summary();
                let text = std::fs::read(&path).at("read", &path)?;
                let mut answer: Value =
                    serde_json::from_slice(&text).map_err(|why| Error::damaged(&path, why))?;
                answer["error"] = error.to_json();
                ui.print_json(&answer)?;
                return Err(error.answered());
            }
            summary => summary?,
        };
        let not_restored = not_restored_error(&summary);
        match (format, &not_restored) {
            (Format::Json, None) => ui.print(&summary.to_json())?,
            (Format::Json, Some(error)) => {
                let mut answer: Value =
                    serde_json::from_str(&summary.to_json()).expect("a summary is valid JSON");
                answer["error"] = error.to_json();
                ui.print_json(&answer)?;
            }
            (Format::Text, _) => ui.print(&text::closing(&summary, Paint(ui.color_out)))?,
        }
        if let Some(error) = not_restored {
            return Err(if format == Format::Json { error.answered() } else { error });
        }
        if summary.has_unrestored_git() {
            return Ok(ErrorKind::Integrity.exit_code());
        }
        Ok(if summary.all_kept() { 0 } else { 1 })
    }
}
