//! `decree apply`: applies a recorded change, also from an artifact.

use std::path::{Path, PathBuf};

use super::Context;
use super::locked_project::LockedProject;
use crate::artifact::{ArtifactSource, StagedRun, import};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::RestoreOutcome;
use crate::error::{Error, Result};
use crate::history;
use crate::history::audit::AuditLog;
use crate::humanize::count;
use crate::pipeline::RunResult;
use crate::pipeline::revert_runs::record_applied;

/// Apply the recorded changes of a run again
///
/// Applies the changes.diff of a run, or the changes that a revert to a checkpoint undid. Every file has to have the content it
/// had when the changes were recorded; otherwise nothing is touched. With --from, runs are imported from an artifact; from then
/// on they can be shown and reverted like any run of this project.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree apply 2026111603120000-0\n  decree apply chk_20261116_0312\n  decree apply --from decree-artifact.zip\n  decree apply 2026111603120000-0 --from decree-artifact.zip\n  decree apply --all --from artifact/"
)]
pub struct ApplyArgs {
    /// The id of a run or a checkpoint, or a unique prefix; with --from also a chain
    #[arg(required_unless_present = "from", conflicts_with = "all")]
    id: Option<String>,

    /// Import runs from this artifact, a directory or a .zip file; without an id, list them
    #[arg(long, value_name = "DIR|ZIP")]
    from: Option<PathBuf>,

    /// Apply every kept run of the artifact, in order, up to the first that does not apply
    #[arg(long, requires = "from")]
    all: bool,
}

pub fn apply(context: &Context, args: &ApplyArgs) -> Result<()> {
    match (&args.from, &args.id) {
        (Some(from), None) if !args.all => list(context, &context.directory.join(from)),
        (Some(from), id) => apply_from(context, &context.directory.join(from), id.as_deref()),
        (None, id) => {
            let shop = LockedProject::open(context, "apply")?;
            let found = history::find_tree(&shop.project.layout, id.as_deref().unwrap_or_default())?;
            apply_one(context, &shop, found.dir())
        }
    }
}

/// Imports and applies the runs one by one, because a run can depend on the changes of the one before.
fn apply_from(context: &Context, from: &Path, id: Option<&str>) -> Result<()> {
    let mut source = ArtifactSource::open(from)?;
    let chosen = choose(source.runs()?, id, from)?;
    let shop = LockedProject::open(context, "apply")?;
    let mut applied = 0;
    for run in &chosen {
        let outcome = import(&shop.project.layout, &mut source, run).and_then(|saved| {
            let kept = RunResult::read(&saved)?.is_some_and(|result| result.run.kept);
            if !kept && id.is_none() {
                return Ok(());
            }
            // To revert the run later, this project's store needs the content from before it.
            shop.workspace.capture(&context.ui.progress())?;
            apply_one(context, &shop, &saved).map(|()| applied += 1)
        });
        outcome.map_err(|error| match applied {
            0 => error,
            n => error.detail(format!("still applied: {} before it", count(n, "run"))),
        })?;
    }
    if applied == 0 {
        context.ui.note("nothing to apply: no run in the artifact was kept");
    }
    Ok(())
}

/// The runs that `id` names, or all.
fn choose(runs: Vec<StagedRun>, id: Option<&str>, from: &Path) -> Result<Vec<StagedRun>> {
    let Some(id) = id else { return Ok(runs) };
    let of_chain: Vec<StagedRun> =
        runs.iter().filter(|run| run.id.chain.to_string() == id).cloned().collect();
    if !of_chain.is_empty() {
        return Ok(of_chain);
    }
    let text = |run: &StagedRun| run.id.to_string();
    let exact = runs.iter().find(|run| text(run) == id).cloned();
    let begins = runs.iter().filter(|run| !id.is_empty() && text(run).starts_with(id));
    match (exact, &begins.cloned().collect::<Vec<_>>()[..]) {
        (Some(run), _) => Ok(vec![run]),
        (None, [run]) => Ok(vec![run.clone()]),
        (None, []) => Err(Error::project(format!("no run '{id}' in {}", from.display()))
            .details(runs.iter().map(text).collect(), 20)
            .hint("`decree apply --from …` without an id lists them")),
        (None, several) => Err(Error::project(format!("the id '{id}' is ambiguous"))
            .details(several.iter().map(text).collect(), 10)
            .hint("use a longer prefix")),
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

fn apply_one(context: &Context, shop: &LockedProject<'_>, saved: &CheckpointDir) -> Result<()> {
    let layout = &shop.project.layout;
    if !saved.has_change_record() {
        return Err(Error::project(format!("{} has no recorded change to apply", saved.id()))
            .hint(format!("`decree diff {}` shows what is different now", saved.id())));
    }
    // A missing audit entry is an error, but the change is in the tree: it has to be recorded before the error is returned.
    let mut log_failure = None;
    match saved.apply(&shop.workspace, &AuditLog::new(layout.audit()))? {
        RestoreOutcome::AlreadyThere => context.ui.note(&format!("{}: already applied", saved.id())),
        RestoreOutcome::Done(done) => {
            log_failure = done.log_failure;
            let paths = count(done.verified, "path");
            context.ui.note(&format!("applied {paths}, each verified ({})", saved.id()));
        }
    }
    // Also if it was applied already: an earlier apply may have been interrupted before this step.
    if let Some(spec) = record_applied(layout, saved)? {
        context.ui.note(&format!("{spec} is on the tracker again"));
    }
    let quarantine = saved.quarantine_dir();
    if quarantine.is_dir() {
        // These files are in no diff, so decree cannot decide where in the present tree they belong.
        let quarantine = layout.shown(&quarantine);
        context.ui.note(&format!("files that the revert set aside are still in {quarantine}"));
    }
    log_failure.map_or(Ok(()), Err)
}
