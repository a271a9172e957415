//! `decree guard`

use std::ffi::OsString;

use super::expiry::parse_expiry;
use super::guard_answer::GuardAnswer;
use super::locked_project::LockedProject;
use super::rollback::{NOT_SAVED, counts, lines};
use super::rollback_answer::warnings;
use super::{Context, ContractFormat};
use crate::error::{Error, ErrorKind, FailureReason, Result};
use crate::history::{
    Expiry, GitChange, Guard, GuardOutcome, GuardRequest, RollbackReport, Scope, ScopeWords,
};
use crate::humanize::count;
use crate::interrupt;
use crate::project::Layout;

/// Checkpoint the tree, run a command, and roll the tree back if it fails
///
/// The command inherits the terminal, stdin, stdout and stderr, and decree exits with its exit code. With --verify, a second
/// command has to succeed as well. If either fails, or decree is interrupted (a second Ctrl-C ends the command at once), everything
/// that changed is rolled back to the checkpoint and verified; what the command had done stays saved as another checkpoint. git's HEAD,
/// its branch and the index go back with it; commits that the command made stay as refs/decree/runs/CHECKPOINT. Exit code 4: the tree
/// (also the owner of a file, which only root can set) or git's state could not be rolled back.
/// Both commands find the checkpoint's id in DECREE_CHECKPOINT. With --format json or yaml, standard output has decree's answer
/// alone, and what the commands print goes to standard error.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree guard -- npm update\n  decree guard --verify 'cargo test' -- cargo fix --allow-dirty\n  decree guard --scope migrations --reason 'schema 12' -- ./migrate.sh\n  decree guard --format json -- ./migrate.sh | jq .kept"
)]
pub struct GuardArgs {
    /// A shell command that has to succeed afterwards
    #[arg(long, value_name = "COMMAND")]
    verify: Option<String>,

    /// Roll back only this path and what is below it, or what matches this pattern (repeatable)
    #[arg(long, value_name = "PATH|GLOB")]
    scope: Vec<String>,

    /// Accept a --scope that matches nothing yet: a rollback removes what is created there
    #[arg(long)]
    allow_missing: bool,

    /// The reason, which is recorded with the checkpoint
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    reason: Option<String>,

    /// When the checkpoint expires: a time from now (24h, 7d, 2w), a date or a time (2026-12-01), or never
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = parse_expiry)]
    expiry: Expiry,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: ContractFormat,

    /// The program to run, and its arguments; no shell interprets them
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn guard(context: &Context, args: &GuardArgs) -> Result<u8> {
    let locked = LockedProject::open(context, "guard")?;
    let (list, allow_missing) = (args.scope.clone(), args.allow_missing);
    let words = ScopeWords { list, directory: context.directory.clone(), allow_missing };
    let scope = Scope::parse(&words, locked.workspace.root(), &|_| false)?;
    let progress = context.ui.progress();
    let request = GuardRequest {
        command: &args.command,
        verify: args.verify.as_deref(),
        directory: &context.directory,
        lock: locked.held_lock(),
        scope,
        reason: args.reason.clone(),
        expiry: args.expiry,
        answers: args.format != ContractFormat::Text,
    };
    let guard = Guard::begin(locked.history_context(&progress), request)
        .map_err(|error| error.detail("the command was not run"))?;
    for warning in &guard.warnings {
        context.ui.warn(warning);
    }
    let mut answer = GuardAnswer::of(&locked.project.layout, &guard);
    answer.warnings.splice(0..0, context.warned());
    let mut end = guard.run();
    if let Some(error) = &end.error {
        context.ui.error(error);
    }
    let not_started = end.error.take();
    let mut outcome = guard.finish(end);
    let repaired = repair_warnings(&locked.project.layout, &outcome);
    repaired.iter().for_each(|warning| context.ui.warn(warning));
    answer.warnings.extend(repaired);
    if let Some(error) = &outcome.repair_error {
        context.ui.error(error);
    }
    for warning in &outcome.uncaptured.warnings {
        context.ui.warn(warning);
    }
    answer.warnings.extend_from_slice(&outcome.uncaptured.warnings);
    let (rollback, result) = match outcome.rollback.take().transpose() {
        Ok(rollback) => (rollback, None),
        Err(error) => (None, Some(Err(not_rolled_back(context, &outcome, error)))),
    };
    let result = result.unwrap_or_else(|| report(context, &outcome, rollback.as_ref()));
    if args.format == ContractFormat::Text {
        return result;
    }
    let answer =
        answer.render(&locked.project.layout, &outcome, rollback.as_ref(), &result, not_started.as_ref());
    context.ui.print(&args.format.render(&answer))?;
    result.map_err(Error::answered)
}

