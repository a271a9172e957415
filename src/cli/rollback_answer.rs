//! The answer of a rollback for programs, as the schemas in docs/schemas have it. Every value is computed, none is assumed.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::context::absolute_command_line;
use crate::checkpoint::quote::{self, in_json};
use crate::history::{Operation, RollbackReport, RolledBackPath};
use crate::pipeline::rolled_back::{MovedRun, RunFate};
use crate::project::Layout;

/// What the user asked for.
#[derive(Clone, Copy)]
pub struct AskedRollback<'r> {
    /// The words of `--scope`, which are relative to the directory.
    pub scope: &'r [String],
    pub directory: &'r Path,
    pub dry_run: bool,
}

/// The answer about a rollback to `id`.
pub fn contract(layout: &Layout, id: &str, report: &RollbackReport, asked: AskedRollback<'_>) -> Value {
    let hash = |hash: &String| format!("sha256:{hash}");
    let mut reverted: Vec<Value> = report.changes.iter().map(reverted_path).collect();
    reverted.extend(report.staged.iter().map(|change| {
        let mut staged = reverted_path(change);
        staged["in_index"] = Value::Bool(true);
        staged
    }));
    let (evidence, next) = evidence_and_next(layout, id, report, asked);
    let command = |arguments: &str| absolute_command_line(layout, layout.root(), arguments);
    let variables = variables_warning(report, &export_command(id, asked.scope, command));
    json!({
        "rolled_back": !asked.dry_run && report.is_complete(),
        "project": in_json(layout.root().as_os_str().as_bytes()),
        "restored_to": {
            "checkpoint_id": id,
            "checkpoint_type": report.kind.word(),
            "timestamp": report.created_at,
        },
        "changes_reverted": reverted,
        "counts": report.counts(),
        "verification": {
            "pre_state_hash": hash(&report.before),
            "post_state_hash": report.after.as_ref().map(hash),
            "checkpoint_hash": hash(&report.wanted),
            "match": report.is_proven(),
        },
        "saved_present_as": report.present,
        "warnings": all_warnings(report, asked.dry_run).into_iter().chain(variables).collect::<Vec<_>>(),
        "next_actions": next,
        "confidence": report.confidence(),
        "evidence_anchors": evidence,
        "assumptions": assumptions(report, asked.dry_run),
    })
}

/// What became of a run when the tree was rolled back.
pub fn run_answer(run: &MovedRun) -> Value {
    let fate = match run.fate {
        RunFate::RolledBack | RunFate::Replaced => "reverted",
        RunFate::Partly { .. } => "partly_reverted",
        RunFate::Kept => "kept",
        RunFate::PartlyBack { .. } => "partly_kept",
    };
    json!({ "id": run.id, "fate": fate, "spec": run.spec })
}

/// What the user has to know besides: files beside the scope, and what decree could not restore.
pub fn warnings(report: &RollbackReport) -> impl Iterator<Item = String> {
    let orphans = report.orphans.iter().map(|name| orphan(name, "outside the scope, not removed"));
    let would = &report.would_set_aside;
    let set_aside = (!would.is_empty())
        .then(|| format!("would be set aside, because no checkpoint may hold it: {}", would.join(", ")));
    let warnings = report.warnings.iter().cloned().chain(set_aside);
    orphans.chain(warnings).chain(secrets_left(&report.secrets_left))
}

/// The command that hands the variables of a state snapshot to the shell that evaluates it; `command` makes a command line.
pub fn export_command(id: &str, scope: &[String], command: impl Fn(&str) -> String) -> String {
    let scope: String = scope.iter().map(|word| format!(" --scope {}", shell_words::quote(word))).collect();
    format!("eval \"$({})\"", command(&format!("rollback {id}{scope} --export")))
}

/// The warning about variables that differ: decree cannot set those of its caller.
pub fn variables_warning(report: &RollbackReport, export: &str) -> Option<String> {
    let names = report.variables_left.join(", ");
    (!names.is_empty()).then(|| format!("not restored: {names}. Only your shell can set them: `{export}`"))
}

/// The command that goes back to what was there before a rollback.
pub fn way_back(report: &RollbackReport, command: impl Fn(&str) -> String) -> Option<String> {
    let present = report.present.as_deref()?;
    Some(if report.has_environment {
        export_command(present, &[], command)
    } else {
        command(&format!("rollback {present}"))
    })
}

