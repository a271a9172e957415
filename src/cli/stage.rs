//! `decree stage`: exports runs and reports as an artifact.

use std::path::PathBuf;

use super::Context;
use crate::artifact::{self, OmittedFile, StageReport};
use crate::checkpoint::store::Store;
use crate::error::{Error, Result};
use crate::github::{self, commands};
use crate::humanize::count;
use crate::process::redact::Redactor;
use crate::project::Layout;
use crate::report::{ReportLimits, load, runs_beside};

/// How many omitted files are listed by name.
const NAMED: usize = 10;

/// Export the runs and reports of the last `process` or `run` to a directory, for upload as an artifact
///
/// The directory contains the run directories with diffs and logs, the summary, and reports as HTML, Markdown and JUnit. A file
/// that contains a secret of the environment (such as the value of a variable named *_TOKEN, *_KEY, *_SECRET or *_PASSWORD) is
/// omitted and listed. `decree apply --from` applies runs from the directory, or from an archive of it, in another checkout.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree stage artifact\n  decree stage \"$RUNNER_TEMP/decree\"\n  decree apply 2026111603120000-0 --from artifact"
)]
pub struct StageArgs {
    /// The directory to write to; it has to be empty or missing
    #[arg(value_name = "DIRECTORY")]
    target: PathBuf,

    /// Read this summary instead of .decree/summary.json; its runs are in runs/ beside it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

pub fn stage(context: &Context, args: &StageArgs) -> Result<()> {
    let path = context.summary(args.summary.as_deref())?;
    let report = load(&path, ReportLimits::PAGE)?.ok_or_else(|| {
        Error::project(format!("{} does not exist", path.display())).hint("`decree process` writes it")
    })?;
    let target = context.directory.join(&args.target);
    let (runs, store) = (runs_beside(&path), Store::at(Layout::store_beside(&path)));
    let result = artifact::stage(&report, &runs, &store, &target, &Redactor::of_this_process())?;
    print_result(context, &result);
    Ok(())
}

fn print_result(context: &Context, result: &StageReport) {
    let ui = &context.ui;
    ui.note(&format!("staged {} of {}", count(result.files, "file"), count(result.runs, "run")));
    if result.left_out.is_empty() {
        return;
    }
    let line = |OmittedFile { path, why }: &OmittedFile| format!("{path}: {why}");
    let mut lines: Vec<String> = result.left_out.iter().take(NAMED).map(line).collect();
    if result.left_out.len() > NAMED {
        lines.push(format!("and {} more", result.left_out.len() - NAMED));
    }
    let what = format!("{} left out of the artifact", count(result.left_out.len(), "file"));
    if github::in_actions() {
        ui.command(&commands::annotation(commands::Level::Warning, &what, None, &lines.join("\n")));
    } else {
        ui.warn(&format!("{what}\n  {}", lines.join("\n  ")));
    }
}
