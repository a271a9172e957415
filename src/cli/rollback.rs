//! `decree rollback`

use std::path::PathBuf;

use serde_json::{Value, json};

use super::work::Workshop;
use super::{Context, ContractFormat};
use crate::checkpoint::compare::Change;
use crate::checkpoint::entry::describe;
use crate::error::Result;
use crate::figures::count;
use crate::history::rollback::{RolledBack, Wish, rollback as roll_back};
use crate::history::{self, Found, Scope};

/// Put the tree back to a checkpoint, or a part of it
///
/// Everything that differs within the scope is put back byte for byte: what was changed or deleted since is as it was, what
/// appeared since is gone. What is there now is saved as a checkpoint first, so a rollback can be rolled back. Then the tree is
/// compared with the checkpoint; if its hash is not the same, the exit code is 4.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree rollback chk_20261116_031200_a1b2c3\n  decree rollback chk_20261116 --dry-run\n  decree rollback chk_20261116 --scope src --scope 'docs/*.md' --reason 'the tests failed'\n  decree rollback chk_20261116 --format json"
)]
pub struct RollbackArgs {
    /// A checkpoint, or the beginning of its id; of a run, what was there before it
    id: String,

    /// Only this path and what is below it, or what matches this pattern (may be given more than once)
    #[arg(long, value_name = "PATH|GLOB")]
    scope: Vec<String>,

    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Only tell what would be put back
    #[arg(long)]
    dry_run: bool,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: ContractFormat,
}

pub fn rollback(context: &Context, args: &RollbackArgs) -> Result<()> {
    let shop = Workshop::open(context, "rollback")?;
    let layout = &shop.project.layout;
    let found = history::find(layout, &args.id)?;
    let scope = Scope::typed(&args.scope, layout.root(), &context.directory)?;
    let wish = Wish { scope, reason: args.reason.clone(), dry_run: args.dry_run };
    let done = roll_back(&shop.workspace, layout, &found, &wish, &context.ui.progress())?;
    match args.format {
        ContractFormat::Text => {
            tell(context, found.saved().id(), &done, args.dry_run);
            Ok(())
        }
        format => context.ui.print(&format.render(&contract(&found, &done, args.dry_run))),
    }
}

/// What was undone, in words.
pub fn tell(context: &Context, id: &str, done: &RolledBack, dry_run: bool) {
    let ui = &context.ui;
    let changes: Vec<&Change> = undone(done).collect();
    for change in &changes {
        ui.note(&format!("  {:<7} {}", operation(change), change.path));
    }
    if changes.is_empty() && done.set_aside.is_empty() {
        ui.note(&format!("the tree is as {id} has it ({} verified)", count(done.held, "path")));
        return;
    }
    if dry_run {
        ui.note(&format!("{} would be put back to {id}; nothing was done", count(changes.len(), "path")));
        return;
    }
    for (path, to) in &done.set_aside {
        ui.note(&format!("set aside {path}: it is in {} now", to.display()));
    }
    ui.note(&format!(
        "put back {}; {} verified against {id}",
        count(changes.len(), "path"),
        count(done.held, "path")
    ));
    if let Some(saved) = &done.saved {
        ui.note(&format!("what was there is saved: `decree rollback {saved}` brings it back"));
    }
}

/// The answer for programs. Every value in it is worked out, none is assumed.
fn contract(found: &Found, done: &RolledBack, dry_run: bool) -> Value {
    let saved = found.saved();
    let same = done.after == done.wanted;
    let hash = |hash: &crate::checkpoint::hash::ContentHash| format!("sha256:{hash}");
    let reverted: Vec<Value> = undone(done)
        .map(|change| json!({ "file": change.path.to_string(), "operation": operation(change), "summary": summary(change) }))
        .collect();
    let mut warnings: Vec<String> = undone(done)
        .filter(|change| change.before.is_none())
        .map(|change| {
            format!(
                "orphan: {} appeared since the checkpoint{}",
                change.path,
                if dry_run { "" } else { " and was removed" }
            )
        })
        .collect();
    warnings.extend(done.set_aside.iter().map(|(path, to)| format!("{path} was moved to {}", to.display())));
    let mut evidence = vec![format!("file:{}", shown(&saved.manifest_path()))];
    let mut next = Vec::new();
    if let Some(present) = &done.saved {
        evidence.push(format!("file:.decree/checkpoints/{present}/rollback.diff"));
        evidence.push("file:.decree/audit.jsonl".to_owned());
        next.push(format!("decree rollback {present}"));
        next.push(format!("decree diff {present}"));
    }
    if dry_run {
        next.push(format!("decree rollback {}", saved.id()));
    }
    let assumptions: &[&str] = match same {
        true => &[],
        false => &["nothing was done yet"],
    };
    json!({
        "rolled_back": !dry_run && same,
        "restored_to": {
            "checkpoint_id": saved.id(),
            "checkpoint_type": "file_backup",
            "timestamp": done.created_at,
        },
        "changes_reverted": reverted,
        "verification": {
            "pre_state_hash": hash(&done.before),
            "post_state_hash": hash(&done.after),
            "checkpoint_hash": hash(&done.wanted),
            "match": same,
        },
        "saved_present_as": done.saved,
        "warnings": warnings,
        "next_actions": next,
        "confidence": if same { 1.0 } else { 0.0 },
        "evidence_anchors": evidence,
        "assumptions": assumptions,
    })
}

/// What really differed: a directory may be listed only because something in it came or went.
fn undone(done: &RolledBack) -> impl Iterator<Item = &Change> {
    done.changes.iter().filter(|change| change.before != change.after)
}

/// What had been done, and is undone.
fn operation(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "create",
        (_, None) => "delete",
        _ => "modify",
    }
}

fn summary(change: &Change) -> String {
    format!("{} instead of {}", describe(change.before.as_ref()), describe(change.after.as_ref()))
}

fn shown(path: &std::path::Path) -> String {
    let parts: Vec<_> = path.components().collect();
    let start = parts.iter().rposition(|part| part.as_os_str() == ".decree").unwrap_or(0);
    parts[start..].iter().collect::<PathBuf>().display().to_string()
}
