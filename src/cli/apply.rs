//! `decree apply`: applies recorded changes, also from an artifact.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Context;
use super::locked_project::LockedProject;
use crate::artifact::{ArtifactSource, import_and_apply, visit_extracted};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote::json_for_people;
use crate::checkpoint::restore::{
    Obstacle, ObstacleKind, PathEffect, PreviewedTree, RestoreAction, RestoreOutcome, RestorePreview,
};
use crate::checkpoint::tree::Tree;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, FailureReason, Result};
use crate::history::{self, CheckpointLabel, RunOrCheckpoint};
use crate::humanize::count;
use crate::interrupt;
use crate::pipeline::RunResult;
use crate::pipeline::revert_runs::{self, AppliedChange};
use crate::pipeline::rolled_back::{MoveTarget, TreeMove, record_moved_runs};
use crate::project::Layout;

/// Apply the recorded changes of a run again
///
/// Applies the changes.diff of a run, of the kept runs of a chain in order, or the changes that a revert to a checkpoint undid. Every
/// file has to have the content it had when the changes were recorded; otherwise nothing is touched, and --force overwrites what
/// differs. Runs are applied one by one, up to the first that does not apply. With --from, runs are imported from an artifact; from
/// then on they can be shown and reverted like any run of this project.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree apply 2026111603120000-0\n  decree apply 2026111603120000 --dry-run\n  decree apply chk_20261116_0312\n  decree apply --from decree-artifact.zip\n  decree apply 2026111603120000-0 --from decree-artifact.zip\n  decree apply --all --from artifact/"
)]
pub struct ApplyArgs {
    /// The id of a run, a chain or a checkpoint, or a unique prefix
    #[arg(required_unless_present = "from", conflicts_with = "all")]
    id: Option<String>,

    /// Import runs from this artifact, a directory or a .zip file; without an id, list them
    #[arg(long, value_name = "DIR|ZIP")]
    from: Option<PathBuf>,

    /// Apply every kept run of the artifact, in order, up to the first that does not apply
    #[arg(long, requires = "from")]
    all: bool,

    /// Only print what would be done, for each run and path; exit code 1 if a path conflicts
    #[arg(long)]
    dry_run: bool,

