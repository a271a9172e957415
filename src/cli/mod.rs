//! The command line: one file a command.

mod apply;
mod audit;
mod checkpoint;
mod comment;
mod demo;
mod diff;
mod doctor;
mod guard;
mod init;
mod locked_project;
mod log;
mod process;
mod publish;
mod report;
mod retry;
mod revert;
mod rollback;
mod run;
mod stage;
mod status;
mod supervise;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::checkpoint::progress::Progress;
use crate::checkpoint::restore::RecoveredRestore;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::history::audit::AuditEntry;
use crate::history::{self, GuardRecord, HistoryContext};
use crate::pipeline::UnfinishedRun;
use crate::project::{Lock, Project};
use crate::ui::{Color, Ui};

/// Carries out specs with AI agents unattended, and puts every byte back when they fail.
#[derive(Debug, Parser)]
#[command(name = "decree", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Work in this directory instead of the current one
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Everywhere")]
    directory: Option<PathBuf>,

    /// When to use colours
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        global = true,
        help_heading = "Everywhere"
    )]
    color: Color,

    /// Say nothing but data, warnings and errors
    #[arg(short, long, global = true, help_heading = "Everywhere", conflicts_with = "verbose")]
    quiet: bool,

    /// Show everything a routine says, on a terminal too
    #[arg(long, global = true, help_heading = "Everywhere")]
    verbose: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Run(run::RunArgs),
    Process(process::ProcessArgs),
    Status(status::StatusArgs),
    Log(log::LogArgs),
    Report(report::ReportArgs),
    Stage(stage::StageArgs),
    Comment(comment::CommentArgs),
    Publish(publish::PublishArgs),
    Retry(retry::RetryArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Diff(diff::DiffArgs),
    Revert(revert::RevertArgs),
    Rollback(rollback::RollbackArgs),
    Guard(guard::GuardArgs),
    Audit(audit::AuditArgs),
    Apply(apply::ApplyArgs),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
}

impl Cli {
    /// Whether signals mean to this command what they mean to decree: a supervisor has its own ways.
    pub fn is_interruptible(&self) -> bool {
        !matches!(self.command, Command::Supervise(_))
    }
}

/// What a command works with.
struct Context {
    ui: Ui,
    directory: PathBuf,
    verbose: bool,
}

impl Context {
    /// A command line of decree that does the same from where the caller stands.
    fn command_line(&self, words: &str) -> String {
        match self.directory.to_str() {
            Some(directory) if directory != "." => {
                format!("decree -C {} {words}", shell_words::quote(directory))
            }
            _ => format!("decree {words}"),
        }
    }

    fn project(&self) -> Result<Project> {
        Project::find(&self.directory)
    }

    /// Takes the project for a command that changes things, and tells what was left to be finished.
    fn lock(&self, project: &Project, workspace: &Workspace, command: &str) -> Result<Lock> {
        let (lock, recovered) = project.lock(workspace, command)?;
        for RecoveredRestore { what, finished, set_aside } in recovered {
            let how = if finished { "finished" } else { "undone" };
            self.ui.warn(&format!("`{what}` had been cut off; it was {how}"));
            for (path, to) in &set_aside {
                self.ui.warn(&format!("{path} was in the way; it is in {}", to.display()));
            }
            if finished && let Some(deed) = AuditEntry::of_recovered(&what) {
                history::audit::record(&project.layout.audit(), deed)?;
            }
        }
        if let Some(id) = history::finish_cut_off(&project.layout)? {
            self.ui.warn(&format!("`rollback {id}` had been cut off; it was finished"));
        }
        if let Some(guarding) = GuardRecord::take_cut_off(&project.layout)? {
            self.ui.warn(&guarding.warning());
        }
        Ok(lock)
    }

