//! `decree checkpoint create`

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Context, ContractFormat};
use crate::error::Result;
use crate::figures::{self, count};
use crate::history::{self, About, Aim, CheckpointRecord, Found, Holding, Kind};
use crate::project::parse_duration;

/// Save the whole tree as it is now, decree's own state, or databases
///
/// Everything that the checkpoint names is read back at once and checked. A scope says what `rollback` puts back; a checkpoint
/// of the tree holds the whole tree all the same.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint create --reason 'before the migration'\n  decree checkpoint create --scope src --scope 'docs/*.md' --expiry 7d\n  decree checkpoint create --type git_stash --reason 'before the rebase'\n  decree checkpoint create --type state_snapshot --scope inbox --scope env:MODE\n  decree checkpoint create --type database_savepoint --scope data/app.db\n  id=$(decree checkpoint create --format json | jq -r .checkpoint.id)"
)]
pub struct CreateArgs {
    /// How, and of what
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t)]
    kind: Kind,

    /// What it is for (may be given more than once). Of the tree: this path and what is below it, or what matches this pattern.
    /// Of decree's own state: inbox, done, dead, tracker, config, env:NAME. Of databases: an SQLite file, or a name below
    /// `databases:` in the config
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,

    /// Why, for those who come later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// From when on it may be collected, and is not rolled back to any more (24h, 7d, never)
    #[arg(long, value_name = "DURATION", default_value = "never", value_parser = lifetime)]
    expiry: Lifetime,

    /// Do not read back what was stored
    #[arg(long)]
    no_verify: bool,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: ContractFormat,
}

/// How long a checkpoint is good for; for ever, if it says nothing.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Option<Duration>);

fn lifetime(text: &str) -> std::result::Result<Lifetime, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    match (text, days) {
        ("never", _) => Ok(Lifetime(None)),
        (_, Some(days)) => Ok(Lifetime(Some(Duration::from_secs(days.saturating_mul(86_400))))),
        _ => parse_duration(text).map(|time| Lifetime(Some(time))).map_err(|error| error.to_string()),
    }
}

pub fn create(context: &Context, args: CreateArgs) -> Result<()> {
    let project = context.project()?;
    let workspace = project.workspace()?;
    let aim = Aim::typed(args.kind, &args.scope, &project, &context.directory)?;
    let _lock = context.lock(&project, &workspace, "checkpoint create")?;
    let progress = context.ui.progress();
    let site = super::super::site(&project, &workspace, &progress);
    let about = About { reason: args.reason, aim: aim.clone(), lifetime: args.expiry.0 };
    let created = history::create(site, about)?;
    let record = &created.record;
    for warning in created.warnings() {
        context.ui.warn(&warning);
    }
    if !args.no_verify {
        // As whoever comes later will find it: from what is on disk.
        history::verify(site, &Found::Checkpoint(created.saved.clone()))?;
    }
    let restore = restore_command(context, record);
    if args.format != ContractFormat::Text {
        let answer = contract(record, &created.holding(&aim), &restore, !args.no_verify);
        return context.ui.print(&args.format.render(&answer));
    }
    context.ui.print(&format!("{}\n", record.id))?;
    let noun = if record.kind == Kind::DatabaseSavepoint { "database" } else { "file" };
    let (files, bytes) = (count(record.files as usize, noun), figures::bytes(record.bytes));
    let proof = if args.no_verify { "" } else { ", each read back" };
    context.ui.note(&format!("saved {files}, {bytes}{proof}"));
    context.ui.note(&format!("back to it: `{restore}`"));
    Ok(())
}

/// The answer for programs.
fn contract(record: &CheckpointRecord, holding: &Holding, restore: &str, verified: bool) -> Value {
    let dir = format!(".decree/checkpoints/{}", record.id);
    let mut evidence = vec![format!("file:{dir}/checkpoint.json")];
    evidence.extend(record.proof().iter().map(|file| format!("file:{dir}/{file}")));
    evidence.push(format!("tool:bash:decree checkpoint verify {}", record.id));
    if record.kind == Kind::GitStash {
        evidence.push(format!("tool:bash:git stash list | grep -F 'checkpoint:{}:'", record.id));
    }
    let mut next = vec!["change anything within the scope".to_owned()];
    next.push(format!("decree rollback {} --dry-run", record.id));
    if record.kind.holds_tree() {
        next.push(format!("decree diff {}", record.id));
    }
    json!({
        "checkpoint_created": true,
        "checkpoint": {
            "id": record.id,
            "type": record.kind.word(),
            "created_at": record.created_at,
            "reason": record.reason,
            "scope": { "files": holding.files, "state_keys": holding.state_keys },
            "restore_command": restore,
            "expiry": record.expiry,
        },
        "pre_mutation_state": { "hash": format!("sha256:{}", holding.hash), "summary": holding.summary },
        "next_safe_actions": next,
        "confidence": confidence(holding.held, holding.left_out.len(), verified),
        "evidence_anchors": evidence,
        "assumptions": holding.assumptions,
        "coverage": holding.coverage,
    })
}

/// What goes back to it, from where it was made. Values of the environment only a shell itself can take over.
fn restore_command(context: &Context, record: &CheckpointRecord) -> String {
    let command = match context.directory.to_str() {
        Some(directory) if directory != "." => {
            format!("decree -C {} rollback {}", shell_words::quote(directory), record.id)
        }
        _ => format!("decree rollback {}", record.id),
    };
    match record.scope.iter().any(|word| record.kind == Kind::StateSnapshot && word.starts_with("env:")) {
        true => format!("eval \"$({command} --export)\""),
        false => command,
    }
}

/// How much of what was meant can be brought back, in hundredths: less than one as soon as anything cannot.
fn confidence(held: usize, missing: usize, verified: bool) -> f64 {
    let share = match held + missing {
        0 => 1.0,
        all => held as f64 / all as f64,
    };
    let most = if missing > 0 { 0.95 } else { 1.0 };
    let most = if verified { most } else { most * 0.9 };
    (share * most * 100.0).floor() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_drops_as_soon_as_something_is_missing() {
        assert_eq!(confidence(100, 0, true), 1.0);
        assert_eq!(confidence(0, 0, true), 1.0);
        assert!(confidence(1_000_000, 1, true) < 0.96);
        assert!(confidence(10, 10, true) < 0.5);
        assert!(confidence(100, 0, false) < 1.0);
    }

    #[test]
    fn lifetimes_are_read_as_people_write_them() {
        let time = |text| lifetime(text).unwrap().0;
        assert_eq!(time("never"), None);
        assert_eq!(time("7d"), Some(Duration::from_secs(604_800)));
        assert_eq!(time("24h"), Some(Duration::from_secs(86_400)));
        assert!(lifetime("soon").is_err() && lifetime("-1d").is_err());
    }
}
