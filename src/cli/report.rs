//! `decree report`: renders the last summary in one of five formats.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Context, ContractFormat, FailureAnswer};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::report::text::{self, Paint};
use crate::report::{Report, ReportLimits, html, junit, load, markdown};

/// Report what the last `process` or `run` did, as text, Markdown, JSON, JUnit or HTML
///
/// Reads .decree/summary.json and the run directories in runs/ beside it. Missing runs are omitted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree report\n  decree report --format html --output report.html\n  decree report --format markdown >> \"$GITHUB_STEP_SUMMARY\"\n  decree report --format junit --output decree.xml\n  decree report --format html --summary artifact/summary.json > report.html"
)]
pub struct ReportArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,

    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Read this summary instead of .decree/summary.json; its runs are in runs/ beside it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// The closing lines of `process`
    #[default]
    Text,
    /// For a step summary or a comment: at most 60,000 bytes
    Markdown,
    /// The content of summary.json
    Json,
    /// One test case per spec, task and follow-up
    Junit,
    /// One self-contained page for a browser, with diffs and logs
    Html,
}

impl ReportArgs {
    pub(super) fn failure_answer(&self) -> FailureAnswer {
        let is_json = self.format == ReportFormat::Json;
        FailureAnswer::new(if is_json { ContractFormat::Json } else { ContractFormat::Text })
    }
}

impl ReportFormat {
    /// How much of the runs the format shows.
    fn limits(self) -> ReportLimits {
        match self {
            ReportFormat::Text | ReportFormat::Json => ReportLimits::NOTHING,
            ReportFormat::Markdown | ReportFormat::Junit => ReportLimits::EXCERPTS,
            ReportFormat::Html => ReportLimits::PAGE,
        }
    }
}

pub fn report(context: &Context, args: &ReportArgs) -> Result<()> {
    let report = find(context, args.summary.as_deref(), args.format.limits())?;
    let colors = args.output.is_none() && context.ui.color_out;
    let text = match args.format {
        ReportFormat::Text => text::closing(&report.summary, Paint(colors)),
        ReportFormat::Markdown => markdown::render(&report, markdown::BUDGET),
        ReportFormat::Json => report.summary.to_json(),
        ReportFormat::Junit => junit::render(&report),
        ReportFormat::Html => html::render(&report),
    };
    match &args.output {
        Some(output) => write(&context.directory.join(output), &text),
        None => context.ui.print(&text),
    }
}

/// Loads the named summary, or the project's last one.
pub(super) fn find(context: &Context, summary: Option<&Path>, limits: ReportLimits) -> Result<Report> {
    if summary.is_none() {
        context.project_to_inspect()?;
    }
    let path = context.summary(summary)?;
    load(&path, limits)?.ok_or_else(|| missing(&path, summary.is_some()))
}

/// Writes a file atomically; writes directly to a device or a pipe, such as `/dev/stdout`.
fn write(output: &Path, text: &str) -> Result<()> {
    match fs::metadata(output) {
        Ok(found) if found.is_file() => {
            atomic::write_public(&output.canonicalize().at("find", output)?, text.as_bytes())
        }
        Ok(found) if found.is_dir() => Err(Error::failed(format!("{} is a directory", output.display()))),
        Ok(_) => {
            let mut file = OpenOptions::new().write(true).open(output).at("open", output)?;
            file.write_all(text.as_bytes()).at("write", output)
        }
        Err(_) if output.file_name().is_some() => atomic::write_public(output, text.as_bytes()),
        Err(error) => Err(error).at("write", output),
    }
}

fn missing(path: &Path, named: bool) -> Error {
    if named {
        Error::project(format!("{} does not exist", path.display()))
            .hint("`decree process` writes .decree/summary.json; an artifact has it beside runs/")
    } else {
        Error::project("nothing to report: nothing has been processed here yet")
            .hint("`decree process` processes the specs and writes .decree/summary.json")
    }
}
