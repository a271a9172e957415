//! `decree checkpoint create`

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::super::context::{absolute_command_line, history_context, shell_quoted};
use super::super::expiry::parse_expiry;
use super::super::{Context, ContractFormat};
use crate::checkpoint::quote::in_json;
use crate::checkpoint::verify::Verification;
use crate::error::Result;
use crate::history::{
    self, CheckpointKind, CheckpointLabel, CheckpointRecord, CompletedCheckpoint, ContentsReport, Expiry,
    ScopeWords,
};
use crate::humanize::count;
use crate::project::Layout;

/// Create a checkpoint of the whole tree, of decree's own state, or of databases
///
/// Verifies itself: what was stored for it is read back, and what was verified earlier counts for as long as its files have not
/// changed; `decree checkpoint verify` reads all of it. --scope limits only what `rollback` restores; a checkpoint of the tree always
/// holds the whole tree.
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
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,

    /// Accept a --scope that matches nothing yet: `rollback` removes what is created there, and unsets a variable
    #[arg(long)]
    allow_missing: bool,

    /// When it expires: `gc` may delete it then, and `rollback` refuses it. A time from now (24h, 7d, 2w), a date or a time
    /// (2026-12-01, 2026-12-01T10:00:00+01:00; UTC without an offset), or never
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = parse_expiry)]
    expiry: Expiry,

    /// Do not read back what was stored
    #[arg(long)]
    no_verify: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: ContractFormat,
}

pub fn create(context: &Context, args: CreateArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let _lock = context.lock(&project, &workspace, "checkpoint create")?;
    let progress = context.ui.progress();
    let history_context = history_context(&project, &workspace, &progress);
    let label = CheckpointLabel { reason: args.reason, expiry: args.expiry };
    let (list, allow_missing) = (args.scope, args.allow_missing);
    let words = ScopeWords { list, directory: context.directory.clone(), allow_missing };
    let created = history::create(history_context, args.kind, &words, &label, !args.no_verify);
    context.warn_damaged_packs(&workspace);
    let created = created?;
    let CompletedCheckpoint { saved, report, verification, .. } = &created;
    let record = &saved.record;
    for warning in &report.warnings {
        context.ui.warn(warning);
    }
    if args.format != ContractFormat::Text {
        let answer = contract(&created, &project.layout);
        return context.ui.print(&args.format.render(&answer));
    }
    context.ui.print(&format!("{}\n", record.id))?;
    let proof = match verification {
        Verification::ReadBack => ", read back and verified",
        Verification::Recorded => {
            ", verified: what is new was read back, the rest was verified earlier and is unchanged"
        }
        Verification::Unverified => "",
    };
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
    let restore = restore_command(record, |arguments| context.command_line(arguments));
    context.ui.note(&format!("to roll back to it: `{restore}`"));
    Ok(())
}

/// The answer for programs, as the schemas in docs/schemas have it.
fn contract(created: &CompletedCheckpoint, layout: &Layout) -> Value {
    let CompletedCheckpoint { saved, report, verification, .. } = created;
    let record = &saved.record;
    let id = &record.id;
    let command = |arguments: &str| absolute_command_line(layout, layout.root(), arguments);
    let dir = layout.shown(&layout.checkpoints().join(id));
    let mut evidence = vec![format!("file:{dir}/{}", CheckpointRecord::FILE)];
    evidence.extend(record.payload.files().iter().map(|file| format!("file:{dir}/{file}")));
    evidence.push(format!("tool:bash:{}", command(&format!("checkpoint verify {id}"))));
    if record.kind() == CheckpointKind::GitStash {
        let git = format!("git -C {} stash list", shell_quoted(layout.root()));
        evidence.push(format!("tool:bash:{git} | grep -F 'checkpoint:{id}:'"));
    }
    let mut next = vec![safe_edit(record, report), command(&format!("rollback {id} --dry-run"))];
    if record.kind().holds_tree() {
        next.push(command(&format!("diff {id}")));
    }
    let mut assumptions = report.assumptions.clone();
    match verification {
        Verification::ReadBack => {}
        Verification::Recorded => assumptions.push(
            "the disk still has what was verified earlier: its files are unchanged, and were not read again"
                .to_owned(),
        ),
        Verification::Unverified => assumptions.push("what was stored can be read back".to_owned()),
    }
    json!({
        "checkpoint_created": true,
        "project": in_json(layout.root().as_os_str().as_bytes()),
        "checkpoint": {
            "id": record.id,
            "type": record.kind().word(),
            "created_at": record.created_at,
            "reason": record.reason,
            "scope": { "files": created.file_names(), "state_keys": report.state_keys },
            "restore_command": restore_command(record, command),
            "expiry": record.expiry,
        },
        "pre_mutation_state": { "hash": format!("sha256:{}", report.hash), "summary": report.summary },
        "next_safe_actions": next,
        "confidence": history::confidence(report.held, report.left_out.len() + report.uncertain, *verification),
        "verification": verification.word(),
        "evidence_anchors": evidence,
        "assumptions": assumptions,
        "coverage": report.coverage,
    })
}

/// What can be changed now, because the checkpoint can restore it.
fn safe_edit(record: &CheckpointRecord, report: &ContentsReport) -> String {
    let scope = record.payload.scope();
    let words = scope.iter().map(|word| word.trim_start_matches('/'));
    let within: Vec<&str> = words.filter(|word| !report.left_out.iter().any(|name| name == word)).collect();
    if within.is_empty() && !scope.is_empty() {
        return format!("edit: nothing: the checkpoint does not hold {}", report.left_out.join(", "));
    }
    match record.kind() {
        CheckpointKind::FileBackup | CheckpointKind::GitStash => {
            let part = if within.is_empty() {
                "of the tree".to_owned()
            } else {
                format!("within {}", within.join(", "))
            };
            match report.files.len() {
                0 => format!("edit: create files {part}, where none are now: a rollback removes them"),
                1 => format!("edit: change, delete or replace the 1 file {part}"),
                files => {
                    format!("edit: change, delete or replace any of the {} {part}", count(files, "file"))
                }
            }
        }
        CheckpointKind::StateSnapshot => format!("edit: change {}", within.join(", ")),
        CheckpointKind::DatabaseSavepoint => format!("edit: change the content of {}", within.join(", ")),
    }
}

/// The command that rolls back to it. Only a shell can take over values of its environment.
pub fn restore_command(record: &CheckpointRecord, command: impl FnOnce(&str) -> String) -> String {
    let command = command(&format!("rollback {}", record.id));
    if record.payload.holds_environment() { format!("eval \"$({command} --export)\"") } else { command }
}
