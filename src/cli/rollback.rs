//! `decree rollback`

use std::path::Path;

use serde_json::{Value, json};

use super::locked_project::LockedProject;
use super::{Context, ContractFormat};
use crate::checkpoint::path::TreePath;
use crate::error::ErrorKind::Usage;
use crate::error::{Error, Result};
use crate::history::rollback::Operation;
use crate::history::{
    self, CheckpointKind, CheckpointRecord, CheckpointTarget, RollbackOptions, RollbackReport,
    RunOrCheckpoint,
};
use crate::humanize::count;

/// Go back to a checkpoint, or to a part of it
///
/// Everything that differs within the scope is put back byte for byte: what was changed or deleted since is as it was, what
/// appeared since is gone. What is there now is saved as a checkpoint of the same type first, so a rollback can be rolled back.
/// Then everything is compared with the checkpoint; if its hash is not the same, the exit code is 4.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree rollback chk_20261116_031200_a1b2c3\n  decree rollback chk_20261116 --dry-run\n  decree rollback chk_20261116 --scope src --scope 'docs/*.md' --reason 'the tests failed'\n  decree rollback chk_20261116 --format json"
)]
pub struct RollbackArgs {
    /// A checkpoint, or the beginning of its id; of a run, what was there before it
    id: String,

    /// Only this part, in words of the checkpoint's type, as `checkpoint create` has them (may be given more than once)
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Only tell what would be put back
    #[arg(long)]
    dry_run: bool,

    /// Do not compare everything once more at the end; each path that is put back is read again all the same
    #[arg(long)]
    no_verify: bool,

    /// Print the environment values of a state snapshot as lines for a shell: eval "$(decree rollback ID --export)"
    #[arg(long, conflicts_with = "format")]
    export: bool,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: ContractFormat,
}

pub fn rollback(context: &Context, args: &RollbackArgs) -> Result<()> {
    let shop = LockedProject::open(context, "rollback")?;
    let layout = &shop.project.layout;
    let found = history::find(layout, &args.id)?;
    let kind = match &found {
        RunOrCheckpoint::Checkpoint(saved) => CheckpointRecord::read(saved.dir())?.kind,
        RunOrCheckpoint::Run(_) => CheckpointKind::default(),
    };
    if args.export && kind != CheckpointKind::StateSnapshot {
        return Err(Error::new(Usage, format!("{} is a {}", found.saved().id(), kind.word()))
            .detail("only a state_snapshot has values of the environment to export"));
    }
    let aim = match args.scope.is_empty() {
        true => None,
        false => {
            let held = found.saved().manifest().ok().filter(|_| kind.holds_tree());
            let known = |path: &TreePath| held.as_ref().is_some_and(|held| held.tree.has(path));
            Some(CheckpointTarget::typed(kind, &args.scope, &shop.project, &context.directory, &known)?)
        }
    };
    let mut wish = RollbackOptions::because(args.reason.clone());
    (wish.aim, wish.dry_run) = (aim, args.dry_run);
    (wish.verify, wish.takes_environment) = (!args.no_verify, args.export);
    let done = history::rollback(shop.site(&context.ui.progress()), &found, &wish)?;
    match args.format {
        ContractFormat::Text => {
            tell(context, found.saved().id(), &done, args.dry_run)?;
            match args.export && !args.dry_run {
                true => context.ui.print(&done.exports),
                false => Ok(()),
            }
        }
        format => {
            let answer = contract(context, layout.root(), &found, &done, args.dry_run, &args.scope);
            context.ui.print(&format.render(&answer))
        }
    }
}

/// What is undone, a line for each.
pub fn lines(done: &RollbackReport) -> impl Iterator<Item = String> {
    done.undone.iter().map(|undone| format!("  {:<8}  {}", undone.operation.remedy(), undone.what))
}

