//! `decree rollback`

use serde_json::{Value, json};

use super::locked_project::LockedProject;
use super::{Context, ContractFormat};
use crate::error::{Error, Result};
use crate::history::{
    self, CheckpointKind, CheckpointRecord, Operation, RollbackOptions, RollbackReport, RunOrCheckpoint,
    ScopeWords,
};
use crate::humanize::count;
use crate::project::Layout;

/// Roll back to a checkpoint, completely or in part
///
/// Changed and deleted files within the scope are restored byte for byte; files created since are removed. The current
/// state is saved first, as a checkpoint of the same type, so a rollback can be rolled back.
/// Then everything is compared with the checkpoint; if the hashes differ, the exit code is 4.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree rollback chk_20261116_031200_a1b2c3\n  decree rollback chk_20261116 --dry-run\n  decree rollback chk_20261116 --scope src --scope 'docs/*.md' --reason 'the tests failed'\n  decree rollback chk_20261116 --format json"
)]
pub struct RollbackArgs {
    /// The id of a checkpoint, or a unique prefix; the id of a run rolls back to before the run
    id: String,

    /// Roll back only this part, as for `checkpoint create` (repeatable)
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// The reason, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Only report what would be rolled back
    #[arg(long)]
    dry_run: bool,

    /// Skip the comparison with the checkpoint at the end; each restored path is still verified
    #[arg(long)]
    no_verify: bool,

    /// Print the environment variables of a state snapshot as shell commands: eval "$(decree rollback ID --export)"
    #[arg(long, conflicts_with = "format")]
    export: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ContractFormat,
}

pub fn rollback(context: &Context, args: &RollbackArgs) -> Result<()> {
    let locked = LockedProject::open(context, "rollback")?;
    let layout = &locked.project.layout;
    let found = history::find(layout, &args.id)?;
    let kind = match &found {
        RunOrCheckpoint::Checkpoint(dir) => CheckpointRecord::read(dir.dir())?.kind(),
        RunOrCheckpoint::Run(_) => CheckpointKind::default(),
    };
    if args.export && kind != CheckpointKind::StateSnapshot {
        return Err(Error::usage(format!("{} is a {}", found.dir().id(), kind.word()))
            .detail("only a state_snapshot has environment variables to export"));
    }
    let mut options = RollbackOptions::with_reason(args.reason.clone());
    options.scope = ScopeWords { list: args.scope.clone(), directory: context.directory.clone() };
    options.dry_run = args.dry_run;
    (options.verify, options.takes_environment) = (!args.no_verify, args.export);
    let report = history::rollback(locked.history_context(&context.ui.progress()), &found, &options)?;
    match args.format {
        ContractFormat::Text => {
            print(context, found.dir().id(), &report, args.dry_run)?;
            if args.export && !args.dry_run { context.ui.print(&report.exports) } else { Ok(()) }
        }
        format => {
            let answer = contract(context, args, layout, &found, &report);
            context.ui.print(&format.render(&answer))
        }
    }
}

/// A line for each path that differed.
pub fn lines(report: &RollbackReport) -> impl Iterator<Item = String> {
    report.changes.iter().map(|change| format!("  {:<8}  {}", change.operation.remedy(), change.name))
}

