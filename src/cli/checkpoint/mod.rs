//! `decree checkpoint`

mod create;
mod delete;
mod gc;
mod show;

pub use create::{Lifetime, lifetime};
use serde_json::json;

use super::{Context, Format};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::history::{self, CheckpointKind, CheckpointRecord, RunOrCheckpoint};
use crate::humanize::{self, count};
use crate::sanitize::one_line;
use crate::ui;

/// Create, list, show, verify and delete checkpoints
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint create --reason 'before the migration'\n  decree checkpoint list\n  decree checkpoint show chk_20261116_0312\n  decree checkpoint gc --dry-run"
)]
pub struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CheckpointCommand {
    Create(create::CreateArgs),
    List(ListArgs),
    Show(show::ShowArgs),
    Verify(VerifyArgs),
    Delete(delete::DeleteArgs),
    Gc(gc::GcArgs),
}

/// List all checkpoints
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint list\n  decree checkpoint list --format json | jq -r '.checkpoints[].id'"
)]
struct ListArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Read back everything that a checkpoint holds, and verify its hashes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint verify chk_20261116_0312\n  decree checkpoint verify --all"
)]
struct VerifyArgs {
    /// The id of a checkpoint or a run, or a unique prefix
    #[arg(required_unless_present = "all")]
    id: Option<String>,

    /// Verify all checkpoints
    #[arg(long, conflicts_with = "id")]
    all: bool,
}

pub fn checkpoint(context: &Context, args: CheckpointArgs) -> Result<()> {
    match args.command {
        CheckpointCommand::Create(args) => create::create(context, args),
        CheckpointCommand::List(args) => list(context, &args),
        CheckpointCommand::Show(args) => show::show(context, &args),
        CheckpointCommand::Verify(args) => verify(context, &args),
        CheckpointCommand::Delete(args) => delete::delete(context, &args),
        CheckpointCommand::Gc(args) => gc::gc(context, &args),
    }
}

fn list(context: &Context, args: &ListArgs) -> Result<()> {
    let project = context.project_despite_config()?;
    let (records, damaged) = history::list(&project.layout.checkpoints())?;
    for error in damaged {
        context.ui.warn(&error.to_string());
    }
    if args.format == Format::Json {
        let list: Vec<_> = records.iter().map(to_json).collect();
        return context.ui.print_json(&json!({ "checkpoints": list }));
    }
    if records.is_empty() {
        context.ui.note("no checkpoints yet; `decree checkpoint create` creates one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            let noun = if record.kind() == CheckpointKind::DatabaseSavepoint { "database" } else { "file" };
            vec![
                record.id.clone(),
                record.kind().word().to_owned(),
                count(record.files as usize, noun),
                humanize::bytes(record.bytes),
                match (&record.expiry, record.is_expired()) {
                    (None, _) => String::new(),
                    (Some(_), true) => "expired".to_owned(),
                    (Some(expiry), false) => format!("until {expiry}"),
                },
                record.payload.scope().join(", "),
                one_line(record.reason.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    context.ui.print(&ui::table(&rows))
}

fn verify(context: &Context, args: &VerifyArgs) -> Result<()> {
    let project = context.project_despite_config()?;
    let workspace = project.workspace()?;
    let mut failed = false;
    let found: Vec<RunOrCheckpoint> = match &args.id {
        Some(id) => vec![history::find(&project.layout, id)?],
        None => {
            let (records, damaged) = history::list(&project.layout.checkpoints())?;
            for error in damaged {
                context.ui.error(&error);
                failed = true;
            }
            let dir = project.layout.checkpoints();
            let dir_of = |record: &CheckpointRecord| CheckpointDir::new(&record.id, dir.join(&record.id));
            records.iter().map(|record| RunOrCheckpoint::Checkpoint(dir_of(record))).collect()
        }
    };
    let progress = context.ui.progress();
    if found.is_empty() && !failed {
        context.ui.note("there are no checkpoints to verify");
    }
    for checkpoint in &found {
        match history::verify(super::context::history_context(&project, &workspace, &progress), checkpoint) {
            Ok(entries) => context.ui.print(&format!(
                "{}  intact, {} verified\n",
                checkpoint.dir().id(),
                count(entries, "entry")
            ))?,
            // Another process deleted it, and what it held may be gone as well.
            Err(_) if checkpoint.dir().dir().symlink_metadata().is_err() => {
                let gone =
                    Error::project(format!("{} was deleted by another process", checkpoint.dir().id()));
                match &args.id {
                    Some(_) => return Err(gone),
                    None => context.ui.note(&gone.to_string()),
                }
            }
            Err(error) if args.id.is_some() => return Err(error),
            Err(error) => {
                context.ui.error(&error);
                failed = true;
            }
        }
    }
    if failed { Err(Error::integrity("not every checkpoint is intact")) } else { Ok(()) }
}

/// The answer has every key, also those without a value.
fn to_json(record: &CheckpointRecord) -> serde_json::Value {
    json!({
        "id": record.id,
        "type": record.kind().word(),
        "created_at": record.created_at,
        "reason": record.reason,
        "files": record.files,
        "bytes": record.bytes,
        "tree": record.tree,
        "scope": record.payload.scope(),
        "expiry": record.expiry,
        "expired": record.is_expired(),
        "stash": record.payload.stash().map(|stash| &stash.commit),
    })
}
