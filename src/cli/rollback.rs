//! `decree rollback`

use serde_json::Value;

use super::context::absolute_command_line;
use super::locked_project::LockedProject;
use super::rollback_answer::{
    AskedRollback, contract, export_command, run_answer, variables_warning, warnings, way_back,
};
use super::{Context, ContractFormat};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::partial_restore::LostPath;
use crate::checkpoint::path::TreePath;
use crate::error::{Error, Result};
use crate::history::{
    self, CheckpointKind, CheckpointRecord, HistoryContext, RollbackOptions, RollbackReport, RolledBackPath,
    RunOrCheckpoint, Scope,
};
use crate::humanize::{count, grouped};
use crate::pipeline::RunLog;
use crate::pipeline::rolled_back::{MoveTarget, MovedRun, TreeMove, checkpoint_time, record_moved_runs};

/// Roll back to a checkpoint, completely or in part
///
/// Changed and deleted files within the scope are restored byte for byte; files created since are removed. The current
/// state is saved first, as a checkpoint of the same type, so a rollback can be rolled back.
/// Then everything is compared with the checkpoint; if the hashes differ, the exit code is 4. So it is if something that decree cannot
/// set differs, and everything else is restored: an owner, which only root can give a file, or variables of the environment without
/// --export.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree rollback chk_20261116_031200_a1b2c3\n  decree rollback chk_20261116 --dry-run\n  decree rollback chk_20261116 --scope src --scope 'docs/*.md' --reason 'the tests failed'\n  decree rollback chk_20261116 --format json"
)]
pub struct RollbackArgs {
    /// The id of a checkpoint, or a unique prefix; the id of a run rolls back to before the run
    id: String,

    /// Roll back only this part, as for `checkpoint create` (repeatable)
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// The reason, for the audit trail
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,

    /// Only report what would be rolled back
    #[arg(long)]
    dry_run: bool,

    /// Skip the comparison with the checkpoint at the end; each restored path is still verified
    #[arg(long)]
    no_verify: bool,

    /// Print the environment variables of a state snapshot as shell commands: eval "$(decree rollback ID --export)"
    #[arg(long, conflicts_with = "format")]
    export: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: ContractFormat,
}

pub fn rollback(context: &Context, args: &RollbackArgs) -> Result<()> {
    let locked = LockedProject::open_to_go_back(context, "rollback")?;
    let layout = &locked.project.layout;
    let found = history::find(layout, &args.id)?;
    let kind = match &found {
        RunOrCheckpoint::Checkpoint(dir) => CheckpointRecord::read(dir.dir())?.kind(),
        RunOrCheckpoint::Run(_) => CheckpointKind::default(),
    };
    if args.export && kind != CheckpointKind::StateSnapshot {
        return Err(Error::usage(format!("{} is a {}", found.dir().id(), kind.word()))
            .detail("only a state_snapshot has environment variables to export"));
    }
    let mut options = options(context, args);
    let guard = locked.guard_of(found.dir()).filter(|_| args.scope.is_empty());
    options.restores_git = guard.is_some();
    let (progress, log) = (context.ui.progress(), RunLog::new(layout, locked.workspace.store()));
    let history_context = HistoryContext { runs: Some(&log), ..locked.history_context(&progress) };
    let guard = guard.filter(|_| !args.dry_run);
    let what = format!("roll back to {}", found.dir().id());
    guard.iter().try_for_each(|guard| locked.prepare_guard(guard, found.dir(), Some(&what)))?;
    let mut report = history::rollback(history_context, &found, &options)?;
    if let Some(refusal) = report.refusal.take() {
        return Err(refusal.detail("this is a dry run"));
    }
    let settled =
        guard.map(|guard| locked.settle_guard(&guard, found.dir())).transpose()?.unwrap_or_default();
    report.warnings.extend_from_slice(&settled.warnings);
    let export = export_command(found.dir().id(), &args.scope, |arguments| match args.format {
        ContractFormat::Text => context.command_line(arguments),
        _ => absolute_command_line(layout, layout.root(), arguments),
    });
    let not_restored = settled.error().or_else(|| {
        let error = report.loss_error(found.dir().id()).filter(|_| !args.dry_run)?;
        Some(if report.variables_left.is_empty() { error } else { error.hint(format!("run `{export}`")) })
    });
    let mut runs = log.take_moved_runs();
    if report.kind.holds_tree() {
        let present = report.present.as_deref();
        runs.extend(moved_runs(&locked, found.dir(), &report.scope, &[], present, args.dry_run)?);
        runs.sort_by(|a, b| a.id.cmp(&b.id));
    }
    match args.format {
        ContractFormat::Text => {
            print(context, found.dir().id(), &report, args.dry_run)?;
            let variables = variables_warning(&report, &export).filter(|_| args.dry_run);
            variables.iter().for_each(|warning| context.ui.warn(warning));
            runs.iter().for_each(|run| context.ui.note(&run.sentence(args.dry_run)));
            if args.export && !args.dry_run {
                context.ui.print(&report.exports)?;
            }
            not_restored.map_or(Ok(()), Err)
        }
        format => {
            let asked =
                AskedRollback { scope: &args.scope, directory: &context.directory, dry_run: args.dry_run };
            let mut answer = contract(layout, found.dir().id(), &report, asked);
            complete(&mut answer, context.warned(), &runs, not_restored.as_ref());
            context.ui.print(&format.render(&answer))?;
            not_restored.map_or(Ok(()), |error| Err(error.answered()))
        }
    }
}

