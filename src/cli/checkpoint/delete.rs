//! `decree checkpoint delete`

use std::io::{self, IsTerminal};

use super::super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::history::{self, RunOrCheckpoint, SetAsideRule};
use crate::humanize::count;

/// Delete checkpoints
///
/// Asks first on a terminal; elsewhere it needs --yes. Runs are not deleted. The audit trail keeps an entry. A checkpoint with files in
/// set-aside/ is deleted only with --with-set-aside, or after a question that names them.
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

    /// Delete the files in set-aside/ as well: a restore moved them there, and nothing else may hold them
    #[arg(long)]
    with_set_aside: bool,

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
    let rule = if args.with_set_aside || are_lost_knowingly(context, args, &chosen)? {
        SetAsideRule::Delete
    } else {
        SetAsideRule::Keep
    };
    if rule == SetAsideRule::Keep {
        // All are looked at before the first is deleted.
        chosen.iter().try_for_each(history::refuse_if_set_aside)?;
    }
    for dir in &chosen {
        history::remove(&project.layout, dir, args.reason.clone(), rule)?;
        context.ui.note(&format!("deleted {}", dir.id()));
    }
    Ok(())
}

/// Names the files in `set-aside/` and asks, where there is a terminal and `--yes` was not given.
fn are_lost_knowingly(context: &Context, args: &DeleteArgs, chosen: &[CheckpointDir]) -> Result<bool> {
    let files: Vec<String> = chosen
        .iter()
        .flat_map(|dir| history::set_aside_files(dir).into_iter().map(|file| dir.dir().join(file)))
        .map(|path| path.display().to_string())
        .collect();
    if files.is_empty() || args.yes || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    files.iter().for_each(|file| context.ui.note(&format!("  {file}")));
    let files = count(files.len(), "file");
    context
        .ui
        .confirm_loss(&format!("Delete {files} that a restore set aside, too? Nothing else may hold them."))
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
