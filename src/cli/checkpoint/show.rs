//! `decree checkpoint show`

use serde_json::{Value, json};

use super::super::{Context, Format};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::path::{RepositoryPath, TreePath};
use crate::checkpoint::quote::{in_json, json_for_people};
use crate::checkpoint::store::Store;
use crate::error::{Error, IoContext, Result};
use crate::history::kind::state::StateSnapshot;
use crate::history::{
    self, CheckpointKind, CheckpointPayload, CheckpointRecord, RunOrCheckpoint, SavedDatabase,
};
use crate::humanize::{self, count};
use crate::sanitize::one_line;
use crate::ui;

/// Show what a checkpoint holds, and what it does not
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint show chk_20261116_0312\n  decree checkpoint show 2026111603120000-0 --files\n  decree checkpoint show chk_20261116_0312 --format json | jq .coverage\n  decree checkpoint show 2026111603120000-0 --manifest | jq '.files[\"src/main.rs\"]'"
)]
pub struct ShowArgs {
    /// The id of a checkpoint or a run, or a unique prefix
    id: String,

    /// Also list every path in it
    #[arg(long)]
    files: bool,

    /// Print its manifest, with all entries, and nothing else: the manifest.json of a large tree may name parts in the store instead
    #[arg(long, conflicts_with_all = ["files", "format"])]
    manifest: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// What the command prints about a checkpoint.
struct CheckpointDetails {
    record: Option<CheckpointRecord>,
    files: u64,
    /// What is counted: files or databases.
    noun: &'static str,
    bytes: u64,
    hash: String,
    paths: Vec<String>,
    /// What it does not hold, for programs; `rows` has the same for users.
    coverage: Value,
    rows: Vec<Vec<String>>,
}

pub fn show(context: &Context, args: &ShowArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
    let found = history::find(&project.layout, &args.id)?;
    let workspace = project.workspace()?;
    if args.manifest {
        return print_manifest(context, &found, workspace.store());
    }
    let details = load_details(&found, workspace.store())?;
    let (id, record) = (found.dir().id(), details.record.as_ref());
    if args.format == Format::Json {
        let mut answer = json!({
            "id": id,
            "type": record.map_or(CheckpointKind::default(), CheckpointRecord::kind).word(),
            "created_at": record.map(|record| &record.created_at),
            "reason": record.and_then(|record| record.reason.as_ref()),
            "scope": record.map_or(Vec::new(), |record| record.payload.scope()),
            "expiry": record.and_then(|record| record.expiry.as_ref()),
            "stash": record.and_then(|record| record.payload.stash()),
            "files": details.files,
            "bytes": details.bytes,
            "tree": details.hash,
            "coverage": details.coverage,
        });
        if args.files {
            answer["paths"] = json!(details.paths);
        }
        return context.ui.print_json(&answer);
    }
    let mut rows = vec![vec!["id".to_owned(), id.to_owned()]];
    if let Some(record) = record {
        rows.push(vec!["type".to_owned(), record.kind().word().to_owned()]);
        rows.push(vec!["created".to_owned(), record.created_at.clone()]);
        rows.extend(record.reason.as_ref().map(|reason| vec!["reason".to_owned(), one_line(reason)]));
        let scope = record.payload.scope();
        if !scope.is_empty() {
            rows.push(vec!["scope".to_owned(), scope.join(", ")]);
        }
        rows.extend(record.expiry.clone().map(|expiry| vec!["expires".to_owned(), expiry]));
    }
    let holds =
        format!("{}, {}", count(details.files as usize, details.noun), humanize::bytes(details.bytes));
    rows.push(vec!["holds".to_owned(), holds]);
    rows.push(vec!["hash".to_owned(), details.hash]);
    rows.extend(details.rows);
    context.ui.print(&ui::table(&rows))?;
    if args.files {
        let lines: String = details.paths.iter().map(|path| json_for_people(path) + "\n").collect();
        context.ui.print(&lines)?;
    }
    Ok(())
}

/// Prints the text of the whole manifest.
fn print_manifest(context: &Context, found: &RunOrCheckpoint, store: &Store) -> Result<()> {
    if let RunOrCheckpoint::Checkpoint(dir) = found
        && !CheckpointRecord::read(dir.dir())?.kind().holds_tree()
    {
        return Err(Error::usage(format!("{} has no manifest: it does not hold the tree", dir.id())));
    }
    let mut text = Vec::new();
    found.dir().manifest(store)?.write_text(&mut text).at("write", "the manifest")?;
    context.ui.print(&String::from_utf8(text).expect("JSON is UTF-8"))
}

fn load_details(found: &RunOrCheckpoint, store: &Store) -> Result<CheckpointDetails> {
    let dir = found.dir();
    let record = match found {
        RunOrCheckpoint::Checkpoint(dir) => Some(CheckpointRecord::read(dir.dir())?),
        RunOrCheckpoint::Run(_) => None,
    };
    match record.as_ref().map(|record| (record, &record.payload)) {
        Some((record, CheckpointPayload::State { sha256, .. })) => {
            return Ok(of_state(&StateSnapshot::load(dir, record, sha256)?, record.clone()));
        }
        Some((record, CheckpointPayload::Databases(list))) => return Ok(of_databases(list, record.clone())),
        Some((_, CheckpointPayload::Tree(_) | CheckpointPayload::Stash(..))) | None => {}
    }
    let manifest = dir.manifest(store)?;
    let (files, bytes) = manifest.tree.count();
    Ok(CheckpointDetails {
        record,
        files: files as u64,
        noun: "file",
        bytes,
        hash: manifest.tree.hash().to_string(),
        paths: manifest.tree.iter().map(|entry| in_json(entry.path().as_bytes()).into_owned()).collect(),
        rows: coverage_rows(&manifest.coverage),
        coverage: serde_json::to_value(&manifest.coverage).expect("a coverage is plain data"),
    })
}

fn of_state(state: &StateSnapshot, record: CheckpointRecord) -> CheckpointDetails {
    let mut rows = Vec::new();
    for (name, value) in &state.environment {
        let value = value.as_ref().map_or("not set".to_owned(), |value| one_line(value));
        rows.push(vec![format!("env:{name}"), value]);
    }
    if !state.left_out.is_empty() {
        rows.push(vec!["left out".to_owned(), state.left_out.join(", ")]);
    }
    CheckpointDetails {
        files: record.files,
        noun: "file",
        bytes: record.bytes,
        hash: record.tree.clone(),
        record: Some(record),
        paths: state.files.keys().cloned().collect(),
        coverage: json!({ "left_out": state.left_out, "environment": state.environment }),
        rows,
    }
}

fn of_databases(list: &[SavedDatabase], record: CheckpointRecord) -> CheckpointDetails {
    let name = |saved: &SavedDatabase| saved.target().name().to_owned();
    let row = |saved: &SavedDatabase| vec![name(saved), humanize::bytes(saved.bytes())];
    CheckpointDetails {
        files: record.files,
        noun: "database",
        bytes: record.bytes,
        hash: record.tree.clone(),
        paths: list.iter().map(name).collect(),
        coverage: json!({}),
        rows: list.iter().map(row).collect(),
        record: Some(record),
    }
}

fn coverage_rows(coverage: &Coverage) -> Vec<Vec<String>> {
    let row =
        |what: &str, names: Vec<String>| (!names.is_empty()).then(|| vec![what.to_owned(), names.join(", ")]);
    let texts = |paths: &[TreePath]| -> Vec<String> { paths.iter().map(TreePath::to_string).collect() };
    let mut ignored = texts(&coverage.ignored_dirs);
    if coverage.ignored_files > 0 {
        ignored.push(count(coverage.ignored_files as usize, "single file"));
    }
    let databases = coverage.live_databases.iter();
    let databases = databases.map(|database| format!("{} ({})", database.path, database.why()));
    [
        row("ignored", ignored),
        row("likely secrets, left out", texts(&coverage.sensitive)),
        row("special files, left out", coverage.special_files().map(TreePath::to_string).collect()),
        row("decree's own output, left out", texts(&coverage.outputs)),
        row("databases in use", databases.collect()),
        row("repositories, not held", coverage.repositories.iter().map(RepositoryPath::to_string).collect()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
