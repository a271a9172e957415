//! `decree diff`

use std::fs::File;
use std::io;

use super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::patch::write::ChangeCount;
use crate::error::{Error, IoContext, Result};
use crate::history::{self, RunOrCheckpoint};
use crate::humanize;
use crate::ui;

/// Show what a run changed, or what changed since a checkpoint
///
/// The diff is one that `git apply` and `patch -p1` take.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree diff 2026111603120000-0\n  decree diff chk_20261116_0312 --stat\n  decree diff chk_20261116_0312 | git apply --check -R"
)]
pub struct DiffArgs {
    /// A run or a checkpoint, or the beginning of its id
    id: String,

    /// Only the paths, with lines added and removed
    #[arg(long)]
    stat: bool,

    /// What the tree was after this attempt of a run, instead of the last
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

pub fn diff(context: &Context, args: &DiffArgs) -> Result<()> {
    let project = context.project()?;
    context.warn_unfinished(&project);
    match history::find_tree(&project.layout, &args.id)? {
        RunOrCheckpoint::Run(saved) => recorded(context, args, &attempt_of(saved, args.attempt)?),
        RunOrCheckpoint::Checkpoint(saved) if args.attempt.is_some() => {
            Err(Error::project(format!("{} is a checkpoint; only runs have attempts", saved.id())))
        }
        RunOrCheckpoint::Checkpoint(saved) => {
            let (workspace, progress) = (project.workspace()?, context.ui.progress());
            let site = super::context::history_context(&project, &workspace, &progress);
            if args.stat {
                let counts = history::write_diff_since(site, &saved, &mut io::sink())?;
                return stat(context, counts.into_iter());
            }
            let mut result = Ok(Vec::new());
            context.ui.write(|mut out| {
                result = history::write_diff_since(site, &saved, &mut out);
                Ok(())
            })?;
            result.map(drop).or_else(forgive_closed_pipe)
        }
    }
}

/// A run's own record, or that of one of its attempts.
fn attempt_of(run: CheckpointDir, attempt: Option<u32>) -> Result<CheckpointDir> {
    let Some(number) = attempt else {
        return Ok(run);
    };
    let saved = CheckpointDir::new(run.id(), run.dir().join("attempts").join(number.to_string()));
    match saved.is_sealed() {
        true => Ok(saved),
        false => Err(Error::project(format!("run {} has no attempt {number}", run.id()))),
    }
}

fn recorded(context: &Context, args: &DiffArgs, saved: &CheckpointDir) -> Result<()> {
    if args.stat {
        let Some(seal) = saved.result()? else {
            return Err(Error::project(format!("{} has no result yet", saved.id())));
        };
        let rows = seal.changes.into_iter().map(|(path, result)| {
            let mut count = ChangeCount { binary: result.binary, ..ChangeCount::default() };
            (count.lines.added, count.lines.removed) = (result.added, result.removed);
            (path, count)
        });
        return stat(context, rows);
    }
    let path = saved.diff_path();
    if !saved.is_sealed() {
        return Err(Error::project(format!("run {} has no recorded change", saved.id())));
    }
    let mut file = File::open(&path).at("read", &path)?;
    context.ui.write(|out| io::copy(&mut file, out).map(drop))
}

fn stat(context: &Context, changes: impl Iterator<Item = (String, ChangeCount)>) -> Result<()> {
    let mut rows = Vec::new();
    let (mut added, mut removed) = (0, 0);
    for (path, count) in changes {
        let lines = if count.binary {
            vec![path, "binary".to_owned()]
        } else {
            vec![path, format!("+{}", count.lines.added), format!("−{}", count.lines.removed)]
        };
        rows.push(lines);
        added += count.lines.added;
        removed += count.lines.removed;
    }
    let total = format!(
        "{}, +{} −{}\n",
        crate::humanize::count(rows.len(), "path"),
        humanize::grouped(added),
        humanize::grouped(removed)
    );
    context.ui.print(&format!("{}{total}", ui::table(&rows)))
}

fn forgive_closed_pipe(error: Error) -> Result<()> {
    match error.io_kind() {
        Some(io::ErrorKind::BrokenPipe) => Ok(()),
        _ => Err(error),
    }
}
