//! `decree checkpoint create`

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Context, ContractFormat};
use crate::error::Result;
use crate::history::{
    self, CheckpointKind, CheckpointLabel, CheckpointRecord, ContentsReport, SavedCheckpoint, ScopeWords,
};
use crate::humanize::count;
use crate::project::{Layout, TIME_EXAMPLES, parse_duration};

/// Create a checkpoint of the whole tree, of decree's own state, or of databases
///
/// Reads everything back after writing and verifies the hashes. --scope limits only what `rollback` restores; a checkpoint of the
/// tree always holds the whole tree.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint create --reason 'before the migration'\n  decree checkpoint create --scope src --scope 'docs/*.md' --expiry 7d\n  decree checkpoint create --type git_stash --reason 'before the rebase'\n  decree checkpoint create --type state_snapshot --scope inbox --scope env:MODE\n  decree checkpoint create --type database_savepoint --scope data/app.db\n  id=$(decree checkpoint create --format json | jq -r .checkpoint.id)"
)]
pub struct CreateArgs {
    /// What to save, and how
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    kind: CheckpointKind,

    /// What `rollback` restores (repeatable). Tree: a path or pattern, relative to the current directory; a pattern without a
    /// slash matches at any depth. State: inbox, done, dead, tracker, config, env:NAME. Databases: an SQLite file, or a name
    /// below `databases:` in the config
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// The reason, which is recorded with the checkpoint
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// When it expires: `gc` may delete it then, and `rollback` refuses it (24h, 7d, 2w, never)
    #[arg(long, value_name = "DURATION", default_value = "never", value_parser = lifetime)]
    expiry: Lifetime,

    /// Do not read back what was stored
    #[arg(long)]
    no_verify: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ContractFormat,
}

/// How long a checkpoint is kept; `None` for good.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime(pub Option<Duration>);

pub fn lifetime(text: &str) -> std::result::Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime(None));
    }
    // A bare number is seconds elsewhere, which is hardly ever meant for an expiry.
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("expected {TIME_EXAMPLES}, with its unit, not '{text}'"));
    }
    let time = parse_duration(text).map_err(|why| format!("{why}; 'never' for no expiry"))?;
    if time.is_zero() { Err("it would expire at once".to_owned()) } else { Ok(Lifetime(Some(time))) }
}

pub fn create(context: &Context, args: CreateArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "checkpoint create")?;
    let progress = context.ui.progress();
    let history_context = super::super::context::history_context(&project, &workspace, &progress);
    let label = CheckpointLabel { reason: args.reason, lifetime: args.expiry.0 };
    let words = ScopeWords { list: args.scope, directory: context.directory.clone() };
    let created = history::create(history_context, args.kind, &words, &label, !args.no_verify);
    context.warn_damaged_packs(&workspace);
    let (SavedCheckpoint { record, .. }, report) = &created?;
    for warning in &report.warnings {
        context.ui.warn(warning);
    }
    let restore = restore_command(context, record);
    if args.format != ContractFormat::Text {
        let answer = contract(context, record, report, &project.layout, !args.no_verify);
        return context.ui.print(&args.format.render(&answer));
    }
    context.ui.print(&format!("{}\n", record.id))?;
    let proof = if args.no_verify { "" } else { ", read back and verified" };
    let part = if record.kind().holds_tree() && !record.payload.scope().is_empty() {
        format!(" (of {} in all)", count(record.files as usize, "file"))
    } else {
        String::new()
    };
    context.ui.note(&format!("saved {}{part}{proof}", report.summary));
    if let Some(stash) = record.payload.stash() {
        context.ui.note(&format!("in `git stash list` as {}", stash.commit.get(..12).unwrap_or_default()));
    }
    if let Some(expiry) = &record.expiry {
        context.ui.note(&format!("expires on {expiry}"));
    }
    context.ui.note(&format!("to roll back to it: `{restore}`"));
    Ok(())
}

/// The answer for programs, as the schemas in docs/schemas have it.
fn contract(
    context: &Context,
    record: &CheckpointRecord,
    report: &ContentsReport,
    layout: &Layout,
    verified: bool,
) -> Value {
    let id = &record.id;
    let dir = layout.shown(&layout.checkpoints().join(id));
    let mut evidence = vec![format!("file:{dir}/{}", CheckpointRecord::FILE)];
    evidence.extend(record.payload.files().iter().map(|file| format!("file:{dir}/{file}")));
    evidence.push(format!("tool:bash:{}", context.command_line(&format!("checkpoint verify {id}"))));
    if record.kind() == CheckpointKind::GitStash {
        let root = layout.root().to_string_lossy();
        let git = format!("git -C {} stash list", shell_words::quote(&root));
        evidence.push(format!("tool:bash:{git} | grep -F 'checkpoint:{id}:'"));
    }
    let mut next = vec!["change anything within the scope".to_owned()];
    next.push(context.command_line(&format!("rollback {id} --dry-run")));
    if record.kind().holds_tree() {
        next.push(context.command_line(&format!("diff {id}")));
    }
    let mut assumptions = report.assumptions.clone();
    if !verified {
        assumptions.push("what was stored can be read back".to_owned());
    }
    json!({
        "checkpoint_created": true,
        "project": layout.root().to_string_lossy(),
        "checkpoint": {
            "id": record.id,
            "type": record.kind().word(),
            "created_at": record.created_at,
            "reason": record.reason,
            "scope": { "files": report.files, "state_keys": report.state_keys },
            "restore_command": restore_command(context, record),
            "expiry": record.expiry,
        },
        "pre_mutation_state": { "hash": format!("sha256:{}", report.hash), "summary": report.summary },
        "next_safe_actions": next,
        "confidence": history::confidence(report.held, report.left_out.len() + report.uncertain, verified),
        "evidence_anchors": evidence,
        "assumptions": assumptions,
        "coverage": report.coverage,
    })
}

/// The command that rolls back to it, from where it was made. Only a shell can take over values of its environment.
fn restore_command(context: &Context, record: &CheckpointRecord) -> String {
    let command = context.command_line(&format!("rollback {}", record.id));
    if record.payload.holds_environment() { format!("eval \"$({command} --export)\"") } else { command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read_as_people_write_them() {
        let time = |text| lifetime(text).unwrap().0;
        assert_eq!(time("never"), None);
        assert_eq!(time("7d"), Some(Duration::from_secs(604_800)));
        assert_eq!(time("24h"), Some(Duration::from_secs(86_400)));
        assert_eq!(time("2w"), Some(Duration::from_secs(1_209_600)));
        assert_eq!(time("1w 12h"), Some(Duration::from_secs(648_000)));
        for wrong in ["soon", "-1d", "24", "0", "0d", "1y", "NEVER", "1.5", "", "999999999d"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
