//! `decree checkpoint delete`

use std::io::{self, IsTerminal};

use super::super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::history::{self, RunOrCheckpoint};
use crate::humanize::count;

/// Delete checkpoints
///
/// Asks first on a terminal; elsewhere it needs --yes. Runs are not deleted. The audit trail keeps an entry.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint delete chk_20261116_0312\n  decree checkpoint delete --yes chk_20261116_0312 chk_20261117"
)]
pub struct DeleteArgs {
    /// Ids of checkpoints, or unique prefixes
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// The reason, for the audit trail
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,
}

pub fn delete(context: &Context, args: &DeleteArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "checkpoint delete")?;
    let mut chosen: Vec<CheckpointDir> = Vec::new();
    for id in &args.ids {
        match history::find(&project.layout, id)? {
            RunOrCheckpoint::Checkpoint(dir) if chosen.iter().all(|known| known.id() != dir.id()) => {
                chosen.push(dir)
            }
            RunOrCheckpoint::Checkpoint(_) => {}
            RunOrCheckpoint::Run(dir) => {
                return Err(Error::usage(format!("{} is a run, not a checkpoint", dir.id()))
                    .detail("nothing was deleted"));
            }
        }
    }
    let names: Vec<&str> = chosen.iter().map(CheckpointDir::id).collect();
    if !args.yes && !is_wanted(context, &names)? {
        context.ui.note("nothing was deleted");
        return Ok(());
    }
    for dir in &chosen {
        history::remove(&project.layout, dir, args.reason.clone())?;
        context.ui.note(&format!("deleted {}", dir.id()));
    }
    Ok(())
}

fn is_wanted(context: &Context, names: &[&str]) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::usage(format!(
            "deleting {} needs a confirmation",
            count(names.len(), "checkpoint")
        ))
        .detail("there is no terminal to ask on; nothing was deleted")
        .hint("`--yes` deletes without asking"));
    }
    context.ui.confirm_loss(&format!("Delete {} permanently?", names.join(", ")))
}