/// What was undone, in words.
fn tell(context: &Context, id: &str, done: &RollbackReport, dry_run: bool) -> Result<()> {
    let ui = &context.ui;
    match dry_run {
        // This is what was asked for.
        true => ui.print(&lines(done).map(|line| line + "\n").collect::<String>())?,
        false => lines(done).for_each(|line| ui.note(&line)),
    }
    for warning in &done.warnings {
        ui.warn(warning);
    }
    let (what, noun) = match done.kind {
        CheckpointKind::StateSnapshot => ("decree's own state", "value"),
        CheckpointKind::DatabaseSavepoint => ("everything", "database"),
        _ => ("the tree", "path"),
    };
    let (undone, held) = (count(done.undone.len(), noun), count(done.held, noun));
    if done.undone.is_empty() && done.set_aside.is_empty() {
        let but = if done.warnings.is_empty() { "" } else { ", but for that" };
        ui.note(&format!("{what} is as {id} has it{but} ({held} verified)"));
        return Ok(());
    }
    if dry_run {
        ui.note(&format!("{undone} would be put back to {id}; nothing was done"));
        return Ok(());
    }
    for (path, to) in &done.set_aside {
        ui.note(&format!("set aside {path}: it is in {} now", to.display()));
    }
    match done.is_proven() {
        true => ui.note(&format!("put back {undone}; {held} verified against {id}")),
        false => ui.note(&format!("put back {undone}; not compared with {id}, as you wished")),
    }
    if let Some(saved) = &done.saved {
        let back = context.command_line(&format!("rollback {saved}"));
        ui.note(&format!("what was there is saved: `{back}` brings it back"));
    }
    Ok(())
}

/// The answer for programs. Every value in it is worked out, none is assumed.
fn contract(
    context: &Context,
    root: &Path,
    found: &RunOrCheckpoint,
    done: &RollbackReport,
    dry_run: bool,
    scope: &[String],
) -> Value {
    let id = found.saved().id();
    let hash = |hash: &String| format!("sha256:{hash}");
    let reverted: Vec<Value> = done
        .undone
        .iter()
        .map(|undone| json!({ "file": undone.what, "operation": undone.operation.word(), "summary": undone.summary }))
        .collect();
    let fate = if dry_run { "" } else { " and was removed" };
    let orphans = done.undone.iter().filter(|undone| undone.operation == Operation::Create);
    let mut warnings: Vec<String> = orphans
        .map(|undone| format!("orphan: {} appeared since the checkpoint{fate}", undone.what))
        .collect();
    warnings.extend(done.set_aside.iter().map(|(path, to)| format!("{path} was moved to {}", to.display())));
    warnings.extend(done.warnings.iter().cloned());
    let mut evidence: Vec<String> = done.evidence.iter().map(|file| format!("file:{file}")).collect();
    let mut next = Vec::new();
    if let Some(present) = &done.saved {
        evidence.push("file:.decree/audit.jsonl".to_owned());
        evidence.push(format!("tool:bash:{}", context.command_line("audit verify")));
        next.push(context.command_line(&format!("rollback {present}")));
        if done.kind.holds_tree() {
            next.push(context.command_line(&format!("diff {present}")));
        }
    }
    evidence.push(format!("tool:bash:{}", context.command_line(&format!("rollback {id} --dry-run"))));
    if dry_run {
        let scope: String =
            scope.iter().map(|word| format!(" --scope {}", shell_words::quote(word))).collect();
        next.push(context.command_line(&format!("rollback {id}{scope}")));
    }
    let mut assumptions: Vec<String> =
        done.left_out.iter().map(|name| format!("{name} is as it should be: it was left out")).collect();
    if dry_run {
        assumptions.push("nothing was done yet".to_owned());
    } else if done.after.is_none() {
        assumptions.push("everything is as it was: that was not compared once more".to_owned());
    }
    json!({
        "rolled_back": !dry_run && (done.is_proven() || done.after.is_none()),
        "project": root.to_string_lossy(),
        "restored_to": {
            "checkpoint_id": id,
            "checkpoint_type": done.kind.word(),
            "timestamp": done.created_at,
        },
        "changes_reverted": reverted,
        "verification": {
            "pre_state_hash": hash(&done.before),
            "post_state_hash": done.after.as_ref().map(hash),
            "checkpoint_hash": hash(&done.wanted),
            "match": done.is_proven(),
        },
        "saved_present_as": done.saved,
        "warnings": warnings,
        "next_actions": next,
        "confidence": confidence(done),
        "evidence_anchors": evidence,
        "assumptions": assumptions,
    })
}

/// Full only if everything was seen to be as it was, and nothing was left out or left to others.
fn confidence(done: &RollbackReport) -> f64 {
    if !done.is_proven() && done.after.is_some() {
        return 0.0;
    }
    let seen = history::confidence(done.held, done.left_out.len(), done.is_proven());
    if done.warnings.is_empty() { seen } else { seen.min(0.9) }
}