/// The warning about a file that was created since the checkpoint.
fn orphan(name: &str, fate: &str) -> String {
    format!("Orphaned file detected: {} ({fate})", quote::json_for_people(name))
}

fn reverted_path(change: &RolledBackPath) -> Value {
    json!({ "file": change.name, "operation": change.operation.word(), "summary": change.summary })
}

/// The warning about likely secrets that are newer than the checkpoint.
pub fn secrets_left(names: &[String]) -> Option<String> {
    let names = names.join(", ");
    let stays = "likely secrets that are newer than the checkpoint stay where they are";
    (!names.is_empty()).then(|| format!("{stays}: {names}"))
}

fn all_warnings(report: &RollbackReport, dry_run: bool) -> Vec<String> {
    let fate = if dry_run { "would be removed" } else { "removed" };
    let created = report.changes.iter().filter(|change| change.operation == Operation::Create);
    let mut all: Vec<String> = created
        .map(|change| match report.kind.holds_tree() {
            true if report.created_dirs.contains(&change.name) => {
                format!("Orphaned directory detected: {} ({fate})", change.shown())
            }
            true => orphan(&change.name, fate),
            false => format!("{} was created since the checkpoint ({fate})", change.shown()),
        })
        .collect();
    let moved = |(path, to): &(String, PathBuf)| {
        format!("{path} was moved to {}", quote::for_people(to.as_os_str().as_bytes()))
    };
    all.extend(report.set_aside.iter().map(moved));
    all.extend(warnings(report));
    all
}

fn assumptions(report: &RollbackReport, dry_run: bool) -> Vec<String> {
    let left_out = report.left_out.iter();
    let mut assumptions: Vec<String> = left_out
        .map(|name| format!("{name} is not part of the rollback: the checkpoint does not hold it"))
        .collect();
    assumptions.extend(report.assumptions.iter().chain(&report.untouched).cloned());
    if dry_run {
        assumptions.push("nothing was changed: this is a dry run".to_owned());
    } else if report.after.is_none() {
        assumptions.push("the state matches the checkpoint: this was not verified".to_owned());
    }
    assumptions
}

/// What proves the answer, and which commands make sense after it.
fn evidence_and_next(
    layout: &Layout,
    id: &str,
    report: &RollbackReport,
    asked: AskedRollback<'_>,
) -> (Vec<String>, Vec<String>) {
    let command = |arguments: &str| absolute_command_line(layout, layout.root(), arguments);
    let mut evidence: Vec<String> = report.evidence.iter().map(|file| format!("file:{file}")).collect();
    let mut next = Vec::new();
    next.extend((!report.variables_left.is_empty()).then(|| export_command(id, asked.scope, command)));
    if let Some(present) = &report.present {
        evidence.push(format!("file:{}", layout.shown(&layout.audit())));
        evidence.push(format!("tool:bash:{}", command("audit verify")));
        next.extend(way_back(report, command));
        if report.kind.holds_tree() {
            next.push(command(&format!("diff {present}")));
        }
    }
    evidence.push(format!("tool:bash:{}", command(&format!("rollback {id} --dry-run"))));
    if asked.dry_run {
        let scope: String =
            asked.scope.iter().map(|word| format!(" --scope {}", shell_words::quote(word))).collect();
        // The words mean something from where they were typed only.
        let directory = asked.directory.canonicalize().unwrap_or_else(|_| layout.root().to_owned());
        next.push(absolute_command_line(layout, &directory, &format!("rollback {id}{scope}")));
    }
    let orphans: Vec<String> = report.orphans.iter().filter_map(|name| scope_word(name)).collect();
    if !orphans.is_empty() {
        next.push(command(&format!("rollback {id} --scope {}", orphans.join(" --scope "))));
    }
    if report.present.is_some() {
        // Whatever is tried next needs a way back of its own.
        next.push(command("checkpoint create"));
    }
    (evidence, next)
}

/// A path as a word of `--scope`; `None` for one that is not UTF-8, which no scope can name.
fn scope_word(name: &str) -> Option<String> {
    let bytes = quote::from_json(name)?;
    let text = std::str::from_utf8(&bytes).ok()?;
    // A word that begins with a hyphen would be an option.
    let word = if text.starts_with('-') { format!("./{text}") } else { text.to_owned() };
    Some(shell_words::quote(&word).into_owned())
}
