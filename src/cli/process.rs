//! `decree process`

use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::locked_project::{LimitArgs, LockedProject};
use super::{Context, Format};
use crate::checkpoint::quote::for_people;
use crate::doctor::{self, MessageCheck, NeededRoutines, SpecCheck};
use crate::error::Result;
use crate::history::{GuardRecord, PendingGitRestore};
use crate::pipeline::{RunOverrides, Selection, plan};
use crate::project::{Lock, Project, RoutineName};
use crate::routine::Routines;
use crate::sanitize::one_line;
use crate::ui;

/// Process every spec that is not processed yet
///
/// Messages in the inbox run first, then the specs in alphabetical order, each with its follow-up messages. A failed attempt
/// is retried. If an attempt succeeds, its change is kept; if none does, the tree is reverted to the checkpoint from before the
/// first, and the next spec runs. A file that you edit meanwhile counts as the routine's change. Exit code 0: everything was kept;
/// 1: at least one message failed; 130: Ctrl-C, the tree is reverted; after a second Ctrl-C it is not, and the next `decree process` does it.
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

    /// List what would run, and run nothing; exit code 1 if a spec or a message cannot run
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
    let overrides = RunOverrides { routine: args.routine, ..args.limits.overrides() };
    if args.dry_run {
        return dry_run(context, &selection, &overrides, args.format);
    }
    let mut project = LockedProject::open(context, "process")?;
    preflight(context, &project.project, &selection, &overrides)?;
    let summary = project.work(overrides, |pipeline| pipeline.process(&selection));
    project.report(summary, args.format)
}

/// Lists what would run. Returns 1 if a spec or a message among it cannot run.
fn dry_run(context: &Context, selection: &Selection, overrides: &RunOverrides, format: Format) -> Result<u8> {
    let project = context.project()?;
    let mut plan = plan(&project.layout, selection)?;
    for problem in &plan.problems {
        context.ui.warn(problem);
    }
    plan.specs.truncate(selection.limit.unwrap_or(usize::MAX));
    let routines = Routines::of(&project)?;
    let specs = doctor::check_specs(&project, &routines, overrides, &plan.specs);
    let messages = doctor::check_messages(&project, &routines, overrides, &plan.messages);
    let broken =
        specs.iter().any(|check| check.error.is_some()) || messages.iter().any(|check| check.error.is_some());
    let mut refusal = refusal(context, &project).err();
    if refusal.is_none() && !broken {
        refusal = preflight(context, &project, selection, overrides).err();
    }
    if format == Format::Json {
        let mut answer = plan_json(&messages, &specs);
        if let Some(error) = &refusal {
            answer["error"] = error.to_json();
        }
        context.ui.print_json(&answer)?;
        return refusal.map_or(Ok(u8::from(broken)), |error| Err(error.answered()));
    }
    let warnings = messages.iter().flat_map(|check| &check.warnings);
    for warning in warnings.chain(specs.iter().flat_map(|check| &check.warnings)) {
        context.ui.warn(warning);
    }
    let row = |what: &str, name: String, error: &Option<String>| {
        let error = error.as_ref().map(|error| format!("error: {}", one_line(error)));
        [Some(what.to_owned()), Some(name), error].into_iter().flatten().collect()
    };
    let names = plan.messages.iter().map(|file| for_people(file.as_bytes()).into_owned());
    let mut rows: Vec<Vec<String>> =
        names.zip(&messages).map(|(name, check)| row("message", name, &check.error)).collect();
    rows.extend(
        specs.iter().map(|check| row("spec", for_people(check.spec.as_bytes()).into_owned(), &check.error)),
    );
    if rows.is_empty() {
        context.ui.note("nothing to do: every spec is processed and the inbox is empty");
    }
    context.ui.print(&ui::table(&rows))?;
    refusal.map_or(Ok(u8::from(broken)), Err)
}

/// The error with which `process` would not start, because of what an earlier decree left unfinished.
fn refusal(context: &Context, project: &Project) -> Result<()> {
    if !Lock::is_free(&project.layout.lock()) {
        return Ok(());
    }
    if let Some(guard) = GuardRecord::find(&project.layout) {
        return Err(guard.refusal("process"));
    }
    context.warn_unfinished(project);
    PendingGitRestore::refuse(&project.layout)
}

/// Checks that the routines of the batch can run here; what only some of them lack is a warning.
fn preflight(
    context: &Context,
    project: &Project,
    selection: &Selection,
    overrides: &RunOverrides,
) -> Result<()> {
    let needed = NeededRoutines::of_batch(project, selection, overrides)?;
    for warning in doctor::preflight(project, &needed)? {
        context.ui.warn(&warning);
    }
    Ok(())
}

/// What would run, and what is wrong with it.
fn plan_json(messages: &[MessageCheck], specs: &[SpecCheck]) -> Value {
    let has_problem = |error: &Option<String>, warnings: &[String]| error.is_some() || !warnings.is_empty();
    let of_messages = messages.iter().filter(|check| has_problem(&check.error, &check.warnings));
    let of_specs = specs.iter().filter(|check| has_problem(&check.error, &check.warnings));
    let problems: Vec<Value> = of_messages.map(|it| json!(it)).chain(of_specs.map(|it| json!(it))).collect();
    let messages: Vec<&String> = messages.iter().map(|check| &check.message).collect();
    let specs: Vec<&String> = specs.iter().map(|check| &check.spec).collect();
    json!({ "messages": messages, "specs": specs, "problems": problems })
}
