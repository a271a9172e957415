//! `decree apply`: applies a recorded change, also from an artifact.

use std::path::{Path, PathBuf};

use super::Context;
use super::locked_project::LockedProject;
use crate::artifact::{ArtifactSource, import_and_apply};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::RestoreOutcome;
use crate::error::Result;
use crate::history;
use crate::history::audit::AuditLog;
use crate::humanize::count;
use crate::pipeline::revert_runs::{self, AppliedChange};
use crate::project::Layout;

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
            let locked = LockedProject::open(context, "apply")?;
            let layout = &locked.project.layout;
            let found = history::find_tree(layout, id.as_deref().unwrap_or_default())?;
            let log = AuditLog::new(layout.audit());
            let applied = revert_runs::apply(layout, &locked.workspace, found.dir(), &log)?;
            report(context, layout, found.dir(), applied)
        }
    }
}

fn apply_from(context: &Context, from: &Path, id: Option<&str>) -> Result<()> {
    let mut source = ArtifactSource::open(from)?;
    let runs = source.choose(id)?;
    let locked = LockedProject::open(context, "apply")?;
    let progress = context.ui.progress();
    let report = |run: &CheckpointDir, applied| report(context, &locked.project.layout, run, applied);
    let history_context = locked.history_context(&progress);
    if import_and_apply(history_context, &mut source, &runs, id.is_some(), report)? == 0 {
        context.ui.note("nothing to apply: no run in the artifact was kept");
    }
    Ok(())
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
    match applied.outcome {
        RestoreOutcome::AlreadyThere => context.ui.note(&format!("{}: already applied", dir.id())),
        RestoreOutcome::Done(done) => {
            done.losses().iter().for_each(|loss| context.ui.warn(loss));
            let (paths, but) = (count(done.verified, "path"), done.exception());
            context.ui.note(&format!("applied {paths}, each verified{but} ({})", dir.id()));
            log_failure = done.log_failure;
        }
    }
    if let Some(spec) = applied.tracked {
        context.ui.note(&format!("{spec} is on the tracker again"));
    }
    let quarantine = dir.quarantine_dir();
    if quarantine.is_dir() {
        // These files are in no diff, so decree cannot decide where in the present tree they belong.
        let quarantine = layout.shown(&quarantine);
        context.ui.note(&format!("files that the revert set aside are still in {quarantine}"));
    }
    log_failure.map_or(Ok(()), Err)
}