fn print(context: &Context, id: &str, report: &RollbackReport, dry_run: bool) -> Result<()> {
    let ui = &context.ui;
    if dry_run {
        // The list is the answer, so it goes to standard output.
        ui.print(&lines(report).map(|line| line + "\n").collect::<String>())?;
    } else {
        lines(report).for_each(|line| ui.note(&line));
    }
    for warning in &report.warnings {
        ui.warn(warning);
    }
    let (what, noun) = match report.kind {
        CheckpointKind::StateSnapshot => ("decree's own state", "value"),
        CheckpointKind::DatabaseSavepoint => ("every database", "database"),
        CheckpointKind::FileBackup | CheckpointKind::GitStash => ("the tree", "path"),
    };
    let (changed, held) = (count(report.changes.len(), noun), count(report.held, noun));
    if report.changes.is_empty() && report.set_aside.is_empty() {
        let but = if report.warnings.is_empty() { "" } else { ", except for the warnings" };
        ui.note(&format!("{what} matches {id}{but} ({held} verified)"));
        return Ok(());
    }
    if dry_run {
        ui.note(&format!("{changed} would be rolled back to {id}; nothing was done"));
        return Ok(());
    }
    for (path, to) in &report.set_aside {
        ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    if report.is_proven() {
        ui.note(&format!("rolled back {changed}; {held} verified against {id}"));
    } else if report.after.is_some() {
        ui.note(&format!("rolled back {changed}; {held} verified against {id}, except for the warnings"));
    } else {
        ui.note(&format!("rolled back {changed}; not compared with {id}, because of --no-verify"));
    }
    if let Some(present) = &report.present {
        let back = context.command_line(&format!("rollback {present}"));
        ui.note(&format!("the previous state is saved: `{back}` restores it"));
    }
    Ok(())
}

/// The answer for programs, as the schemas in docs/schemas have it. Every value is computed, none is assumed.
fn contract(
    context: &Context,
    args: &RollbackArgs,
    layout: &Layout,
    found: &RunOrCheckpoint,
    report: &RollbackReport,
) -> Value {
    let (id, dry_run) = (found.dir().id(), args.dry_run);
    let hash = |hash: &String| format!("sha256:{hash}");
    let reverted: Vec<Value> = report
        .changes
        .iter()
        .map(|change| json!({ "file": change.name, "operation": change.operation.word(), "summary": change.summary }))
        .collect();
    let fate = if dry_run { "" } else { " and was removed" };
    let orphans = report.changes.iter().filter(|change| change.operation == Operation::Create);
    let mut warnings: Vec<String> = orphans
        .map(|change| format!("orphan: {} appeared since the checkpoint{fate}", change.name))
        .collect();
    warnings
        .extend(report.set_aside.iter().map(|(path, to)| format!("{path} was moved to {}", to.display())));
    warnings.extend(report.warnings.iter().cloned());
    let (evidence, next) = evidence_and_next(context, args, layout, id, report);
    let mut assumptions: Vec<String> = report
        .left_out
        .iter()
        .map(|name| format!("{name} needs no rollback: the checkpoint does not hold it"))
        .collect();
    if dry_run {
        assumptions.push("nothing was changed: this is a dry run".to_owned());
    } else if report.after.is_none() {
        assumptions.push("the state matches the checkpoint: this was not verified".to_owned());
    }
    json!({
        "rolled_back": !dry_run && (report.is_proven() || report.after.is_none() || !report.unrestored.is_empty()),
        "project": layout.root().to_string_lossy(),
        "restored_to": {
            "checkpoint_id": id,
            "checkpoint_type": report.kind.word(),
            "timestamp": report.created_at,
        },
        "changes_reverted": reverted,
        "verification": {
            "pre_state_hash": hash(&report.before),
            "post_state_hash": report.after.as_ref().map(hash),
            "checkpoint_hash": hash(&report.wanted),
            "match": report.is_proven(),
        },
        "saved_present_as": report.present,
        "warnings": warnings,
        "next_actions": next,
        "confidence": report.confidence(),
        "evidence_anchors": evidence,
        "assumptions": assumptions,
    })
}

/// What proves the answer, and which commands make sense after it.
fn evidence_and_next(
    context: &Context,
    args: &RollbackArgs,
    layout: &Layout,
    id: &str,
    report: &RollbackReport,
) -> (Vec<String>, Vec<String>) {
    let mut evidence: Vec<String> = report.evidence.iter().map(|file| format!("file:{file}")).collect();
    let mut next = Vec::new();
    if let Some(present) = &report.present {
        evidence.push(format!("file:{}", layout.shown(&layout.audit())));
        evidence.push(format!("tool:bash:{}", context.command_line("audit verify")));
        next.push(context.command_line(&format!("rollback {present}")));
        if report.kind.holds_tree() {
            next.push(context.command_line(&format!("diff {present}")));
        }
    }
    evidence.push(format!("tool:bash:{}", context.command_line(&format!("rollback {id} --dry-run"))));
    if args.dry_run {
        let scope: String =
            args.scope.iter().map(|word| format!(" --scope {}", shell_words::quote(word))).collect();
        next.push(context.command_line(&format!("rollback {id}{scope}")));
    }
    (evidence, next)
}
