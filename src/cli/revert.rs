//! `decree revert`

use super::Context;
use super::locked_project::LockedProject;
use super::rollback::{NOT_SAVED, moved_runs};
use super::rollback_answer::secrets_left as secrets_left_warning;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::quote::json_for_people;
use crate::checkpoint::restore::{RestoreAction, RestoreReport};
use crate::error::{Error, Result};
use crate::history::{self, HistoryContext, RevertSince, RunOrCheckpoint, Scope};
use crate::humanize::count;
use crate::pipeline::RunLog;
use crate::pipeline::revert_runs::{GitRevert, OutsideDiff, RevertedRun, RunRevert, revert_runs};
use crate::pipeline::rolled_back::removed_from_tracker;
use crate::report::text;

/// Revert a run, a chain of runs, or everything since a checkpoint
///
/// Restores every file that the run changed (or that changed since the checkpoint) and verifies its hash. Touches nothing else,
/// and nothing at all if a file has changed since the run, or if the run was reverted before. A revert to a checkpoint saves the
/// present state first, as a checkpoint of its own. A chain is reverted from its last run to its first, all or nothing. The
/// spec is removed from the tracker, so `process` runs it again. The change stays recorded: `decree apply` applies it again.
/// If the run made commits and git has not moved on since, HEAD, its branch and the index are as before the run, too, and the commits stay
/// as refs/decree/runs/ID.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree revert 2026111603120000-0\n  decree revert 2026111603120000\n  decree revert chk_20261116_0312"
)]
pub struct RevertArgs {
    /// The id of a run, a chain or a checkpoint, or a unique prefix
    id: String,
}

pub fn revert(context: &Context, args: &RevertArgs) -> Result<()> {
    let locked = LockedProject::open_to_go_back(context, "revert")?;
    let layout = &locked.project.layout;
    let mut runs = history::runs_of_chain(layout, &args.id, RestoreAction::Revert)?;
    if runs.is_empty() {
        match history::find_tree(layout, &args.id)? {
            RunOrCheckpoint::Run(saved) => runs.push(saved),
            RunOrCheckpoint::Checkpoint(saved) => return since_checkpoint(context, &locked, &saved),
        }
    }
    let (mut is_complete, mut unrestored, mut attributes_lost) = (true, 0, 0);
    for RevertedRun { run, how, untracked, git, outside_diff } in
        revert_runs(layout, &locked.workspace, &runs)?
    {
        match how {
            RunRevert::Done(done) => {
                attributes_lost += done.lost.len();
                report_done(context, run.id(), run.id(), done)?;
            }
            RunRevert::Already | RunRevert::NotThere => {
                context.ui.note(&format!("{}: already reverted", run.id()));
            }
            RunRevert::ChangedNothing => context.ui.note(&format!("{}: it changed nothing", run.id())),
            RunRevert::NotPossible => {
                context.ui.note(&format!("{}: not reverted; what it changed is in no diff", run.id()));
            }
        }
        if let Some(spec) = untracked {
            let is_there = locked.project.layout.specs().join(&spec).exists();
            context.ui.note(&removed_from_tracker(&spec, is_there));
        }
        is_complete &= report_git(context, run, &git);
        report_outside_diff(context, run, &outside_diff);
        unrestored += outside_diff.databases.len() + outside_diff.secrets.len();
    }
    if unrestored > 0 {
        let what = count(unrestored, "path");
        return Err(Error::integrity(format!("{what} cannot be reverted; the warnings above name each")));
    }
    if !is_complete {
        return Err(Error::integrity(
            "the files are reverted, and git's own state is not; the warnings above say why",
        ));
    }
    let (apply, revert) = (format!("apply {}", args.id), format!("revert {}", args.id));
    let (apply, revert) = (context.command_line(&apply), context.command_line(&revert));
    refuse_lost_attributes(attributes_lost, &format!("run `{apply}` and `{revert}` as root"))
}

/// A file without its owner or an attribute is not what it was. `repeat` restores what only root can.
fn refuse_lost_attributes(lost: usize, repeat: &str) -> Result<()> {
    if lost == 0 {
        return Ok(());
    }
    let files = count(lost, "path");
    Err(Error::integrity(format!(
        "{files} reverted without owner or attributes; the warnings above name each"
    ))
    .detail("content and modes are as they were")
    .hint(format!("only root can restore owners and some attributes: {repeat}")))
}

