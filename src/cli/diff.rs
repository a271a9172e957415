//! `decree diff`: shows the changes of a run, or since a checkpoint.

use std::fs::{self, File};
use std::io::{self, Write as _};

use super::Context;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::live_database::DatabaseInUse;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::write::ChangeCount;
use crate::checkpoint::quote::json_for_people;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, random_hex};
use crate::history::{self, HistoryContext, RunDir, RunOrCheckpoint, WrittenDiff};
use crate::humanize::{count, grouped};
use crate::pipeline::revert_runs::refuse_lost_records;
use crate::project::Layout;
use crate::ui;

/// How many paths a warning names.
const MAX_NAMED: usize = 5;

/// Show what a run changed, or what changed since a checkpoint
///
/// The output is a diff that `git apply` and `patch -p1` accept; binary contents are in comments, which both skip. With --git they
/// are in the form that `git apply` takes, too, and a warning names what git cannot express: empty directories, modes, attributes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree diff 2026111603120000-0\n  decree diff chk_20261116_0312 --stat\n  decree diff chk_20261116_0312 | git apply --check -R\n  decree diff --git 2026111603120000-0 | git apply"
)]
pub struct DiffArgs {
    /// The id of a run or a checkpoint, or a unique prefix
    id: String,

    /// Print only the paths, with the number of lines added and removed
    #[arg(long)]
    stat: bool,

    /// Print binary contents as `GIT binary patch` blocks, so that `git apply` takes them, too
    #[arg(long, conflicts_with = "stat")]
    git: bool,

