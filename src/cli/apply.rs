//! `decree apply`

use super::Context;
use super::work::Workshop;
use crate::checkpoint::restore::Outcome;
use crate::error::{Error, Result};
use crate::figures::count;
use crate::history;
use crate::pipeline::undo;

/// Do a recorded change again
///
/// Applies the changes.diff of a run, or what a revert to a checkpoint undid. Every file has to be what it was
/// when the change was recorded; otherwise nothing is touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree apply 2026111603120000-0\n  decree apply chk_20261116_0312")]
pub struct ApplyArgs {
    /// A run or a checkpoint, or the beginning of its id
    id: String,
}

pub fn apply(context: &Context, args: &ApplyArgs) -> Result<()> {
    let Workshop { project, workspace, .. } = &Workshop::open(context, "apply")?;
    let found = history::find(&project.layout, &args.id)?;
    let saved = found.saved();
    if !saved.is_sealed() {
        return Err(Error::project(format!("{} has no recorded change to apply", saved.id()))
            .hint(format!("`decree diff {}` shows what is different now", saved.id())));
    }
    match saved.apply(workspace)? {
        Outcome::AlreadyThere => context.ui.note(&format!("{}: already applied", saved.id())),
        Outcome::Done(done) => {
            let paths = count(done.verified, "path");
            context.ui.note(&format!("applied {paths}, each verified ({})", saved.id()));
        }
    }
    // Also if it was there already: an earlier apply may have been cut off before this.
    if let Some(spec) = undo::brought_back(&project.layout, saved)? {
        context.ui.note(&format!("{spec} is on the tracker again"));
    }
    let aside = saved.dir().join("set-aside");
    if aside.is_dir() {
        // Not part of any diff, so nobody can say where in the tree of now it belongs.
        let aside = project.layout.shown(&aside);
        context.ui.note(&format!("what was set aside when it was put back is still in {aside}"));
    }
    Ok(())
}