fn options(context: &Context, args: &RollbackArgs) -> RollbackOptions {
    let mut options = RollbackOptions::with_reason(args.reason.clone());
    options.scope.list.clone_from(&args.scope);
    options.scope.directory.clone_from(&context.directory);
    options.dry_run = args.dry_run;
    (options.verify, options.takes_environment) = (!args.no_verify, args.export);
    options
}

/// Adds to an answer what was `warned` of before, what became of runs, and what is not restored.
fn complete(answer: &mut Value, warned: Vec<String>, runs: &[MovedRun], error: Option<&Error>) {
    if let Some(warnings) = answer["warnings"].as_array_mut() {
        warnings.splice(0..0, warned.into_iter().map(Value::from));
    }
    if !runs.is_empty() {
        answer["runs"] = runs.iter().map(run_answer).collect();
    }
    if let Some(error) = error {
        answer["error"] = error.to_json();
    }
}

/// Records which runs left the tree, or came back, when it went to a checkpoint, except for the paths in `lost`; `present` holds what was
/// there before.
pub fn moved_runs(
    locked: &LockedProject<'_>,
    to: &CheckpointDir,
    scope: &Scope,
    lost: &[LostPath],
    present: Option<&str>,
    dry_run: bool,
) -> Result<Vec<MovedRun>> {
    let (layout, store) = (&locked.project.layout, locked.workspace.store());
    if history::run_ids(layout)?.is_empty() {
        return Ok(Vec::new());
    }
    let tree = to.manifest(store)?.tree;
    let saved = match present {
        Some(id) => Some(CheckpointDir::new(id, layout.checkpoints().join(id)).manifest(store)?.tree),
        None => None,
    };
    let is_there = |path: &TreePath| scope.covers(path) && !lost.iter().any(|lost| lost.path == *path);
    record_moved_runs(
        layout,
        &TreeMove {
            now: &|path| is_there(path).then(|| tree.get(path)),
            saved: saved.as_ref(),
            target: MoveTarget::Past {
                time: checkpoint_time(to),
                is_whole: scope.is_everything() && lost.is_empty(),
            },
            dry_run,
        },
    )
}

/// What a sentence about the saved state has to add if something was set aside: no checkpoint holds that.
pub const NOT_SAVED: &str = ", except for what was set aside";

/// A line for each path that differed.
pub fn lines(report: &RollbackReport) -> impl Iterator<Item = String> {
    let line = |change: &RolledBackPath| format!("  {:<8}  {}", change.operation.remedy(), change.shown());
    let staged = report.staged.iter().map(move |change| line(change) + " (in git's index)");
    report.changes.iter().map(line).chain(staged)
}

/// How many were reverted, recreated and removed, in words.
pub fn counts(report: &RollbackReport) -> String {
    let counts = report.counts();
    let parts = [(counts.reverted, "reverted"), (counts.recreated, "recreated"), (counts.removed, "removed")];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts.map(|(number, word)| format!("{} {word}", grouped(*number as u64))).collect::<Vec<_>>().join(", ")
}

fn print(context: &Context, id: &str, report: &RollbackReport, dry_run: bool) -> Result<()> {
    let ui = &context.ui;
    if dry_run {
        // The list is the answer, so it goes to standard output.
        ui.print(&lines(report).map(|line| line + "\n").collect::<String>())?;
    } else {
        lines(report).for_each(|line| ui.note(&line));
    }
    warnings(report).for_each(|warning| ui.warn(&warning));
    for sentence in &report.untouched {
        ui.note(sentence);
    }
    let (what, noun) = match report.kind {
        CheckpointKind::StateSnapshot => ("decree's own state", "value"),
        CheckpointKind::DatabaseSavepoint => ("every database", "database"),
        CheckpointKind::FileBackup | CheckpointKind::GitStash => ("the tree", "path"),
    };
    let (changed, held) =
        (count(report.changed(), noun), count(report.held - report.variables_left.len(), noun));
    if report.changed() == 0 && report.set_aside.is_empty() && report.would_set_aside.is_empty() {
        let but = match (report.variables_left.is_empty(), report.warnings.is_empty()) {
            (false, _) => ", except for the environment",
            (true, false) => ", except for the warnings",
            (true, true) => "",
        };
        ui.note(&format!("{what} matches {id}{but} ({held} verified)"));
        return Ok(());
    }
    if dry_run {
        ui.note(&format!("{changed} would be rolled back to {id}; nothing was done"));
        return Ok(());
    }
    for (path, to) in &report.set_aside {
        ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    if report.is_proven() {
        ui.note(&format!("rolled back {changed}: {}; {held} verified against {id}", counts(report)));
    } else if report.after.is_some() {
        let counts = counts(report);
        let but = if report.unrestored.is_empty() { "the environment" } else { "the warnings" };
        ui.note(&format!("rolled back {changed}: {counts}; {held} verified against {id}, except for {but}"));
    } else {
        ui.note(&format!(
            "rolled back {changed}: {}; not compared with {id}, because of --no-verify",
            counts(report)
        ));
    }
    if let Some(back) = way_back(report, |arguments| context.command_line(arguments)) {
        let but = if report.set_aside.is_empty() { "" } else { NOT_SAVED };
        ui.note(&format!("the previous state is saved: `{back}` restores it{but}"));
    }
    Ok(())
}