    /// Show the changes of this attempt instead of the last
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

pub fn diff(context: &Context, args: &DiffArgs) -> Result<()> {
    let project = context.project_to_inspect()?;
    match history::find_tree(&project.layout, &args.id)? {
        RunOrCheckpoint::Run(saved) => {
            print_recorded(context, args, &project.layout, &attempt_of(saved, args.attempt)?)
        }
        RunOrCheckpoint::Checkpoint(saved) if args.attempt.is_some() => {
            Err(Error::project(format!("{} is a checkpoint; only runs have attempts", saved.id())))
        }
        RunOrCheckpoint::Checkpoint(saved) => {
            let (workspace, progress) = (project.workspace()?, context.ui.progress());
            let history_context = super::context::history_context(&project, &workspace, &progress);
            let warn_missing = |written: &WrittenDiff| {
                written.withheld.iter().for_each(|path| warn_withheld(context, path));
                for DatabaseInUse { path, users } in &written.live_databases {
                    let users = users.join(", ");
                    context
                        .ui
                        .warn(&format!("{path} changed, and is not in the diff: it is open in {users}"));
                }
            };
            if args.stat {
                let written = history::write_diff_since(history_context, &saved, &mut io::sink())?;
                warn_missing(&written);
                return stat(context, written.counts.into_iter());
            }
            if args.git {
                return for_git_since(context, history_context, &saved, warn_missing);
            }
            let mut result = Ok(WrittenDiff::default());
            context.ui.write(|mut out| {
                result = history::write_diff_since(history_context, &saved, &mut out);
                Ok(())
            })?;
            match result {
                Err(error) if error.io_kind() == Some(io::ErrorKind::BrokenPipe) => Ok(()),
                result => result.map(|written| warn_missing(&written)),
            }
        }
    }
}

fn warn_withheld(context: &Context, path: &str) {
    context.ui.warn(&format!("{path} became a likely secret: its new content is withheld from the diff"));
}

fn attempt_of(run: CheckpointDir, attempt: Option<u32>) -> Result<CheckpointDir> {
    let Some(number) = attempt else {
        return Ok(run);
    };
    let saved = CheckpointDir::new(run.id(), run.dir().join(RunDir::ATTEMPTS).join(number.to_string()));
    if saved.has_change_record() {
        return Ok(saved);
    }
    Err(Error::project(format!("run {} has no attempt {number}", run.id())))
}

fn print_recorded(context: &Context, args: &DiffArgs, layout: &Layout, saved: &CheckpointDir) -> Result<()> {
    if let Ok(Some(record)) = saved.result() {
        record.withheld.iter().for_each(|path| warn_withheld(context, &json_for_people(path)));
    }
    if args.stat {
        let Some(record) = saved.result()? else {
            refuse_lost_records(layout, saved)?;
            return Err(Error::project(format!("run {} has no result yet", saved.id())));
        };
        let rows = record.changes.into_iter().map(|(path, change)| {
            let mut count = ChangeCount { binary: change.binary, ..ChangeCount::default() };
            (count.lines.added, count.lines.removed) = (change.added, change.removed);
            (json_for_people(&path).into_owned(), count)
        });
        return stat(context, rows);
    }
    let path = saved.diff_path();
    if !saved.has_change_record() {
        refuse_lost_records(layout, saved)?;
        let id = saved.id();
        return Err(match saved.result() {
            Ok(None) => Error::project(format!("run {id} has no recorded changes yet")),
            _ => Error::integrity(format!("the recorded changes of run {id} are missing"))
                .detail(format!("cannot read {}", path.display())),
        });
    }
    if args.git {
        return for_git(context, &saved.patch()?);
    }
    let mut file = File::open(&path).at("read", &path)?;
    context.ui.write(|out| io::copy(&mut file, out).map(drop))
}

/// Prints what changed since a checkpoint, for git: the diff is written to a file first, because git wants the hash of a content
/// before the content.
fn for_git_since(
    context: &Context,
    history_context: HistoryContext<'_>,
    saved: &CheckpointDir,
    warn_missing: impl Fn(&WrittenDiff),
) -> Result<()> {
    let scratch = history_context.layout.scratch();
    fs::create_dir_all(&scratch).at("create", &scratch)?;
    let path = scratch.join(format!("{}{}.diff", atomic::TEMPORARY, random_hex()));
    let print = || {
        let mut file = io::BufWriter::new(atomic::create_new(&path).at("create", &path)?);
        let written = history::write_diff_since(history_context, saved, &mut file)?;
        file.flush().at("write", &path)?;
        for_git(context, &Patch::read(&path)?)?;
        warn_missing(&written);
        Ok(())
    };
    let printed = print();
    let _ = fs::remove_file(&path);
    printed
}

fn for_git(context: &Context, patch: &Patch) -> Result<()> {
    let beyond: Vec<String> = patch.beyond_git().map(ToString::to_string).collect();
    if !beyond.is_empty() {
        let more = beyond.len().saturating_sub(MAX_NAMED);
        let named = beyond[..beyond.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        context.ui.warn(&format!(
            "git's format has no empty directories, modes other than 644 and 755, owners and attributes, so this is not the whole change of {named}{more}; `decree apply` applies all of it"
        ));
    }
    let mut result = Ok(());
    context.ui.write(|out| {
        result = patch.write_for_git(out);
        Ok(())
    })?;
    match result {
        Err(error) if error.io_kind() == Some(io::ErrorKind::BrokenPipe) => Ok(()),
        result => result,
    }
}

fn stat(context: &Context, changes: impl Iterator<Item = (String, ChangeCount)>) -> Result<()> {
    let mut rows = Vec::new();
    let (mut added, mut removed) = (0, 0);
    for (path, ChangeCount { lines, binary }) in changes {
        rows.push(if binary {
            vec![path, "binary".to_owned()]
        } else {
            vec![path, format!("+{}", lines.added), format!("−{}", lines.removed)]
        });
        added += lines.added;
        removed += lines.removed;
    }
    let paths = count(rows.len(), "path");
    let total = format!("{paths}, +{} −{}\n", grouped(added), grouped(removed));
    context.ui.print(&format!("{}{total}", ui::table(&rows)))
}
