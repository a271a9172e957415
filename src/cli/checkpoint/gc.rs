//! `decree checkpoint gc`

use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::{Context, Format};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::history::gc::{ContentPlan, ExpiredCheckpoint, GcPlan, GcReport, survey};
use crate::humanize::{self, count};
use crate::ui;

/// Delete expired checkpoints, and stored content that nothing references any more
///
/// Runs, and checkpoints that have not expired, are not touched. Nor are expired ones with files in set-aside/: these may be nowhere else. Each deleted checkpoint is listed, with what cannot be
/// restored without it. Content is dropped only if no run and no checkpoint references it; if any manifest cannot be read, or if the
/// store is shared (DECREE_STORE), all of it stays. No other command collects garbage.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint gc --dry-run\n  decree checkpoint gc\n  decree checkpoint gc --format json | jq .freed"
)]
pub struct GcArgs {
    /// Only report what would be deleted, and how much would be freed
    #[arg(long)]
    dry_run: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

pub fn gc(context: &Context, args: &GcArgs) -> Result<()> {
    // A dry run only shows something.
    let project = if args.dry_run { context.project_to_inspect()? } else { context.project()? };
    let workspace = project.workspace()?;
    // A dry run takes no lock: a change during the survey only makes its figures wrong.
    let lock = || context.lock(&project, &workspace, "checkpoint gc");
    let _lock = if args.dry_run { None } else { Some(lock()?) };
    let survey = survey(&project.layout, workspace.store())?;
    for error in &survey.unknown {
        context.ui.warn(&format!("{error}; it may not have expired, so it is kept"));
    }
    for (dir, files) in &survey.with_set_aside {
        context.ui.warn(&kept_for_set_aside(dir, files));
    }
    let report = if args.dry_run { survey.expected() } else { survey.carry_out(&project.layout)? };
    if let ContentPlan::Shared(why) = &survey.content {
        context.ui.warn(&format!("no content is dropped: {why}"));
    }
    context.ui.print(&match args.format {
        Format::Json => format!("{:#}\n", to_json(&survey, &report, args.dry_run)),
        Format::Text => to_text(&survey, &report, args.dry_run),
    })?;
    match survey.content {
        // The answer for programs contains the error.
        ContentPlan::Doubtful(error) if args.format == Format::Json => Err(error.answered()),
        ContentPlan::Doubtful(error) => Err(error),
        _ => Ok(()),
    }
}

/// The warning about an expired checkpoint that stays.
fn kept_for_set_aside(dir: &CheckpointDir, files: &[PathBuf]) -> String {
    const MAX_NAMED: usize = 10;
    let id = dir.id();
    let named: Vec<String> = files.iter().take(MAX_NAMED).map(|file| file.display().to_string()).collect();
    let more = match files.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{id} has expired and is kept: it may hold the only copy of {}{more}; \
         `decree checkpoint delete --with-set-aside {id}` deletes it",
        named.join(", ")
    )
}

fn to_text(survey: &GcPlan<'_>, report: &GcReport, dry_run: bool) -> String {
    let rows: Vec<Vec<String>> = survey.expired.iter().map(row).collect();
    let mut parts = Vec::new();
    if let number @ 1.. = rows.len() {
        let deleted = if dry_run { "would be deleted" } else { "deleted" };
        parts.push(format!("{} {deleted}", count(number, "expired checkpoint")));
    }
    if let Some(compaction) = report.compaction.filter(|it| it.rewritten + it.removed > 0) {
        let would_be = if dry_run { "would be " } else { "" };
        let rewritten = count(compaction.rewritten, "pack");
        parts.push(format!("{rewritten} {would_be}rewritten, {} {would_be}removed", compaction.removed));
    }
    let freed = humanize::bytes(report.freed);
    let end = match (parts.is_empty(), &survey.content) {
        (false, _) => {
            parts.push(if dry_run {
                format!("about {freed} would be freed")
            } else {
                format!("{freed} freed")
            });
            parts.join("; ")
        }
        (true, ContentPlan::Doubtful(_)) => return String::new(),
        (true, ContentPlan::Shared(_)) => "no checkpoint is deleted".to_owned(),
        (true, ContentPlan::Known(_)) => "no checkpoint is deleted, and no content can be dropped".to_owned(),
    };
    format!("{}{end}\n", ui::table(&rows))
}

/// An expired checkpoint, and what is lost with it.
fn row(expired: &ExpiredCheckpoint) -> Vec<String> {
    let record = &expired.record;
    let lost = match expired.lost {
        None => "cannot tell what only it holds".to_owned(),
        Some(lost) if lost.files == 0 => "everything in it is held elsewhere as well".to_owned(),
        Some(lost) => {
            format!("only it holds {}, {}", count(lost.files as usize, "file"), humanize::bytes(lost.bytes))
        }
    };
    let expiry = record.expiry.as_deref().unwrap_or_default();
    let mut row = vec![
        record.id.clone(),
        record.kind().word().to_owned(),
        format!("created {}", record.created_at),
        format!("expired {expiry}"),
        lost,
    ];
    row.extend(record.reason.as_deref().map(crate::sanitize::one_line));
    row
}

fn to_json(survey: &GcPlan<'_>, report: &GcReport, dry_run: bool) -> Value {
    let checkpoints: Vec<Value> = survey
        .expired
        .iter()
        .map(|expired| {
            let record = &expired.record;
            json!({
                "id": record.id,
                "type": record.kind().word(),
                "created_at": record.created_at,
                "expiry": record.expiry,
                "reason": record.reason,
                "files": record.files,
                "bytes": record.bytes,
                "unrestorable": expired.lost.map(|lost| json!({ "files": lost.files, "bytes": lost.bytes })),
            })
        })
        .collect();
    let kept_because = match &survey.content {
        ContentPlan::Known(_) => None,
        ContentPlan::Shared(why) => Some(why.clone()),
        ContentPlan::Doubtful(error) => Some(error.to_string()),
    };
    let mut answer = json!({
        "dry_run": dry_run,
        "checkpoints": checkpoints,
        "kept_for_set_aside": survey.with_set_aside.iter().map(|(dir, files)| json!({
            "id": dir.id(),
            "files": files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "store": report.compaction.map(|compaction| json!({
            "packs_removed": compaction.removed,
            "packs_rewritten": compaction.rewritten,
            "contents_dropped": compaction.dropped,
            "bytes_before": compaction.before,
            "bytes_after": compaction.after,
        })),
        "content_kept_because": kept_because,
        "freed": report.freed,
    });
    if let ContentPlan::Doubtful(error) = &survey.content {
        answer["error"] = error.to_json();
    }
    answer
}
