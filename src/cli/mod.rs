//! The command line: parses it and calls the one file per command that carries it out.
//!
//! - [`context`]: what every command starts from: output, directory, locking the project
//! - [`locked_project`]: the project with its lock held and earlier runs settled, for commands that change the tree
//! - [`mod@format`]: the values of `--format`

mod apply;
mod audit;
mod checkpoint;
mod comment;
mod context;
mod demo;
mod diff;
mod doctor;
mod format;
mod guard;
mod init;
mod locked_project;
mod log;
mod process;
mod publish;
mod recover;
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

use context::Context;
use format::{ContractFormat, Format};

use crate::error::Result;
use crate::ui::{Color, Ui};

/// Runs AI coding agents unattended: keeps what passes your check, and reverts every byte of what fails.
#[derive(Debug, Parser)]
#[command(name = "decree", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Work in this directory instead of the current one
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Global options")]
    directory: Option<PathBuf>,

    /// When to use colours
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t,
        global = true,
        help_heading = "Global options"
    )]
    color: Color,

    /// Print only data, warnings and errors
    #[arg(short, long, global = true, help_heading = "Global options", conflicts_with = "verbose")]
    quiet: bool,

    /// Print the whole output of routines, also on a terminal
    #[arg(long, global = true, help_heading = "Global options")]
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
    Recover(recover::RecoverArgs),
    Guard(guard::GuardArgs),
    Audit(audit::AuditArgs),
    Apply(apply::ApplyArgs),
    Doctor(doctor::DoctorArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
}

impl Cli {
    /// Whether decree's own signal handlers apply. The supervisor installs its own.
    pub fn is_interruptible(&self) -> bool {
        !matches!(self.command, Command::Supervise(_))
    }
    pub fn ui(&self) -> Ui {
        Ui::new(self.color, self.quiet)
    }
}

/// Carries out a parsed command line and returns its exit code. The caller prints the error and maps it to an exit code.
pub fn run(cli: Cli) -> Result<u8> {
    let ui = cli.ui();
    let directory = cli.directory.unwrap_or_else(|| PathBuf::from("."));
    let context = Context { ui, directory, verbose: cli.verbose };
    match cli.command {
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
        Command::Recover(args) => recover::recover(&context, &args),
        Command::Guard(args) => guard::guard(&context, &args),
        Command::Audit(args) => audit::audit(&context, &args).map(|()| 0),
        Command::Apply(args) => apply::apply(&context, &args).map(|()| 0),
        Command::Doctor(args) => doctor::doctor(&context, &args),
        Command::Demo(args) => demo::demo(&context, &args),
        Command::Supervise(args) => Ok(supervise::supervise(&ui, args)),
    }
}
