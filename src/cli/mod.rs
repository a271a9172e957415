//! The command line: parses it and calls the one file per command that carries it out.
//!
//! - [`context`]: what every command starts from: output, directory, locking the project
//! - [`locked_project`]: the project with its lock held and earlier runs settled, for commands that change the tree
//! - [`mod@format`]: the values of `--format`
//! - [`expiry`]: the values of `--expiry`
//! - [`failure`]: a failure as an answer to a program

mod apply;
mod audit;
mod checkpoint;
mod comment;
mod context;
mod demo;
mod diff;
mod doctor;
mod expiry;
mod failure;
mod format;
mod guard;
mod guard_answer;
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
mod rollback_answer;
mod run;
mod stage;
mod status;
mod supervise;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use context::Context;
pub use failure::{FailureAnswer, refuse_usage};
use format::{ContractFormat, Format};

use crate::error::{Error, Result};
use crate::ui::{Color, Ui};

/// The table in README.md, for `--help`.
const EXIT_CODES: &str = "Exit codes:
  0              everything succeeded
  1              a message failed, or a conflict or an error stopped the command
  2              wrong usage
  3              not a decree project, a bad config, or an unknown or ambiguous id
  4              integrity: something could not be restored, verified or saved
  5              another decree process holds the lock
  129, 130, 143  interrupted; the tree was reverted, or is as it was, unless the message
                 says otherwise. The same signal twice: decree stopped at once, and the
                 next `decree process` reverts the tree";

/// Runs AI coding agents unattended: keeps what passes your check, and reverts every byte of what fails.
#[derive(Debug, Parser)]
#[command(name = "decree", version, max_term_width = 100, disable_help_subcommand = true, after_help = EXIT_CODES)]
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

    /// What the command prints to standard output if it fails.
    pub fn failure_answer(&self) -> FailureAnswer {
        match &self.command {
            Command::Run(args) => FailureAnswer::new(args.format),
            Command::Process(args) => FailureAnswer::new(args.format),
            Command::Status(args) => FailureAnswer::new(args.format),
            Command::Doctor(args) => FailureAnswer::new(args.format),
            Command::Comment(args) => FailureAnswer::new(args.format),
            Command::Publish(args) => FailureAnswer::new(args.format),
            Command::Audit(args) => FailureAnswer::new(args.format),
            Command::Recover(args) => FailureAnswer::new(args.format),
            Command::Report(args) => args.failure_answer(),
            Command::Checkpoint(args) => args.failure_answer(),
            Command::Rollback(args) => FailureAnswer::new(args.format).with_contract("rolled_back"),
            Command::Guard(args) => FailureAnswer::new(args.format).with_contract("rolled_back"),
            Command::Init(_)
            | Command::Log(_)
            | Command::Stage(_)
            | Command::Retry(_)
            | Command::Diff(_)
            | Command::Revert(_)
            | Command::Apply(_)
            | Command::Demo(_)
            | Command::Supervise(_) => FailureAnswer::default(),
        }
    }
}

/// Carries out a parsed command line and returns its exit code. The caller prints the error and maps it to an exit code.
pub fn run(cli: Cli) -> Result<u8> {
    let ui = cli.ui();
    let directory = cli.directory.unwrap_or_else(|| PathBuf::from("."));
    let context = Context::new(ui, directory, cli.verbose);
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
        Command::Revert(args) => revert::revert(&context, &args).map(|()| 0).map_err(Error::if_not_restored),
        Command::Rollback(args) => {
            rollback::rollback(&context, &args).map(|()| 0).map_err(Error::if_not_restored)
        }
        Command::Recover(args) => recover::recover(&context, &args),
        Command::Guard(args) => guard::guard(&context, &args),
        Command::Audit(args) => audit::audit(&context, &args).map(|()| 0),
        Command::Apply(args) => apply::apply(&context, &args).map(|()| 0),
        Command::Doctor(args) => doctor::doctor(&context, &args),
        Command::Demo(args) => demo::demo(&context, &args),
        Command::Supervise(args) => Ok(supervise::supervise(&ui, args)),
    }
}
