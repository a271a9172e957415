//! `decree revert`

use super::Context;
use super::locked_project::LockedProject;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::{RestoreOutcome, RestoreReport};
use crate::error::Result;
use crate::history::audit::AuditLog;
use crate::history::{self, RunOrCheckpoint};
use crate::humanize::count;
use crate::pipeline::revert_runs::{RevertedRun, RunRevert, revert_runs};

/// Revert a run, a chain of runs, or everything since a checkpoint
///
/// Restores every file that the run changed (or that changed since the checkpoint) and verifies its hash. Touches nothing else,
/// and nothing at all if a file has changed since the run. A chain is reverted from its last run to its first, all or nothing. The
/// spec is removed from the tracker, so `process` runs it again. The change stays recorded: `decree apply` applies it again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree revert 2026111603120000-0\n  decree revert 2026111603120000\n  decree revert chk_20261116_0312"
)]
pub struct RevertArgs {
    /// The id of a run, a chain or a checkpoint, or a unique prefix
    id: String,
}

pub fn revert(context: &Context, args: &RevertArgs) -> Result<()> {
    let locked = LockedProject::open(context, "revert")?;
    let layout = &locked.project.layout;
    let mut runs = history::runs_of_chain(layout, &args.id)?;
    if runs.is_empty() {
        match history::find_tree(layout, &args.id)? {
            RunOrCheckpoint::Run(saved) => runs.push(saved),
            RunOrCheckpoint::Checkpoint(saved) => return since_checkpoint(context, &locked, &saved),
        }
    }
    let log = AuditLog::new(layout.audit());
    for RevertedRun { run, how, untracked } in revert_runs(layout, &locked.workspace, &runs, &log)? {
        match how {
            RunRevert::Done(done) => report_done(context, run, done)?,
            RunRevert::Already => context.ui.note(&format!("{}: already reverted", run.id())),
            RunRevert::ChangedNothing => context.ui.note(&format!("{}: it changed nothing", run.id())),
        }
        if let Some(spec) = untracked {
            context.ui.note(&format!("removed {spec} from the tracker: `decree process` runs it again"));
        }
    }
    Ok(())
}

fn since_checkpoint(context: &Context, locked: &LockedProject<'_>, saved: &CheckpointDir) -> Result<()> {
    match history::revert_since(locked.history_context(&context.ui.progress()), saved)? {
        RestoreOutcome::AlreadyThere => {
            context.ui.note(&format!("{}: the tree already matches the checkpoint", saved.id()));
            Ok(())
        }
        RestoreOutcome::Done(done) => report_done(context, saved, done),
    }
}

fn report_done(context: &Context, saved: &CheckpointDir, report: RestoreReport) -> Result<()> {
    let ui = &context.ui;
    let (paths, but) = (count(report.verified, "path"), report.exception());
    ui.note(&format!("reverted {paths}, each verified{but} ({})", saved.id()));
    for (path, to) in &report.set_aside {
        ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    report.losses().iter().for_each(|loss| ui.warn(loss));
    ui.note(&format!("`decree apply {}` applies the change again", saved.id()));
    report.log_failure.map_or(Ok(()), Err)
}
