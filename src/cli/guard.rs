//! `decree guard`

use std::ffi::OsString;

use super::Context;
use super::checkpoint::{Lifetime, lifetime};
use super::locked_project::LockedProject;
use super::rollback::lines;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, ErrorKind, Result};
use crate::history::own_files::RepairReport;
use crate::history::{Guard, GuardRequest, RollbackReport, Scope, ScopeWords};
use crate::humanize::count;

/// Checkpoint the tree, run a command, and roll the tree back if it fails
///
/// The command inherits the terminal, stdin, stdout and stderr, and decree exits with its exit code. With --verify, a second
/// command has to succeed as well. If either fails, or decree is interrupted, everything that changed is rolled back to the checkpoint and
/// verified; what the command had done stays saved as another checkpoint. Exit code 4: the tree could not be rolled back.
/// Both commands find the checkpoint's id in DECREE_CHECKPOINT.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree guard -- npm update\n  decree guard --verify 'cargo test' -- cargo fix --allow-dirty\n  decree guard --scope migrations --reason 'schema 12' -- ./migrate.sh"
)]
pub struct GuardArgs {
    /// A shell command that has to succeed afterwards
    #[arg(long, value_name = "COMMAND")]
    verify: Option<String>,

    /// Roll back only this path and what is below it, or what matches this pattern (repeatable)
    #[arg(long, value_name = "PATH|GLOB")]
    scope: Vec<String>,

    /// The reason, which is recorded with the checkpoint
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// When the checkpoint expires: a time from now (24h, 7d, 2w), or never
    #[arg(long, value_name = "DURATION", default_value = "never", value_parser = lifetime)]
    expiry: Lifetime,

    /// The program to run, and its arguments; no shell interprets them
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn guard(context: &Context, args: &GuardArgs) -> Result<u8> {
    let locked = LockedProject::open(context, "guard")?;
    let words = ScopeWords { list: args.scope.clone(), directory: context.directory.clone() };
    let scope = Scope::parse(&words, locked.workspace.root(), &|_| false)?;
    let progress = context.ui.progress();
    let request = GuardRequest {
        command: &args.command,
        verify: args.verify.as_deref(),
        directory: &context.directory,
        scope,
        reason: args.reason.clone(),
        lifetime: args.expiry.0,
    };
    let guard = Guard::begin(locked.history_context(&progress), request)?;
    for warning in &guard.warnings {
        context.ui.warn(warning);
    }
    let end = guard.run();
    if let Some(error) = &end.error {
        context.ui.error(error);
    }
    let outcome = guard.finish(end);
    print_repair(context, &outcome.repair, &outcome.checkpoint);
    if let Some(error) = &outcome.repair_error {
        context.ui.error(error);
    }
    let id = outcome.checkpoint.id();
    let back = context.command_line(&format!("rollback {id}"));
    let Some(rollback) = outcome.rollback else {
        context.ui.note(&format!("kept; `{back}` rolls the tree back to before the command"));
        return Ok(0);
    };
    let cause = &outcome.cause;
    let report = rollback.map_err(|error| {
        error
            .detail(format!("{cause}; the tree is not rolled back"))
            .hint(format!("fix the cause, then run `{back}`"))
    })?;
    print_rollback(context, &report, cause, id);
    match outcome.interrupted {
        Some(signal) => {
            Err(Error::new(ErrorKind::Interrupted { signal }, "interrupted").detail("the tree is as it was"))
        }
        None => Ok(outcome.code),
    }
}

fn print_rollback(context: &Context, report: &RollbackReport, cause: &str, id: &str) {
    lines(report).for_each(|line| context.ui.note(&line));
    let (changed, held) = (count(report.changes.len(), "path"), count(report.held, "path"));
    report.warnings.iter().for_each(|warning| context.ui.warn(warning));
    for (path, to) in &report.set_aside {
        context.ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    let but = if report.unrestored.is_empty() { "" } else { ", except for the warnings" };
    context.ui.note(&format!("{cause}; {changed} rolled back, {held} verified against {id}{but}"));
    if let Some(present) = &report.present {
        let back = context.command_line(&format!("rollback {present}"));
        context.ui.note(&format!("the work of the command is saved: `{back}` restores it"));
    }
}

/// Warns about what the command had done to decree's own files.
fn print_repair(context: &Context, report: &RepairReport, checkpoint: &CheckpointDir) {
    let warn = |text: String| context.ui.warn(&text);
    if !report.restored.is_empty() {
        let files = count(report.restored.len(), "file");
        warn(format!("the command removed or replaced {files} of decree's own; restored"));
    }
    if report.set_aside > 0 {
        let set_aside = checkpoint.quarantine_dir();
        warn(format!("what the command put in place of decree's own files is in {}", set_aside.display()));
    }
    if report.lost_runs > 0 {
        let runs = count(report.lost_runs, "earlier run");
        warn(format!("the command deleted the records of {runs}, which are lost"));
    }
}