fn not_rolled_back(context: &Context, outcome: &GuardOutcome, error: Error) -> Error {
    let id = outcome.checkpoint.id();
    let hint = if error.is(FailureReason::ContentLost) {
        let recover = context.command_line(&format!("recover {id}"));
        format!("`{recover}` restores what can be restored, and names the rest")
    } else {
        format!("fix the cause, then run `{}`", context.command_line(&format!("rollback {id}")))
    };
    error
        .into_kind(ErrorKind::Integrity)
        .detail(format!("{}; the tree is not rolled back", outcome.cause))
        .hint(hint)
}

/// Prints what became of the tree, and returns the exit code.
fn report(context: &Context, outcome: &GuardOutcome, rollback: Option<&RollbackReport>) -> Result<u8> {
    let id = outcome.checkpoint.id();
    if let Some(error) = &outcome.no_way_back {
        let recover = context.command_line(&format!("recover {id}"));
        return Err(Error::integrity(format!("the command is kept, and damaged the store: {error}"))
            .details(error.detail_lines().to_vec(), 20)
            .hint(format!(
                "there is no whole way back; `{recover}` goes back as far as possible, and names the rest"
            )));
    }
    let Some(rollback) = rollback else {
        let back = context.command_line(&format!("rollback {id}"));
        context.ui.note(&format!("kept; `{back}` rolls the tree back to before the command"));
        return Ok(0);
    };
    print_rollback(context, rollback, &outcome.cause, id);
    outcome.git.iter().flat_map(GitChange::restored_lines).for_each(|line| context.ui.warn(&line));
    if outcome.git.iter().any(GitChange::is_unrestored) {
        return Err(Error::integrity("the tree is rolled back, and git's own state is not")
            .detail(format!("{}; the warnings above say why", outcome.cause)));
    }
    if let Some(error) = outcome.uncaptured.error() {
        return Err(error.detail(format!("{}; everything else is rolled back", outcome.cause)));
    }
    if outcome.repair.lost_runs > 0 {
        let runs = count(outcome.repair.lost_runs, "earlier run");
        return Err(Error::integrity(format!(
            "the records of {runs} are lost; everything else is rolled back"
        ))
        .detail(outcome.cause.clone()));
    }
    if let Some(error) = rollback.loss_error(id) {
        return Err(error.detail(outcome.cause.clone()));
    }
    match outcome.interrupted {
        Some(signal) => {
            let error = Error::new(ErrorKind::Interrupted { signal }, "interrupted");
            let is_unchanged = rollback.is_proven() && rollback.scope.is_everything();
            Err(if is_unchanged { interrupt::name_unchanged(error) } else { error })
        }
        None => Ok(outcome.code),
    }
}

fn print_rollback(context: &Context, report: &RollbackReport, cause: &str, id: &str) {
    lines(report).for_each(|line| context.ui.note(&line));
    warnings(report).for_each(|warning| context.ui.warn(&warning));
    for (path, to) in &report.set_aside {
        context.ui.note(&format!("set aside {path}: moved to {}", to.display()));
    }
    let (changed, held) = (count(report.changed(), "path"), count(report.held, "path"));
    let counts = if report.changed() > 0 { format!(" ({})", counts(report)) } else { String::new() };
    let but = if report.unrestored.is_empty() { "" } else { ", except for the warnings" };
    context.ui.note(&format!("{cause}; {changed} rolled back{counts}, {held} verified against {id}{but}"));
    if let Some(present) = &report.present {
        let back = context.command_line(&format!("rollback {present}"));
        let but = if report.set_aside.is_empty() { "" } else { NOT_SAVED };
        context.ui.note(&format!("the work of the command is saved: `{back}` restores it{but}"));
    }
}

/// What the command had done to decree's own files.
fn repair_warnings(layout: &Layout, outcome: &GuardOutcome) -> Vec<String> {
    let GuardOutcome { repair: report, checkpoint, .. } = outcome;
    let mut warnings = Vec::from_iter(report.project_text("the command"));
    if !report.restored.is_empty() {
        let files = count(report.restored.len(), "file");
        warnings.push(format!("the command removed or replaced {files} of decree's own; restored"));
    }
    if let Some(files) = report.overwritten_text(layout) {
        warnings.push(format!("the command, or another program, changed {files} while it ran; restored"));
    }
    if report.set_aside > 0 {
        let set_aside = checkpoint.quarantine_dir();
        warnings.push(format!(
            "what the command put in place of decree's own files is in {}",
            set_aside.display()
        ));
    }
    for path in report.spoiled.iter().filter(|path| **path != checkpoint.manifest_path()) {
        let path = layout.shown(path);
        warnings.push(format!("the command overwrote {path}; its old content is lost"));
    }
    if report.lost_runs > 0 {
        let runs = count(report.lost_runs, "earlier run");
        warnings.push(format!("the command deleted the records of {runs}, which are lost"));
    }
    if report.stripped_runs > 0 {
        let runs = count(report.stripped_runs, "earlier run");
        warnings.push(format!(
            "the command deleted the directories of {runs}; their messages, diffs and results are restored, their logs are lost"
        ));
    }
    warnings
}
