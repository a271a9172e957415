//! `decree stage`

use std::path::{Path, PathBuf};

use super::Context;
use crate::artifact::{self, OmittedFile, StageReport};
use crate::error::{Error, Result};
use crate::github::{self, commands};
use crate::humanize::count;
use crate::process::redact::Redactor;
use crate::report::{ReportLimits, load};

/// How many files that are left out are named one by one.
const NAMED: usize = 10;

/// Put what the last `process` or `run` did into a directory, to be handed on as an artifact
///
/// Run directories with their diffs and logs, the summary, and the reports as HTML, Markdown and JUnit. A file that holds a
/// secret of the environment (the value of a variable named *_TOKEN, *_KEY, *_SECRET or *_PASSWORD) is left out and
/// named, not rewritten. `decree apply --from` takes the directory, or an archive of it, anywhere else.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree stage artifact\n  decree stage \"$RUNNER_TEMP/decree\"\n  decree apply 2026111603120000-0 --from artifact"
)]
pub struct StageArgs {
    /// A directory that is empty, or not there yet
    #[arg(value_name = "DIRECTORY")]
    target: PathBuf,

    /// A summary from elsewhere; its runs are looked for in runs/ beside it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

pub fn stage(context: &Context, args: &StageArgs) -> Result<()> {
    let path = match &args.summary {
        Some(path) => context.directory.join(path),
        None => context.project()?.layout.summary(),
    };
    let report = load(&path, ReportLimits::PAGE)?.ok_or_else(|| {
        Error::project(format!("there is no {}", path.display())).hint("`decree process` writes it")
    })?;
    let runs = path.parent().unwrap_or(Path::new("")).join("runs");
    let target = context.directory.join(&args.target);
    let staged = artifact::stage(&report, &runs, &target, &Redactor::of_this_process())?;
    tell(context, &staged);
    Ok(())
}

fn tell(context: &Context, staged: &StageReport) {
    let ui = &context.ui;
    ui.note(&format!("staged {} of {}", count(staged.files, "file"), count(staged.runs, "run")));
    if staged.left_out.is_empty() {
        return;
    }
    let mut lines: Vec<String> = staged
        .left_out
        .iter()
        .take(NAMED)
        .map(|OmittedFile { path, why }| format!("{path}: {why}"))
        .collect();
    if staged.left_out.len() > NAMED {
        lines.push(format!("and {} more", staged.left_out.len() - NAMED));
    }
    let what = format!("{} left out of the artifact", count(staged.left_out.len(), "file"));
    match github::in_actions() {
        true => {
            ui.command(&commands::annotation(commands::Level::Warning, &what, None, &lines.join("\n")));
        }
        false => ui.warn(&format!("{what}\n  {}", lines.join("\n  "))),
    }
}
