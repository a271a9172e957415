//! `decree revert`

use super::Context;
use crate::checkpoint::restore::{Outcome, Restored};
use crate::checkpoint::saved::Saved;
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::figures::count;
use crate::history::{self, Found};

/// Undo a run, or everything since a checkpoint
///
/// Puts every file back that the run (or anything since the checkpoint) changed, byte for byte, and checks
/// each against its hash. Touches nothing else. If a file is not what the run left, nothing is touched at
/// all. What was undone stays recorded: `decree apply` brings it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree revert 2026111603120000-0\n  decree revert chk_20261116_0312")]
pub struct RevertArgs {
    /// A run or a checkpoint, or the beginning of its id
    id: String,
}

pub fn revert(context: &Context, args: &RevertArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "revert")?;
    match history::find(&project.layout, &args.id)? {
        Found::Run(saved) => {
            let outcome = saved
                .revert(&workspace, &saved.manifest()?)
                .map_err(|error| error.hint(format!("`decree diff {}` shows the run", saved.id())))?;
            tell(context, &saved, &outcome, "already put back");
            Ok(())
        }
        Found::Checkpoint(saved) => since_checkpoint(context, &workspace, &saved),
    }
}

fn since_checkpoint(context: &Context, workspace: &Workspace, saved: &Saved) -> Result<()> {
    let manifest = saved.manifest()?;
    let progress = context.ui.progress();
    let changed = saved.seal(workspace, &manifest, false, &progress)?.is_some();
    let outcome = match changed {
        false => Outcome::AlreadyThere,
        true => saved.revert(workspace, &manifest)?,
    };
    tell(context, saved, &outcome, "the tree is as the checkpoint has it");
    Ok(())
}

fn tell(context: &Context, saved: &Saved, outcome: &Outcome, nothing_to_do: &str) {
    let ui = &context.ui;
    match outcome {
        Outcome::AlreadyThere => ui.note(&format!("{}: {nothing_to_do}", saved.id())),
        Outcome::Done(Restored { verified, set_aside }) => {
            ui.note(&format!("put back {}, each verified ({})", count(*verified, "path"), saved.id()));
            for (path, to) in set_aside {
                ui.note(&format!("set aside {path}: it is in {} now", to.display()));
            }
            ui.note(&format!("`decree apply {}` brings the change back", saved.id()));
        }
    }
}