    /// Apply even if files differ from what the changes expect: each path becomes what the run left. The present tree is saved as a
    /// checkpoint first, and every path that is overwritten is named. Asks first on a terminal
    #[arg(long)]
    force: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub fn apply(context: &Context, args: &ApplyArgs) -> Result<()> {
    match (&args.from, &args.id) {
        (Some(from), None) if !args.all => list(context, &context.directory.join(from)),
        (Some(from), id) => apply_from(context, args, &context.directory.join(from), id.as_deref()),
        (None, _) if args.dry_run => dry_run(context, args),
        (None, id) => {
            let locked = LockedProject::open_to_go_back(context, "apply")?;
            let runs = chosen(&locked.project.layout, id.as_deref().unwrap_or_default())?;
            if runs.len() > 1 && revert_runs::are_applied(&locked.workspace, &runs)? {
                runs.iter().for_each(|run| context.ui.note(&format!("{}: already applied", run.id())));
                return Ok(());
            }
            for (applied, run) in runs.iter().enumerate() {
                apply_one(&locked, args, context, run).map_err(|error| match applied {
                    0 => interrupt::name_unchanged(error),
                    n => {
                        let still = format!("still applied: {} before it", count(n, "run"));
                        error.without_detail("nothing was touched").detail(still)
                    }
                })?;
            }
            Ok(())
        }
    }
}

/// The run or checkpoint of that id, or the kept runs of a chain.
fn chosen(layout: &Layout, id: &str) -> Result<Vec<CheckpointDir>> {
    let mut runs = history::runs_of_chain(layout, id, RestoreAction::Apply)?;
    if let [_] = runs[..] {
        return Ok(runs);
    }
    if runs.is_empty() {
        return Ok(vec![match history::find_tree(layout, id)? {
            RunOrCheckpoint::Run(run) => run,
            RunOrCheckpoint::Checkpoint(dir) => history::find_recorded_change(layout, &dir)?,
        }]);
    }
    let mut kept = Vec::new();
    for run in runs.drain(..) {
        if RunResult::read(&run)?.is_some_and(|result| result.run.kept) {
            kept.push(run);
        }
    }
    if kept.is_empty() {
        return Err(Error::project(format!("no run of chain {id} was kept"))
            .hint(format!("`decree log {id}` lists them; a single run is applied by its own id")));
    }
    Ok(kept)
}

/// Applies a run, and reports it.
fn apply_one(
    locked: &LockedProject<'_>,
    args: &ApplyArgs,
    context: &Context,
    dir: &CheckpointDir,
) -> Result<()> {
    let (layout, workspace) = (&locked.project.layout, &locked.workspace);
    let applied = match revert_runs::apply(layout, workspace, dir, false) {
        Err(error) if args.force && error.is(FailureReason::Conflict) => {
            let preview = preview_forced(dir, workspace)?;
            refuse_obstacles(dir, &preview)?;
            let present = save_present(locked, args, context, dir, &preview)?;
            let applied = revert_runs::apply(layout, workspace, dir, true)?;
            let patch = dir.patch()?;
            let tree = TreeMove {
                now: &|path| patch.find(path).map(|record| record.change.after),
                saved: Some(&present),
                target: MoveTarget::Forced { run: dir.id() },
                dry_run: false,
            };
            for run in record_moved_runs(layout, &tree)? {
                context.ui.note(&run.sentence(false));
            }
            applied
        }
        Err(error) if error.is(FailureReason::Conflict) && error.hint_text().is_none() => {
            let preview = preview_forced(dir, workspace)?;
            return Err(error.hint(match (preview.obstacles.first(), obstacle_hint(&preview.obstacles)) {
                (Some(Obstacle { path, why, .. }), Some(hint)) => {
                    format!("`--force` does not help ({path}: {why}); {hint}")
                }
                _ => "`--force` overwrites these paths; the present tree is saved first".to_owned(),
            }));
        }
        applied => applied?,
    };
    report(context, layout, dir, applied)
}

/// What `--force` would do, and what it cannot do.
fn preview_forced(dir: &CheckpointDir, workspace: &Workspace) -> Result<RestorePreview> {
    let mut preview = dir.preview_apply(workspace, &mut PreviewedTree::new())?;
    preview.obstacles.extend(dir.forced_obstacles(workspace, &preview)?);
    Ok(preview)
}

/// Refuses what `--force` cannot do, and names only the paths that prevent it.
fn refuse_obstacles(dir: &CheckpointDir, preview: &RestorePreview) -> Result<()> {
    let Some(hint) = obstacle_hint(&preview.obstacles) else { return Ok(()) };
    let line = |obstacle: &Obstacle| format!("{}: {}", obstacle.path, obstacle.why);
    let (n, all) = (preview.obstacles.len(), count(preview.paths.len(), "path"));
    Err(Error::failed(format!("cannot apply {}: {n} of {all} cannot be overwritten", dir.id()))
        .because(FailureReason::Conflict)
        .details(preview.obstacles.iter().map(line).collect(), 20)
        .detail("nothing was touched")
        .hint(hint))
}

/// What helps against obstacles; `None` if there are none.
fn obstacle_hint(obstacles: &[Obstacle]) -> Option<String> {
    let has = |kind| obstacles.iter().any(|obstacle| obstacle.kind == kind);
    let hints = [
        (ObstacleKind::InTheWay, "move away what is in the way"),
        (ObstacleKind::InUse, "stop the programs that use these files"),
        (
            ObstacleKind::NotRebuildable,
            "restore the files to what they were before the run, then apply without `--force`",
        ),
    ];
    let hints: Vec<&str> = hints.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, hint)| hint).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

