//! `decree checkpoint show`

use serde_json::{Value, json};

use super::super::{Context, Format};
use crate::checkpoint::checkpoint_dir::path_texts;
use crate::checkpoint::coverage::Coverage;
use crate::error::Result;
use crate::history::kind::database::SavedDatabase;
use crate::history::kind::state::StateSnapshot;
use crate::history::{self, CheckpointKind, CheckpointRecord, RunOrCheckpoint};
use crate::humanize::{self, count};
use crate::sanitize::one_line;
use crate::ui;

/// Tell what a checkpoint holds, and what it does not
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// A checkpoint or a run, or the beginning of its id
    id: String,

    /// Every path in it
    #[arg(long)]
    files: bool,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What there is to tell.
struct Shown {
    record: Option<CheckpointRecord>,
    files: u64,
    /// What they are.
    noun: &'static str,
    bytes: u64,
    hash: String,
    paths: Vec<String>,
    /// What it does not hold: for programs, and for people.
    coverage: Value,
    rows: Vec<Vec<String>>,
}

pub fn show(context: &Context, args: &ShowArgs) -> Result<()> {
    let project = context.project()?;
    let found = history::find(&project.layout, &args.id)?;
    let shown = look(&found)?;
    let id = found.saved().id();
    if args.format == Format::Json {
        let mut answer = json!({
            "id": id,
            "type": shown.record.as_ref().map_or(CheckpointKind::default(), |record| record.kind).word(),
            "created_at": shown.record.as_ref().map(|record| &record.created_at),
            "reason": shown.record.as_ref().and_then(|record| record.reason.as_ref()),
            "scope": shown.record.as_ref().map_or(&[][..], |record| &record.scope),
            "expiry": shown.record.as_ref().and_then(|record| record.expiry.as_ref()),
            "stash": shown.record.as_ref().and_then(|record| record.stash.as_ref()),
            "files": shown.files,
            "bytes": shown.bytes,
            "tree": shown.hash,
            "coverage": shown.coverage,
        });
        if args.files {
            answer["paths"] = json!(shown.paths);
        }
        return context.ui.print(&format!("{answer:#}\n"));
    }
    let mut rows = vec![vec!["id".to_owned(), id.to_owned()]];
    if let Some(record) = shown.record {
        rows.push(vec!["type".to_owned(), record.kind.word().to_owned()]);
        rows.push(vec!["created".to_owned(), record.created_at]);
        rows.extend(record.reason.map(|reason| vec!["reason".to_owned(), one_line(&reason)]));
        if !record.scope.is_empty() {
            rows.push(vec!["for".to_owned(), record.scope.join(", ")]);
        }
        rows.extend(record.expiry.map(|expiry| vec!["expires".to_owned(), expiry]));
    }
    let holds = format!("{}, {}", count(shown.files as usize, shown.noun), humanize::bytes(shown.bytes));
    rows.push(vec!["holds".to_owned(), holds]);
    rows.push(vec!["hash".to_owned(), shown.hash]);
    rows.extend(shown.rows);
    context.ui.print(&ui::table(&rows))?;
    if args.files {
        let lines: String = shown.paths.iter().map(|path| format!("{path}\n")).collect();
        context.ui.print(&lines)?;
    }
    Ok(())
}

fn look(found: &RunOrCheckpoint) -> Result<Shown> {
    let saved = found.saved();
    let record = match found {
        RunOrCheckpoint::Checkpoint(saved) => Some(CheckpointRecord::read(saved.dir())?),
        RunOrCheckpoint::Run(_) => None,
    };
    if let Some(record) = record.as_ref().filter(|record| record.kind == CheckpointKind::StateSnapshot) {
        return of_state(StateSnapshot::saved(saved, record)?, record.clone());
    }
    if let Some(record) = record.as_ref().filter(|record| record.kind == CheckpointKind::DatabaseSavepoint) {
        return Ok(of_databases(record.clone()));
    }
    let manifest = saved.manifest()?;
    let (files, bytes) = manifest.tree.count();
    Ok(Shown {
        record,
        files: files as u64,
        noun: "file",
        bytes,
        hash: manifest.tree.hash().to_string(),
        paths: manifest.tree.iter().map(|entry| entry.path().to_string()).collect(),
        rows: coverage_rows(&manifest.coverage),
        coverage: serde_json::to_value(&manifest.coverage).expect("a coverage is plain data"),
    })
}

fn of_state(state: StateSnapshot, record: CheckpointRecord) -> Result<Shown> {
    let mut rows = Vec::new();
    for (name, value) in &state.environment {
        let value = value.as_ref().map_or("not set".to_owned(), |value| one_line(value));
        rows.push(vec![format!("env:{name}"), value]);
    }
    if !state.left_out.is_empty() {
        rows.push(vec!["left out".to_owned(), state.left_out.join(", ")]);
    }
    Ok(Shown {
        files: record.files,
        noun: "file",
        bytes: record.bytes,
        hash: record.tree.clone(),
        record: Some(record),
        paths: state.files.keys().cloned().collect(),
        coverage: json!({ "left_out": state.left_out, "environment": state.environment }),
        rows,
    })
}

fn of_databases(record: CheckpointRecord) -> Shown {
    let name = |saved: &SavedDatabase| saved.target().name().to_owned();
    let row = |saved: &SavedDatabase| vec![name(saved), humanize::bytes(saved.bytes())];
    Shown {
        files: record.files,
        noun: "database",
        bytes: record.bytes,
        hash: record.tree.clone(),
        paths: record.databases.iter().map(name).collect(),
        coverage: json!({}),
        rows: record.databases.iter().map(row).collect(),
        record: Some(record),
    }
}

fn coverage_rows(coverage: &Coverage) -> Vec<Vec<String>> {
    let row =
        |what: &str, names: Vec<String>| (!names.is_empty()).then(|| vec![what.to_owned(), names.join(", ")]);
    let mut ignored = path_texts(&coverage.ignored_dirs);
    if coverage.ignored_files > 0 {
        ignored.push(count(coverage.ignored_files as usize, "single file"));
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
