//! `decree process`

use std::os::unix::ffi::OsStrExt;

use super::locked_project::{LimitArgs, LockedProject};
use super::{Context, Format};
use crate::checkpoint::quote::{for_people, in_json};
use crate::doctor;
use crate::error::Result;
use crate::pipeline::{RunOverrides, Selection, plan};
use crate::project::RoutineName;
use crate::ui;

/// Process every spec that is not processed yet
///
/// Messages in the inbox run first, then the specs in alphabetical order, each with its follow-up messages. A failed attempt
/// is retried. If an attempt succeeds, its change is kept; if none does, the tree is reverted to the checkpoint from before the
/// first, and the next spec runs. Exit code 0: everything was kept; 1: at least one message failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree process\n  decree process --dry-run\n  decree process --spec '03-*' --timeout 30m\n  decree process --limit 1 --fail-fast\n  decree process --format json > summary.json"
)]
pub struct ProcessArgs {
    /// Process only specs whose file name or path matches (repeatable)
    #[arg(long, value_name = "GLOB")]
    spec: Vec<String>,

    /// Process at most this many specs
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// The routine for specs and messages that name none; the router is not used
    #[arg(long, value_name = "NAME", value_parser = RoutineName::parse)]
    routine: Option<RoutineName>,

    /// Stop at the first spec that fails and skip the rest
    #[arg(long)]
    fail_fast: bool,

    /// List what would run, and run nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    limits: LimitArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

pub fn process(context: &Context, args: ProcessArgs) -> Result<u8> {
    let selection = Selection { globs: args.spec, limit: args.limit, fail_fast: args.fail_fast };
    if args.dry_run {
        return dry_run(context, &selection, args.format).map(|()| 0);
    }
    let mut project = LockedProject::open(context, "process")?;
    let overrides = RunOverrides { routine: args.routine, ..args.limits.overrides() };
    doctor::preflight_specs(&project.project, &selection, overrides.routine.as_ref())?;
    let summary = project.work(overrides, |pipeline| pipeline.process(&selection));
    project.report(summary, args.format)
}

fn dry_run(context: &Context, selection: &Selection, format: Format) -> Result<()> {
    let project = context.project()?;
    let plan = plan(&project.layout, selection)?;
    for problem in &plan.problems {
        context.ui.warn(problem);
    }
    let limit = selection.limit.unwrap_or(usize::MAX);
    let specs: Vec<String> = plan.specs.iter().take(limit).map(|spec| spec.shown()).collect();
    let messages: Vec<_> = plan.messages.iter().map(|file| file.as_bytes()).collect();
    if format == Format::Json {
        let messages: Vec<_> = messages.into_iter().map(in_json).collect();
        let answer = serde_json::json!({ "messages": messages, "specs": specs });
        return context.ui.print_json(&answer);
    }
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|file| vec!["message".to_owned(), for_people(file).into_owned()])
        .chain(specs.iter().map(|spec| vec!["spec".to_owned(), spec.clone()]))
        .collect();
    if rows.is_empty() {
        context.ui.note("nothing to do: every spec is processed and the inbox is empty");
    }
    context.ui.print(&ui::table(&rows))
}
