//! `decree checkpoint verify`

use serde_json::{Value, json};

use super::super::context::history_context;
use super::super::{Context, ContractFormat};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::history::{self, RunOrCheckpoint};
use crate::humanize::count;
use crate::project::Layout;

/// Read back everything that a checkpoint holds, and verify its hashes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint verify chk_20261116_0312\n  decree checkpoint verify --all\n  decree checkpoint verify --all --format json | jq .intact"
)]
pub struct VerifyArgs {
    /// The id of a checkpoint or a run, or a unique prefix
    #[arg(required_unless_present = "all")]
    id: Option<String>,

    /// Verify all checkpoints
    #[arg(long, conflicts_with = "id")]
    all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: ContractFormat,
}

/// One checkpoint, and how many entries were read back, or why it is not intact.
struct VerifiedCheckpoint {
    id: String,
    entries: Result<usize>,
}

pub fn verify(context: &Context, args: &VerifyArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
    let workspace = project.workspace()?;
    let chosen = match &args.id {
        Some(id) => vec![history::find(&project.layout, id)?],
        None => all(&project.layout)?,
    };
    let progress = context.ui.progress();
    if chosen.is_empty() {
        context.ui.note("there are no checkpoints to verify");
    }
    let mut verified = Vec::new();
    for checkpoint in &chosen {
        let id = checkpoint.dir().id();
        let entries = history::verify(history_context(&project, &workspace, &progress), checkpoint);
        // Another process deleted it, and what it held may be gone as well.
        if entries.is_err() && checkpoint.dir().dir().symlink_metadata().is_err() {
            let gone = Error::project(format!("{id} was deleted by another process"));
            match &args.id {
                Some(_) => return Err(gone),
                None => context.ui.note(&gone.to_string()),
            }
            continue;
        }
        if let (Ok(entries), ContractFormat::Text) = (&entries, args.format) {
            context.ui.print(&format!("{id}  intact, {} verified\n", count(*entries, "entry")))?;
        }
        if let (Err(error), None) = (&entries, &args.id) {
            context.ui.error(error);
        }
        verified.push(VerifiedCheckpoint { id: id.to_owned(), entries });
    }
    answer(context, args, verified)
}

/// Prints the answer for programs, and returns the failure that it contains.
fn answer(context: &Context, args: &VerifyArgs, verified: Vec<VerifiedCheckpoint>) -> Result<()> {
    let mut list = Vec::new();
    let mut failures = Vec::new();
    for VerifiedCheckpoint { id, entries } in verified {
        list.push(json!({
            "id": id,
            "intact": entries.is_ok(),
            "entries": entries.as_ref().ok(),
            "error": entries.as_ref().err().map(Error::to_json),
        }));
        failures.extend(entries.err());
    }
    let failure = match args.id {
        Some(_) => failures.pop(),
        None => (!failures.is_empty()).then(|| Error::integrity("not every checkpoint is intact")),
    };
    if args.format != ContractFormat::Text {
        let mut answer = json!({ "intact": failure.is_none(), "checkpoints": Value::Array(list) });
        if let Some(failure) = &failure {
            answer["error"] = failure.to_json();
        }
        context.ui.print(&args.format.render(&answer))?;
    }
    failure.map_or(Ok(()), |failure| Err(failure.answered()))
}

/// Every checkpoint, the oldest first; those whose record cannot be read come last.
fn all(layout: &Layout) -> Result<Vec<RunOrCheckpoint>> {
    let dir = layout.checkpoints();
    let mut ids: Vec<String> = history::list(&dir)?.0.into_iter().map(|record| record.id).collect();
    let others: Vec<String> =
        history::checkpoint_ids(&dir)?.into_iter().filter(|id| !ids.contains(id)).collect();
    ids.extend(others);
    Ok(ids.iter().map(|id| RunOrCheckpoint::Checkpoint(CheckpointDir::new(id, dir.join(id)))).collect())
}
