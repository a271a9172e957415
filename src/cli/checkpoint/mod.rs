//! `decree checkpoint`

mod create;
mod delete;
mod gc;
mod show;
mod verify;

pub use create::restore_command;
use serde_json::json;

use super::{Context, FailureAnswer, Format};
use crate::error::Result;
use crate::history::{self, CheckpointKind, CheckpointRecord};
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
    Verify(verify::VerifyArgs),
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

impl CheckpointArgs {
    pub(super) fn failure_answer(&self) -> FailureAnswer {
        match &self.command {
            CheckpointCommand::Create(args) => {
                FailureAnswer::new(args.format).with_contract("checkpoint_created")
            }
            CheckpointCommand::List(args) => FailureAnswer::new(args.format),
            CheckpointCommand::Show(args) => FailureAnswer::new(args.format),
            CheckpointCommand::Verify(args) => FailureAnswer::new(args.format),
            CheckpointCommand::Gc(args) => FailureAnswer::new(args.format),
            CheckpointCommand::Delete(_) => FailureAnswer::default(),
        }
    }
}

pub fn checkpoint(context: &Context, args: CheckpointArgs) -> Result<()> {
    match args.command {
        CheckpointCommand::Create(args) => create::create(context, args),
        CheckpointCommand::List(args) => list(context, &args),
        CheckpointCommand::Show(args) => show::show(context, &args),
        CheckpointCommand::Verify(args) => verify::verify(context, &args),
        CheckpointCommand::Delete(args) => delete::delete(context, &args),
        CheckpointCommand::Gc(args) => gc::gc(context, &args),
    }
}

fn list(context: &Context, args: &ListArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
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
