//! `decree checkpoint create`

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Context, ContractFormat};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::saved::path_texts;
use crate::error::Result;
use crate::figures;
use crate::history::rollback::hash_then;
use crate::history::{self, About, CheckpointRecord, Scope};
use crate::project::parse_duration;

/// Save the whole tree as it is now
///
/// Everything that the checkpoint names is read back at once and checked. A scope says what `rollback` puts back; the checkpoint
/// holds the whole tree all the same.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree checkpoint create --reason 'before the migration'\n  decree checkpoint create --scope src --scope 'docs/*.md' --expiry 7d\n  id=$(decree checkpoint create --format json | jq -r .checkpoint.id)"
)]
pub struct CreateArgs {
    /// What it is for: this path and what is below it, or what matches this pattern (may be given more than once)
    #[arg(long, value_name = "PATH|GLOB")]
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
    let scope = Scope::typed(&args.scope, project.layout.root(), &context.directory)?;
    let _lock = context.lock(&project, &workspace, "checkpoint create")?;
    let progress = context.ui.progress();
    let about = About { reason: args.reason, scope: scope.clone(), lifetime: args.expiry.0 };
    let (record, saved, manifest) =
        history::create(&workspace, &project.layout.checkpoints(), about, &progress)?;
    for warning in manifest.coverage.warnings() {
        context.ui.warn(&warning);
    }
    if !args.no_verify {
        // As whoever comes later will find it: from what is on disk.
        record.check(&saved.manifest()?)?;
        saved.verify(&workspace, &manifest)?;
    }
    if args.format != ContractFormat::Text {
        let answer = contract(context, &record, &manifest, &scope, !args.no_verify);
        return context.ui.print(&args.format.render(&answer));
    }
    context.ui.print(&format!("{}\n", record.id))?;
    let (files, bytes) = (figures::grouped(record.files), figures::bytes(record.bytes));
    let proof = if args.no_verify { "" } else { ", each read back" };
    context.ui.note(&format!("saved {files} files, {bytes}{proof}"));
    context.ui.note(&format!("back to it: `{}`", restore_command(context, &record.id)));
    Ok(())
}

/// The answer for programs. Every value in it is worked out, none is assumed.
fn contract(
    context: &Context,
    record: &CheckpointRecord,
    manifest: &Manifest,
    scope: &Scope,
    verified: bool,
) -> Value {
    let within: Vec<_> = manifest
        .tree
        .iter()
        .filter(|entry| !entry.node.is_dir())
        .map(|entry| (entry.path(), entry.node.content().map_or(0, |(_, size)| size)))
        .filter(|(path, _)| scope.covers(path))
        .collect();
    let bytes: u64 = within.iter().map(|(_, size)| size).sum();
    let (hash, held) = hash_then(manifest, scope);
    let restore = restore_command(context, &record.id);
    let missing = left_out(&manifest.coverage, scope);
    let dir = format!(".decree/checkpoints/{}", record.id);
    json!({
        "checkpoint_created": true,
        "checkpoint": {
            "id": record.id,
            "type": "file_backup",
            "created_at": record.created_at,
            "reason": record.reason,
            "scope": {
                "files": within.iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>(),
                "state_keys": [],
            },
            "restore_command": restore,
            "expiry": record.expiry,
        },
        "pre_mutation_state": {
            "hash": format!("sha256:{hash}"),
            "summary": format!("{} files, {}", figures::grouped(within.len() as u64), figures::bytes(bytes)),
        },
        "next_safe_actions": [
            "change anything within the scope",
            format!("{restore} --dry-run"),
            format!("decree diff {}", record.id),
        ],
        "confidence": confidence(held, missing.len(), verified),
        "evidence_anchors": [
            format!("file:{dir}/manifest.json"),
            format!("file:{dir}/checkpoint.json"),
            format!("tool:bash:decree checkpoint verify {}", record.id),
        ],
        "assumptions": assumptions(&manifest.coverage, &missing),
        "coverage": manifest.coverage,
    })
}

/// What goes back to it, from where it was made.
fn restore_command(context: &Context, id: &str) -> String {
    match context.directory.to_str() {
        Some(directory) if directory != "." => {
            format!("decree -C {} rollback {id}", shell_words::quote(directory))
        }
        _ => format!("decree rollback {id}"),
    }
}

/// What the scope has and the checkpoint does not.
fn left_out(coverage: &Coverage, scope: &Scope) -> Vec<String> {
    let lists = [&coverage.sensitive, &coverage.special];
    let within = lists.into_iter().flatten().filter(|path| scope.covers(&path.0));
    within.map(|path| path.0.to_string()).collect()
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

fn assumptions(coverage: &Coverage, missing: &[String]) -> Vec<String> {
    let mut list = Vec::new();
    let ignored = path_texts(&coverage.ignored_dirs);
    if !ignored.is_empty() || coverage.ignored_files > 0 {
        let files = figures::grouped(coverage.ignored_files);
        list.push(format!("what is ignored is not needed back: {files} files; {}", ignored.join(", ")));
    }
    list.extend(missing.iter().map(|path| format!("{path} is not needed back: it is left out")));
    list
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