/// Names what a run changed and no diff has.
fn report_outside_diff(context: &Context, run: &CheckpointDir, outside_diff: &OutsideDiff) {
    for path in &outside_diff.databases {
        let scope = path.to_string();
        let back =
            context.command_line(&format!("rollback {} --scope {}", run.id(), shell_words::quote(&scope)));
        context.ui.warn(&format!(
            "{path} was open in another program during the run, so no diff has what changed in it; `{back}` restores what it was before"
        ));
    }
    for secret in &outside_diff.secrets {
        let (path, change) = (json_for_people(&secret.path), secret.change.word());
        context.ui.warn(&format!(
            "{path} was {change} by the run; it is a likely secret, so nothing holds what it was before"
        ));
    }
}

/// Reports what became of the commits that a run made; false if they were to be taken back and are not.
fn report_git(context: &Context, run: &CheckpointDir, git: &GitRevert) -> bool {
    match git {
        GitRevert::Unchanged => true,
        GitRevert::Restored(change) => {
            change.restored_lines().iter().for_each(|line| context.ui.warn(line));
            !change.is_unrestored()
        }
        GitRevert::Left(why) => {
            context.ui.warn(&format!(
                "{}: the files are reverted, but the commits of the run stay where they are: {why}; `git revert` takes them back",
                run.id()
            ));
            true
        }
    }
}

fn since_checkpoint(context: &Context, locked: &LockedProject<'_>, saved: &CheckpointDir) -> Result<()> {
    let progress = context.ui.progress();
    let guard = locked.guard_of(saved);
    let log = RunLog::new(&locked.project.layout, locked.workspace.store());
    let history_context = HistoryContext { runs: Some(&log), ..locked.history_context(&progress) };
    if let Some(guard) = &guard {
        locked.prepare_guard(guard, saved, Some(&format!("revert to {}", saved.id())))?;
    }
    let reverted = history::revert_since(history_context, saved)?;
    let settled = guard.map(|guard| locked.settle_guard(&guard, saved)).transpose()?.unwrap_or_default();
    settled.warnings.iter().for_each(|warning| context.ui.warn(warning));
    let not_restored = settled.error().map_or(Ok(()), Err);
    let Some(RevertSince { mut outcome, present, secrets_left }) = reverted else {
        context.ui.note(&format!("{}: the tree already matches the checkpoint", saved.id()));
        return not_restored;
    };
    let but = if outcome.set_aside.is_empty() { "" } else { NOT_SAVED };
    secrets_left_warning(&secrets_left).iter().for_each(|warning| context.ui.warn(warning));
    let _shield = outcome.shield.take();
    let attributes_lost = outcome.lost.len();
    report_done(context, saved.id(), present.id(), outcome)?;
    let back = context.command_line(&format!("rollback {}", present.id()));
    context.ui.note(&format!("the previous state is saved: `{back}` restores it{but}"));
    let mut runs = log.take_moved_runs();
    runs.extend(moved_runs(locked, saved, &Scope::default(), &[], Some(present.id()), false)?);
    runs.iter().for_each(|run| context.ui.note(&run.sentence(false)));
    not_restored.and_then(|()| refuse_lost_attributes(attributes_lost, "run it again as root"))
}

/// `record` is the run or checkpoint that has the diff.
fn report_done(context: &Context, id: &str, record: &str, report: RestoreReport) -> Result<()> {
    let ui = &context.ui;
    let but = report.exception();
    ui.note(&format!("reverted {}, each verified{but} ({id})", count(report.verified, "path")));
    let paths: Vec<String> = report.paths.iter().map(ToString::to_string).collect();
    for line in text::reverted_lines(&paths, record, None) {
        ui.note(&line);
    }
    for (path, to) in &report.set_aside {
        ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    report.losses().iter().for_each(|loss| ui.warn(loss));
    ui.note(&format!("`{}` applies the change again", context.command_line(&format!("apply {record}"))));
    report.log_failure.map_or(Ok(()), Err)
}
