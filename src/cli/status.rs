//! `decree status`

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::{Context, Format};
use crate::checkpoint::quote::{for_people, in_json};
use crate::checkpoint::store::Store;
use crate::error::Result;
use crate::history::gc::ContentPlan;
use crate::history::{self, PendingGitRestore, RunDir};
use crate::humanize::{self, count};
use crate::message::{Inbox, MessageId, SPEC_EXTENSION, display_name};
use crate::pipeline::{ActiveRun, DeadLetter, RunResult, Selection, plan};
use crate::project::Project;
use crate::sanitize::one_line;
use crate::spec::Tracker;
use crate::ui;

/// How many pending specs and dead letters are named.
const MAX_NAMED: usize = 5;
/// How many characters of a dead letter's reason are shown.
const MAX_ERROR: usize = 60;

/// How many bytes of manifests are read to compute what is reclaimable: that takes some hundredths of a second. With more than
/// that (200 runs in a tree of 5,000 files have 130 MB, which takes more than a second) only expired checkpoints are counted.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// The same for their number: those of large trees are small files that name parts in the store.
const MAX_MANIFESTS: usize = 64;

/// Show what runs, processed and pending specs, the inbox, dead letters, runs and the store
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  decree status\n  decree status --format json | jq .specs.pending")]
pub struct StatusArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

pub fn status(context: &Context, args: &StatusArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
    let layout = &project.layout;
    let plan = plan(layout, &Selection::default())?;
    for problem in &plan.problems {
        context.ui.warn(problem);
    }
    let processed = Tracker::read(&layout.tracker())?.names().count();
    let pending: Vec<String> =
        plan.specs.iter().map(|spec| spec.file_name.trim_end_matches(SPEC_EXTENSION).to_owned()).collect();
    let dead = DeadLetter::all(&Inbox::of(layout))?;
    let runs = history::run_ids(layout)?;
    let active = ActiveRun::read(layout)?;
    // The result of an active run, if there is one already, is not carried out yet.
    let settled = runs.last().filter(|id| active.as_ref().is_none_or(|run| run.dir.id().to_string() != **id));
    let latest = settled.and_then(|id| latest(&project, id));
    let workspace = project.workspace()?;
    context.warn_damaged_packs(&workspace);
    let usage = workspace.store().usage()?;
    let checkpoints = history::list(&layout.checkpoints())?.0;
    let expired = checkpoints.iter().filter(|record| record.is_expired()).count();
    let reclaimable = reclaimable(&project, workspace.store(), runs.len() + checkpoints.len())?;
    let git_pending = PendingGitRestore::unrestored(layout)?;
    let (running, unfinished) = match active {
        Some(run) if run.is_alive(layout) => (Some(run), None),
        run => (None, run),
    };
    if args.format == Format::Json {
        let answer = json!({
            "specs": { "processed": processed, "pending": pending },
            "inbox": plan.messages.iter().map(|file| in_json(file.as_bytes())).collect::<Vec<_>>(),
            "dead": dead.iter().map(dead_json).collect::<Vec<_>>(),
            "runs": { "count": runs.len(), "latest": runs.last() },
            "store": { "bytes": usage.bytes, "contents": usage.contents },
            "checkpoints": checkpoints.len(),
            "expired": expired,
            "reclaimable": reclaimable,
            "running": running.as_ref().map(running_json),
            "unfinished": unfinished.map(|run| run.dir.id().to_string()),
            "git_pending": git_pending.map_or_else(Vec::new, |(_, lines)| lines),
        });
        return context.ui.print_json(&answer);
    }
    let mut rows: Vec<Vec<String>> = running.iter().map(running_row).collect();
    rows.push(vec!["specs".to_owned(), specs_text(processed, &pending)]);
    rows.push(vec!["inbox".to_owned(), count(plan.messages.len(), "message")]);
    rows.extend(dead_rows(&dead));
    rows.push(vec![
        "runs".to_owned(),
        match (runs.last(), latest) {
            (Some(id), Some(latest)) => format!("{} · latest {id}  {latest}", runs.len()),
            _ => runs.len().to_string(),
        },
    ]);
    rows.push(store_row(usage.bytes, checkpoints.len(), expired, reclaimable));
    rows.extend(unfinished.map(unfinished_row));
    rows.extend(git_pending.map(|(what, _)| git_row(&what)));
    context.ui.print(&ui::table(&rows))
}

fn unfinished_row(run: ActiveRun) -> Vec<String> {
    let text = format!("run {}, started {}; {}", run.dir.id(), run.started_at(), run.way_out());
    vec!["unfinished".to_owned(), text]
}

/// git's own state, if it could not be restored.
fn git_row(what: &str) -> Vec<String> {
    let text = format!("not restored since {what} failed; the next command tries again");
    vec!["git".to_owned(), text]
}