/// Saves the tree before a change is applied over it, and names what is overwritten. Returns the checkpoint's id, and what it holds.
fn save_present(
    locked: &LockedProject<'_>,
    args: &ApplyArgs,
    context: &Context,
    dir: &CheckpointDir,
    preview: &RestorePreview,
) -> Result<Tree> {
    let overwritten: Vec<String> =
        preview.paths.iter().filter(|path| path.overwrites).map(|path| path.path.to_string()).collect();
    let paths = count(overwritten.len(), "path");
    if !args.yes && !overwritten.is_empty() {
        let question = format!("Overwrite {paths} ({}) with {}?", overwritten.join(", "), dir.id());
        if !context.ui.confirm_overwrite(&question)? {
            return Err(Error::failed(format!("{} is not applied", dir.id())).detail("nothing was touched"));
        }
    }
    let label = CheckpointLabel::with_reason(format!("before {} was applied with --force", dir.id()));
    let progress = context.ui.progress();
    let (saved, present) = history::save_present(locked.history_context(&progress), &label, &dir.touched()?)?;
    refuse_unsaved(&present.tree, preview)?;
    for path in &overwritten {
        context.ui.warn(&format!("overwriting {path}"));
    }
    let back = context.command_line(&format!("rollback {}", saved.record.id));
    context.ui.note(&format!("the tree before that is saved: `{back}` restores it"));
    Ok(present.tree)
}

/// Refuses to overwrite a file that the saved tree does not hold, because it is a likely secret now: there would be no copy of it.
fn refuse_unsaved(tree: &Tree, preview: &RestorePreview) -> Result<()> {
    let overwritten = preview.paths.iter().filter(|path| path.overwrites);
    let unsaved: Vec<String> =
        overwritten.filter(|path| !tree.has(&path.path)).map(|path| path.path.to_string()).collect();
    if unsaved.is_empty() {
        return Ok(());
    }
    Err(Error::failed("cannot overwrite what no checkpoint holds, because it is a likely secret")
        .because(FailureReason::Conflict)
        .details(unsaved, 20)
        .detail("nothing was touched")
        .hint("move these files away first"))
}

fn apply_from(context: &Context, args: &ApplyArgs, from: &Path, id: Option<&str>) -> Result<()> {
    let mut source = ArtifactSource::open(from)?;
    let runs = source.choose(id)?;
    if args.dry_run {
        let project = context.project_despite_config()?;
        let workspace = project.workspace()?;
        let mut preview = Preview::new(context, args);
        visit_extracted(&project.layout, &mut source, &runs, id.is_some(), |run| {
            preview.add(&project.layout, run, &workspace)
        })?;
        return preview.finish();
    }
    let locked = LockedProject::open_to_go_back(context, "apply")?;
    let progress = context.ui.progress();
    let apply = |run: &CheckpointDir| apply_one(&locked, args, context, run);
    if import_and_apply(locked.history_context(&progress), &mut source, &runs, id.is_some(), apply)? == 0 {
        context.ui.note("nothing to apply: no run in the artifact was kept");
    }
    Ok(())
}

/// Prints what would be done. Takes no lock, as nothing is touched.
fn dry_run(context: &Context, args: &ApplyArgs) -> Result<()> {
    let project = context.project_despite_config()?;
    context.warn_unfinished(&project);
    let workspace = project.workspace()?;
    let mut preview = Preview::new(context, args);
    let runs = chosen(&project.layout, args.id.as_deref().unwrap_or_default())?;
    if runs.len() > 1 && revert_runs::are_applied(&workspace, &runs)? {
        let lines: String = runs.iter().map(|run| format!("{}: already applied\n", run.id())).collect();
        return context.ui.print(&lines);
    }
    for run in runs {
        match revert_runs::check_applicable(&project.layout, &run) {
            Err(error) if args.force && error.is(FailureReason::Conflict) => {}
            checked => checked?,
        }
        preview.add(&project.layout, &run, &workspace)?;
    }
    preview.finish()
}

/// What would be done, printed run by run: each is judged by what the earlier ones would leave.
struct Preview<'p> {
    context: &'p Context,
    force: bool,
    tree: PreviewedTree,
    conflicts: usize,
    runs: usize,
}

impl<'p> Preview<'p> {
    fn new(context: &'p Context, args: &ApplyArgs) -> Self {
        Preview { context, force: args.force, tree: PreviewedTree::new(), conflicts: 0, runs: 0 }
    }

