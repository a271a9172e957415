//! `decree checkpoint`

mod create;
mod delete;
mod gc;

use serde_json::json;

use super::{Context, Format};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::saved::{Saved, path_texts};
use crate::error::{Error, Result};
use crate::figures;
use crate::history::{self, CheckpointRecord, Found};
use crate::ui;

/// Save the tree as it is, and look at what was saved
#[derive(Debug, clap::Args)]
pub struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CheckpointCommand {
    Create(create::CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Verify(VerifyArgs),
    Delete(delete::DeleteArgs),
    Gc(gc::GcArgs),
}

/// List the checkpoints there are
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Tell what a checkpoint holds, and what it does not
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// A checkpoint or a run, or the beginning of its id
    id: String,

    /// Every path in it
    #[arg(long)]
    files: bool,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Read back everything a checkpoint names, and check it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint verify chk_20261116_0312\n  decree checkpoint verify --all"
)]
struct VerifyArgs {
    /// A checkpoint or a run, or the beginning of its id
    #[arg(required_unless_present = "all")]
    id: Option<String>,

    /// Every checkpoint there is
    #[arg(long, conflicts_with = "id")]
    all: bool,
}

pub fn checkpoint(context: &Context, args: CheckpointArgs) -> Result<()> {
    match args.command {
        CheckpointCommand::Create(args) => create::create(context, args),
        CheckpointCommand::List(args) => list(context, &args),
        CheckpointCommand::Show(args) => show(context, &args),
        CheckpointCommand::Verify(args) => verify(context, &args),
        CheckpointCommand::Delete(args) => delete::delete(context, &args),
        CheckpointCommand::Gc(args) => gc::gc(context, &args),
    }
}

fn list(context: &Context, args: &ListArgs) -> Result<()> {
    let project = context.project()?;
    let (records, damaged) = history::list(&project.layout.checkpoints())?;
    for error in damaged {
        context.ui.warn(&error.to_string());
    }
    if args.format == Format::Json {
        let list: Vec<_> = records.iter().map(to_json).collect();
        return context.ui.print(&format!("{:#}\n", json!({ "checkpoints": list })));
    }
    if records.is_empty() {
        context.ui.note("no checkpoints yet; `decree checkpoint create` makes one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            vec![
                record.id.clone(),
                record.created_at.clone(),
                format!("{} files", figures::grouped(record.files)),
                figures::bytes(record.bytes),
                record.reason.clone().unwrap_or_default(),
                match (&record.expiry, record.is_expired()) {
                    (None, _) => String::new(),
                    (Some(_), true) => "expired".to_owned(),
                    (Some(expiry), false) => format!("until {expiry}"),
                },
            ]
        })
        .collect();
    context.ui.print(&ui::table(&rows))
}

fn show(context: &Context, args: &ShowArgs) -> Result<()> {
    let project = context.project()?;
    let found = history::find(&project.layout, &args.id)?;
    let saved = found.saved();
    let manifest = saved.manifest()?;
    let (files, bytes) = manifest.tree.count();
    let record = match &found {
        Found::Checkpoint(saved) => Some(CheckpointRecord::read(saved.dir())?),
        Found::Run(_) => None,
    };
    if args.format == Format::Json {
        let paths: Vec<String> = manifest.tree.iter().map(|entry| entry.path().to_string()).collect();
        let mut answer = json!({
            "id": saved.id(),
            "created_at": record.as_ref().map(|record| &record.created_at),
            "reason": record.as_ref().and_then(|record| record.reason.as_ref()),
            "files": files,
            "bytes": bytes,
            "tree": manifest.tree.hash().to_string(),
            "coverage": manifest.coverage,
        });
        if args.files {
            answer["paths"] = json!(paths);
        }
        return context.ui.print(&format!("{answer:#}\n"));
    }
    let mut rows = vec![vec!["id".to_owned(), saved.id().to_owned()]];
    if let Some(record) = record {
        rows.push(vec!["created".to_owned(), record.created_at]);
        rows.extend(record.reason.map(|reason| vec!["reason".to_owned(), reason]));
    }
    rows.push(vec![
        "holds".to_owned(),
        format!("{} files, {}", figures::grouped(files as u64), figures::bytes(bytes)),
    ]);
    rows.push(vec!["tree".to_owned(), manifest.tree.hash().to_string()]);
    rows.extend(coverage_rows(&manifest.coverage));
    context.ui.print(&ui::table(&rows))?;
    if args.files {
        let lines: String = manifest.tree.iter().map(|entry| format!("{}\n", entry.path())).collect();
        context.ui.print(&lines)?;
    }
    Ok(())
}

fn coverage_rows(coverage: &Coverage) -> Vec<Vec<String>> {
    let row =
        |what: &str, names: Vec<String>| (!names.is_empty()).then(|| vec![what.to_owned(), names.join(", ")]);
    let mut ignored = path_texts(&coverage.ignored_dirs);
    if coverage.ignored_files > 0 {
        ignored.push(format!("{} single files", figures::grouped(coverage.ignored_files)));
    }
    [
        row("ignored", ignored),
        row("sensitive, left out", path_texts(&coverage.sensitive)),
        row("special, left out", path_texts(&coverage.special)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn verify(context: &Context, args: &VerifyArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let mut failed = false;
    let saved: Vec<Saved> = match &args.id {
        Some(id) => vec![history::find(&project.layout, id)?.saved().clone()],
        None => {
            let (records, damaged) = history::list(&project.layout.checkpoints())?;
            for error in damaged {
                context.ui.error(&error);
                failed = true;
            }
            let dir = project.layout.checkpoints();
            records.iter().map(|record| Saved::new(&record.id, dir.join(&record.id))).collect()
        }
    };
    for checkpoint in &saved {
        match verify_one(&project.layout.checkpoints(), &workspace, checkpoint) {
            Ok(entries) => context.ui.print(&format!(
                "{}  whole, {} entries verified\n",
                checkpoint.id(),
                figures::grouped(entries as u64)
            ))?,
            // Somebody deleted it meanwhile, and what it held may be gone as well.
            Err(_) if checkpoint.dir().symlink_metadata().is_err() => {
                let gone = Error::project(format!("{} was deleted meanwhile", checkpoint.id()));
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
    match failed {
        false => Ok(()),
        true => Err(Error::integrity("not every checkpoint is whole")),
    }
}

fn verify_one(
    checkpoints: &std::path::Path,
    workspace: &crate::checkpoint::workspace::Workspace,
    saved: &Saved,
) -> Result<usize> {
    let manifest = saved.manifest()?;
    if saved.dir().parent() == Some(checkpoints) {
        CheckpointRecord::read(saved.dir())?.check(&manifest)?;
    }
    saved.verify(workspace, &manifest)
}

fn to_json(record: &CheckpointRecord) -> serde_json::Value {
    serde_json::to_value(record).expect("a record is plain data")
}