/// `02-add-search · attempt 2 of 4 · 1m 03s of 1h 00m`
fn running_row(run: &ActiveRun) -> Vec<String> {
    let mut text = run.name();
    match run.attempt() {
        Some(attempt) => {
            let (number, of, elapsed) = (attempt.number, attempt.of, humanize::duration(attempt.elapsed()));
            text.push_str(&format!(" · attempt {number} of {of} · {elapsed}"));
            if let Some(limit) = attempt.timeout() {
                text.push_str(&format!(" of {}", humanize::duration(limit)));
            }
        }
        None => text.push_str(&format!(" · before its first attempt · started {}", run.started_at())),
    }
    vec!["running".to_owned(), text, format!("decree log {}", run.dir.id())]
}

fn running_json(run: &ActiveRun) -> Value {
    json!({
        "id": run.dir.id().to_string(),
        "name": run.name(),
        "started_at": run.started_at(),
        "attempt": run.attempt().map(|attempt| attempt.number),
        "of": run.attempt().map(|attempt| attempt.of),
        "elapsed_ms": run.attempt().map(|attempt| attempt.elapsed().as_millis() as u64),
        "timeout_ms": run.attempt().and_then(|attempt| attempt.timeout()).map(|limit| limit.as_millis() as u64),
    })
}

fn specs_text(processed: usize, pending: &[String]) -> String {
    let mut text = format!("{processed} processed · {} pending", pending.len());
    if !pending.is_empty() {
        let names = pending.iter().take(MAX_NAMED).map(|name| for_people(name.as_bytes()));
        let shown = names.collect::<Vec<_>>().join(", ");
        let more = if pending.len() > MAX_NAMED { ", …" } else { "" };
        text.push_str(&format!(": {shown}{more}"));
    }
    text
}

/// How many bytes `decree checkpoint gc` would free; `None` if that is unknown or would take too long to compute. `records`: how many runs
/// and checkpoints there are, nearly all of which have a manifest.
fn reclaimable(project: &Project, store: &Store, records: usize) -> Result<Option<u64>> {
    if records > MAX_MANIFESTS {
        return Ok(None);
    }
    let survey = history::gc::quick_survey(&project.layout, store, MAX_MANIFEST_BYTES, MAX_MANIFESTS)?;
    Ok(survey
        .filter(|survey| !matches!(survey.content, ContentPlan::Doubtful(_)))
        .map(|it| it.expected().freed))
}

fn store_row(bytes: u64, checkpoints: usize, expired: usize, reclaimable: Option<u64>) -> Vec<String> {
    let mut text = format!("{} · {}", humanize::bytes(bytes), count(checkpoints, "checkpoint"));
    match reclaimable {
        Some(0) => {}
        Some(bytes) => text.push_str(&format!(" · {} reclaimable", humanize::bytes(bytes))),
        None if expired > 0 => text.push_str(&format!(" · {expired} expired")),
        None => {}
    }
    let mut row = vec!["store".to_owned(), text];
    if reclaimable.unwrap_or(expired as u64) > 0 {
        row.push("decree checkpoint gc --dry-run".to_owned());
    }
    row
}

fn dead_rows(dead: &[DeadLetter]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (number, letter) in dead.iter().take(MAX_NAMED).enumerate() {
        let head = if number == 0 { "dead".to_owned() } else { String::new() };
        let lead = if number == 0 { format!("{} · ", dead.len()) } else { "    ".to_owned() };
        let name = display_name(&letter.file, "");
        let error = shortened(&one_line(&letter.field("error")));
        let what = Some(letter.field("id")).filter(|id| !id.is_empty()).unwrap_or_else(|| name.clone());
        rows.push(vec![head, format!("{lead}{name} ({error})"), format!("decree retry {what}")]);
    }
    if rows.is_empty() {
        rows.push(vec!["dead".to_owned(), "0".to_owned()]);
    }
    if dead.len() > MAX_NAMED {
        let more = format!("    and {} more", dead.len() - MAX_NAMED);
        rows.push(vec![String::new(), more, "decree status --format json".to_owned()]);
    }
    rows
}

/// The beginning of a reason that is too long for a row.
fn shortened(error: &str) -> String {
    match error.char_indices().nth(MAX_ERROR) {
        Some((end, _)) => format!("{}…", error[..end].trim_end()),
        None => error.to_owned(),
    }
}

fn dead_json(letter: &DeadLetter) -> Value {
    let error = one_line(&letter.field("error"));
    json!({ "name": display_name(&letter.file, ""), "id": letter.field("id"), "error": error })
}

/// The verdict, time and size of the latest run; `None` if it has no verdict.
fn latest(project: &Project, id: &str) -> Option<String> {
    let run = RunDir::of(&project.layout, &MessageId::parse(id)?);
    let result = match RunResult::read(&run.checkpoint()) {
        Ok(result) => result?,
        Err(_) => return Some("result.json is damaged".to_owned()),
    };
    let took = humanize::duration(std::time::Duration::from_millis(result.run.duration_ms));
    let state = result.state();
    // A change that was reverted is not in the tree.
    let changes = result.changes.as_ref().filter(|_| result.run.reverted.is_none());
    let lines = changes.map_or(String::new(), |it| format!("  +{} −{}", it.added, it.removed));
    let commits = result.run.commits().map_or(String::new(), |commits| format!("  {commits}"));
    Some(format!("{state}  {took}{lines}{commits}"))
}
