//! `decree retry`

use super::Context;
use crate::error::{Error, Result};
use crate::message::{Document, Inbox};

/// Put dead letters back into the inbox
///
/// The next `decree process` takes them first. What their earlier run left stays in its directory, under previous/.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree retry 2026111603120000-0\n  decree retry --all")]
pub struct RetryArgs {
    /// Ids or names of dead letters, or the beginning of one
    #[arg(required_unless_present = "all", value_name = "ID")]
    ids: Vec<String>,

    /// Every dead letter there is
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

pub fn retry(context: &Context, args: &RetryArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "retry")?;
    let inbox = Inbox::of(&project.layout);
    let mut letters = Vec::new();
    for file in inbox.dead()? {
        let text = crate::message::read_text(&inbox.dead_path(&file)).unwrap_or_default();
        let id = Document::parse(&text).ok().and_then(|document| document.get_text("id")).unwrap_or_default();
        let name = file.to_string_lossy().trim_end_matches(".md").to_owned();
        letters.push((file, name, id, text));
    }
    let chosen: Vec<_> = match args.all {
        true => letters.iter().collect(),
        false => {
            let mut chosen = Vec::new();
            for wanted in &args.ids {
                let exact = letters.iter().filter(|(_, name, id, _)| name == wanted || id == wanted);
                let mut found: Vec<_> = exact.collect();
                if found.is_empty() {
                    found = letters
                        .iter()
                        .filter(|(_, name, id, _)| name.starts_with(wanted) || id.starts_with(wanted))
                        .collect();
                }
                match found[..] {
                    [letter] => chosen.push(letter),
                    [] => {
                        return Err(Error::project(format!("no dead letter has the id or name '{wanted}'"))
                            .hint("`decree status` lists them"));
                    }
                    _ => {
                        let names = found.iter().map(|(_, name, id, _)| format!("{name}  {id}")).collect();
                        return Err(Error::project(format!("'{wanted}' is ambiguous")).details(names, 10));
                    }
                }
            }
            chosen
        }
    };
    let mut told = std::collections::BTreeSet::new();
    let chosen: Vec<_> = chosen.into_iter().filter(|(file, ..)| told.insert(file)).collect();
    if chosen.is_empty() {
        context.ui.note("there are no dead letters");
        return Ok(());
    }
    for (file, name, ..) in &chosen {
        let target = inbox.requeue(file)?;
        context.ui.note(&format!("{name} waits in the inbox as {}", target.to_string_lossy()));
    }
    context.ui.note("next: `decree process`");
    Ok(())
}
