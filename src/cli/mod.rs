//! The command line: one file a command.

mod apply;
mod checkpoint;
mod diff;
mod init;
mod revert;
mod supervise;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::checkpoint::restore::Recovered;
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::project::{Lock, Project};
use crate::ui::{Color, Ui};

/// Carries out specs with AI agents unattended, and puts every byte back when they fail.
#[derive(Debug, Parser)]
#[command(name = "decree", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Work in this directory instead of the current one
    #[arg(short = 'C', value_name = "DIR", global = true)]
    directory: Option<PathBuf>,

    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true)]
    color: Color,

    /// Say nothing but data, warnings and errors
    #[arg(short, long, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Diff(diff::DiffArgs),
    Revert(revert::RevertArgs),
    Apply(apply::ApplyArgs),
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
}

impl Context {
    fn project(&self) -> Result<Project> {
        Project::find(&self.directory)
    }

    /// Takes the project for a command that changes things, and tells what was left to be finished.
    fn lock(&self, project: &Project, workspace: &Workspace, command: &str) -> Result<Lock> {
        let (lock, recovered) = project.lock(workspace, command)?;
        for Recovered { what, finished } in recovered {
            let how = if finished { "finished" } else { "undone" };
            self.ui.warn(&format!("`{what}` had been cut off; it was {how}"));
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
    }
}

/// Runs a parsed command line; returns the exit code.
pub fn run(cli: Cli) -> u8 {
    let ui = Ui::new(cli.color, cli.quiet);
    let directory = cli.directory.unwrap_or_else(|| PathBuf::from("."));
    let context = Context { ui, directory };
    let result = match cli.command {
        Command::Init(args) => init::init(&context, &args),
        Command::Checkpoint(args) => checkpoint::checkpoint(&context, args),
        Command::Diff(args) => diff::diff(&context, &args),
        Command::Revert(args) => revert::revert(&context, &args),
        Command::Apply(args) => apply::apply(&context, &args),
        Command::Supervise(args) => return supervise::supervise(&ui, args),
    };
    match result {
        Ok(()) => 0,
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