    /// For commands that only look: says what is waiting, and leaves it.
    fn tell_unfinished(&self, project: &Project) {
        if project.has_unfinished_restore() {
            self.ui.warn(
                "a revert or apply was cut off; the next command that changes things finishes or undoes it",
            );
        }
        if let Ok(Some(guarding)) = GuardRecord::find(&project.layout)
            && Lock::is_free(&project.layout.lock())
        {
            self.ui.warn(&guarding.warning());
        }
        if let Ok(Some(run)) = UnfinishedRun::find(&project.layout)
            && Lock::is_free(&project.layout.lock())
        {
            self.ui
                .warn(&format!("run {} was cut off; the next `decree process` or `run` settles it", run.id));
        }
    }
}

/// A damaged part of the store is worth a word, whoever meets it.
fn tell_damaged_packs(context: &Context, workspace: &Workspace) {
    for pack in workspace.store().damaged_packs().unwrap_or_default() {
        context.ui.warn(&format!(
            "the store is damaged: {} cannot be read; what the tree still has of it is stored anew, and `decree checkpoint verify --all` tells what is lost",
            pack.display()
        ));
    }
}

/// What checkpoints are made of and put back to.
fn site<'s>(
    project: &'s Project,
    workspace: &'s Workspace,
    progress: &'s dyn Progress,
) -> HistoryContext<'s> {
    HistoryContext { layout: &project.layout, config: &project.config, workspace, progress }
}

/// A person may have edited since a run was cut off; on a terminal they are asked before the tree is put back.
fn ask_to_put_back(context: &Context, unfinished: &UnfinishedRun) -> Result<()> {
    let question = format!(
        "run {} of {} was cut off. Save the tree as it is and put it back to what it was before?",
        unfinished.id, unfinished.started_at
    );
    match context.ui.confirm(&question)? {
        true => Ok(()),
        false => Err(Error::failed("nothing was done")
            .detail("the tree is as the run left it; the next command asks again")
            .hint(format!(
                "`decree diff {}` shows nothing before it is settled; `git diff` may",
                unfinished.id
            ))),
    }
}

/// Runs a parsed command line; returns the exit code.
pub fn run(cli: Cli) -> u8 {
    let ui = Ui::new(cli.color, cli.quiet);
    let directory = cli.directory.unwrap_or_else(|| PathBuf::from("."));
    let context = Context { ui, directory, verbose: cli.verbose };
    let result = match cli.command {
        Command::Init(args) => init::init(&context, &args).map(|()| 0),
        Command::Run(args) => run::run(&context, args),
        Command::Process(args) => process::process(&context, args),
        Command::Status(args) => status::status(&context, &args).map(|()| 0),
        Command::Log(args) => log::log(&context, &args).map(|()| 0),
        Command::Report(args) => report::report(&context, &args).map(|()| 0),
        Command::Stage(args) => stage::stage(&context, &args).map(|()| 0),
        Command::Comment(args) => comment::comment(&context, &args).map(|()| 0),
        Command::Publish(args) => publish::publish(&context, &args).map(|()| 0),
        Command::Retry(args) => retry::retry(&context, &args).map(|()| 0),
        Command::Checkpoint(args) => checkpoint::checkpoint(&context, args).map(|()| 0),
        Command::Diff(args) => diff::diff(&context, &args).map(|()| 0),
        Command::Revert(args) => revert::revert(&context, &args).map(|()| 0),
        Command::Rollback(args) => rollback::rollback(&context, &args).map(|()| 0),
        Command::Guard(args) => guard::guard(&context, &args),
        Command::Audit(args) => audit::audit(&context, &args).map(|()| 0),
        Command::Apply(args) => apply::apply(&context, &args).map(|()| 0),
        Command::Doctor(args) => doctor::doctor(&context, &args),
        Command::Demo(args) => demo::demo(&context, &args),
        Command::Supervise(args) => return supervise::supervise(&ui, args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            ui.error(&error);
            error.kind().exit_code()
        }
    }
}

/// How listing and reporting commands answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How commands answer whose answers are contracts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ContractFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For programs that would rather read YAML.
    Yaml,
}

impl ContractFormat {
    /// A value as a document; text is JSON here, as it has no other form for values.
    fn render(self, value: &serde_json::Value) -> String {
        match self {
            ContractFormat::Yaml => crate::yaml::emit(value),
            ContractFormat::Text | ContractFormat::Json => format!("{value:#}\n"),
        }
    }
}
