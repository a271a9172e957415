//! `decree retry`

use std::collections::BTreeSet;

use super::Context;
use crate::error::Result;
use crate::message::{Inbox, SecondNames};
use crate::pipeline::DeadLetter;

/// Move dead letters back to the inbox
///
/// The next `decree process` runs them first. The files of their earlier runs stay in the run's directory, under previous/.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree retry 2026111603120000-0\n  decree retry --all")]
pub struct RetryArgs {
    /// Ids or names of dead letters, or unique prefixes
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<String>,

    /// All dead letters
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

pub fn retry(context: &Context, args: &RetryArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "retry")?;
    let inbox = Inbox::of(&project.layout);
    let letters = DeadLetter::all(&inbox)?;
    let mut chosen: Vec<&DeadLetter> = if args.all {
        letters.iter().collect()
    } else {
        args.ids.iter().map(|text| DeadLetter::find(&letters, text)).collect::<Result<_>>()?
    };
    let mut files = BTreeSet::new();
    chosen.retain(|letter| files.insert(&letter.file));
    if chosen.is_empty() {
        context.ui.note("there are no dead letters");
        return Ok(());
    }
    for letter in &chosen {
        let target = inbox.requeue(&letter.file)?;
        SecondNames::forget_dead(&project.layout, &letter.file);
        context.ui.note(&format!("{} waits in the inbox as {}", letter.name(), target.to_string_lossy()));
    }
    context.ui.note("next: `decree process`");
    Ok(())
}