    fn add(&mut self, layout: &Layout, run: &CheckpointDir, workspace: &Workspace) -> Result<()> {
        let mut preview = run.preview_apply(workspace, &mut self.tree)?;
        if self.force {
            preview.obstacles.extend(run.forced_obstacles(workspace, &preview)?);
        }
        self.runs += 1;
        warn_withheld(self.context, run, "would not be applied")?;
        let mut text = format!("{}:", run.id());
        if preview.is_there() {
            text.push_str(match revert_runs::check_own_work(layout, run) {
                Err(error) if self.force && error.is(FailureReason::Conflict) => {
                    " what it left is there as the work of another run, and would be its work\n"
                }
                checked => checked.map(|()| " already applied\n")?,
            });
            return self.context.ui.print(&text);
        }
        text.push('\n');
        let blocked: BTreeSet<&TreePath> = preview.obstacles.iter().map(|obstacle| &obstacle.path).collect();
        for path in preview.paths.iter().filter(|path| !blocked.contains(&path.path)) {
            let (word, why) = match &path.effect {
                PathEffect::AlreadyThere => continue,
                PathEffect::Create => ("create", String::new()),
                PathEffect::Modify => ("modify", String::new()),
                PathEffect::Delete => ("delete", String::new()),
                PathEffect::Conflict(why) if !self.force => ("conflict", format!(": {why}")),
                PathEffect::Conflict(_) if !path.overwrites => continue,
                PathEffect::Conflict(why) => ("overwrite", format!(": {why}")),
            };
            self.conflicts += usize::from(word == "conflict");
            text.push_str(&format!("  {word:<9}  {}{why}\n", path.path));
        }
        for obstacle in &preview.obstacles {
            self.conflicts += 1;
            text.push_str(&format!("  conflict   {}: {}\n", obstacle.path, obstacle.why));
        }
        self.context.ui.print(&text)
    }

    fn finish(self) -> Result<()> {
        match (self.conflicts, self.runs) {
            (0, 0) => self.context.ui.note("nothing to apply: no run in the artifact was kept"),
            (0, _) => self.context.ui.note("nothing was done: this is a dry run"),
            (conflicts, _) => {
                let conflicts = count(conflicts, "conflict");
                return Err(Error::failed(format!("it would not be applied: {conflicts}"))
                    .because(FailureReason::Conflict)
                    .detail("nothing was done: this is a dry run"));
            }
        }
        Ok(())
    }
}

fn list(context: &Context, from: &Path) -> Result<()> {
    let runs = ArtifactSource::open(from)?.runs()?;
    if runs.is_empty() {
        context.ui.note("the artifact contains no runs");
    }
    let lines: String = runs.iter().map(|run| format!("{}\n", run.id)).collect();
    context.ui.print(&lines)
}

fn report(context: &Context, layout: &Layout, dir: &CheckpointDir, applied: AppliedChange) -> Result<()> {
    // A missing audit entry is an error, but the change is in the tree.
    let mut log_failure = None;
    let quarantine = dir.quarantine_dir();
    let mut is_older = quarantine.is_dir();
    match applied.outcome {
        RestoreOutcome::AlreadyThere => context.ui.note(&format!("{}: already applied", dir.id())),
        RestoreOutcome::Done(done) => {
            done.losses().iter().for_each(|loss| context.ui.warn(loss));
            for (path, to) in &done.set_aside {
                context.ui.note(&format!("set aside {path}: moved to {}", to.display()));
            }
            is_older &= !done.set_aside.iter().any(|(_, to)| to.starts_with(&quarantine));
            let (paths, but) = (count(done.verified, "path"), done.exception());
            context.ui.note(&format!("applied {paths}, each verified{but} ({})", dir.id()));
            log_failure = done.log_failure;
        }
    }
    warn_withheld(context, dir, "is not applied")?;
    if let Some(spec) = applied.tracked {
        let word = if applied.is_again { "again" } else { "now" };
        context.ui.note(&format!("{spec} is on the tracker {word}"));
    }
    applied.moved.iter().for_each(|run| context.ui.note(&run.sentence(false)));
    if is_older {
        // These files are in no diff, so decree cannot decide where in the present tree they belong.
        let quarantine = layout.shown(&quarantine);
        context.ui.note(&format!("files that were set aside earlier are still in {quarantine}"));
    }
    log_failure.map_or(Ok(()), Err)
}

/// Names the paths of a diff that does not have their new content.
fn warn_withheld(context: &Context, dir: &CheckpointDir, fate: &str) -> Result<()> {
    for path in dir.result()?.iter().flat_map(|record| &record.withheld) {
        let path = json_for_people(path);
        context.ui.warn(&format!(
            "{path} became a likely secret in {}: its new content was withheld from the diff, so it {fate}",
            dir.id()
        ));
    }
    Ok(())
}
