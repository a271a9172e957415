//! A command that runs with a checkpoint as its way back: checkpoint, run, judge, repair decree's own files, roll back.
//!
//! The command may do anything to `.decree/`, where the checkpoint is. So what the rollback needs is held open or in memory from before
//! the command starts. `guarding.json` names the checkpoint until the tree is kept or rolled back; if decree is killed in between, the
//! next one reports it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::HistoryContext;
use super::git_change::GitChange;
use super::git_restore::{GitRestore, OPERATIONS_DIR};
use super::kind::{tree, tree_report};
use super::lookup::RunOrCheckpoint;
use super::own_files::{OwnFiles, ProtectedDir, RepairReport};
use super::record::CheckpointRecord;
use super::rollback::rollback;
use super::rollback_report::{RollbackOptions, RollbackReport};
use super::run_dir::RunDir;
use super::scope::Scope;
use super::uncaptured::{GuardedUncaptured, LostRepository, UncapturedState};
use super::writer::{CheckpointLabel, Expiry, SavedCheckpoint};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, FailureReason, IoContext, Result};
use crate::fs::{json, untrusted};
use crate::interrupt;
use crate::process::foreground::run_in_foreground;
use crate::process::redact::Redactor;
use crate::project::Layout;
use crate::sanitize::{one_line, truncate};

/// Names the checkpoint in the environment of both commands.
const CHECKPOINT: &str = "DECREE_CHECKPOINT";
/// The exit code of a command that could not be started, as in a shell.
const NOT_FOUND: u8 = 127;
/// How much of a command line messages repeat.
const MAX_SHOWN: usize = 200;

/// What to run, and under which conditions its work is kept.
pub struct GuardRequest<'g> {
    /// A program and its arguments.
    pub command: &'g [OsString],
    /// A shell command that has to succeed afterwards.
    pub verify: Option<&'g str>,
    pub directory: &'g Path,
    /// What a rollback covers.
    pub scope: Scope,
    pub reason: Option<String>,
    pub expiry: Expiry,
    /// Whether decree's own standard output is for its answer alone: then the commands write to standard error.
    pub answers: bool,
}

/// A checkpoint that was made for a command, with decree's own files held.
pub struct Guard<'g> {
    context: HistoryContext<'g>,
    request: GuardRequest<'g>,
    /// The command line, as messages have it.
    shown: String,
    saved: SavedCheckpoint,
    manifest: Manifest,
    /// What is not protected, for the user.
    pub warnings: Vec<String>,
    own_files: OwnFiles,
    /// What the checkpoint does not hold.
    uncaptured: UncapturedState,
    active: ActiveGuard,
}

impl Guard<'_> {
    pub fn record(&self) -> &CheckpointRecord {
        &self.saved.record
    }

    /// The command line, as messages have it.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// How the commands ended.
pub struct CommandEnd {
    /// The first exit code that is not 0.
    code: u8,
    /// What failed, for messages.
    cause: String,
    /// Why a command could not be started.
    pub error: Option<Error>,
}

/// What became of the tree.
pub struct GuardOutcome {
    pub checkpoint: CheckpointDir,
    pub code: u8,
    /// Why the tree was rolled back.
    pub cause: String,
    /// The signal that asked decree to stop.
    pub interrupted: Option<u8>,
    /// What the command had done to decree's own files.
    pub repair: RepairReport,
    /// Why they could not be repaired. The checkpoint may be whole all the same.
    pub repair_error: Option<Error>,
    /// Why the checkpoint of a command that is kept is no way back.
    pub no_way_back: Option<Error>,
    /// `None` if the work of the command is kept.
    pub rollback: Option<Result<RollbackReport>>,
    /// How git's own state differed at the rollback, and what was done about it.
    pub git: Option<GitChange>,
    /// What became of likely secrets, repositories and ignored entries.
    pub uncaptured: GuardedUncaptured,
}

impl<'g> Guard<'g> {
    /// Makes the checkpoint. The caller holds the project's lock.
    pub fn begin(context: HistoryContext<'g>, request: GuardRequest<'g>) -> Result<Guard<'g>> {
        let words = shell_words::join(request.command.iter().map(|word| word.to_string_lossy()));
        let shown = shown(&words);
        let label = CheckpointLabel {
            reason: Some(request.reason.clone().unwrap_or_else(|| format!("before `{shown}`"))),
            expiry: request.expiry,
        };
        let (saved, manifest) = tree::save(context, &label, &request.scope)?;
        let mut warnings = tree_report::warnings(context.workspace.root(), &manifest, &request.scope);
        let uncaptured = UncapturedState::hold(context.workspace.root(), &manifest.coverage);
        warnings.extend(uncaptured.warning());
        context.workspace.store().hold()?;
        let (checkpoint, command) = (saved.record.id.clone(), shown.clone());
        let record = GuardRecord { checkpoint, command, ..GuardRecord::default() };
        let active = record.begin(context.layout)?;
        // The second Ctrl-C ends the command at once, and the tree is rolled back all the same.
        interrupt::wait_for_a_third();
        interrupt::set_last_words(Some(format!(
            "the tree is NOT rolled back: `decree rollback {}` restores the state before the command",
            saved.record.id
        )));
        let own_files = match hold_own_files(context.layout, &saved.dir) {
            Ok(own_files) => own_files,
            Err(error) => {
                active.clear();
                return Err(error);
            }
        };
        Ok(Guard { context, request, shown, saved, manifest, warnings, own_files, uncaptured, active })
    }

    /// Runs the command, then the one that verifies it.
    pub fn run(&self) -> CommandEnd {
        let attend_in = |command: &mut Command| {
            if self.request.answers {
                command.stdout(Stdio::from(io::stderr()));
            }
            run_in_foreground(
                command.current_dir(self.request.directory).env(CHECKPOINT, &self.saved.record.id),
            )
        };
        let (shown_command, words) = (&self.shown, self.request.command);
        let code = match attend_in(Command::new(&words[0]).args(&words[1..])) {
            Ok(code) => code,
            Err(error) => {
                let error = Error::failed(format!("cannot run `{shown_command}`")).caused_by(error);
                let is_line = words.len() == 1 && words[0].to_string_lossy().contains(' ');
                let hint = format!("for a shell command line: `decree guard -- sh -c {shown_command}`");
                return CommandEnd {
                    code: NOT_FOUND,
                    cause: format!("`{shown_command}` failed with {NOT_FOUND}"),
                    error: Some(if is_line { error.hint(hint) } else { error }),
                };
            }
        };
        let Some(verify) = self.request.verify.filter(|_| code == 0 && interrupt::requested().is_none())
        else {
            return CommandEnd { code, cause: format!("`{shown_command}` failed with {code}"), error: None };
        };
        let (code, error) = match attend_in(Command::new("bash").args(["-c", verify])) {
            Ok(code) => (code, None),
            Err(error) => (NOT_FOUND, Some(Error::failed("cannot run bash for --verify").caused_by(error))),
        };
        let cause = format!("`{shown_command}` succeeded, but `{}` failed with {code}", shown(verify));
        CommandEnd { code, cause, error }
    }

    /// Keeps the work of the command, or rolls the tree back to the checkpoint. A signal does not stop this.
    pub fn finish(self, end: CommandEnd) -> GuardOutcome {
        let interrupted = interrupt::requested();
        let _shield = interrupt::shield();
        let Guard { context, request, shown, saved, manifest, mut own_files, uncaptured, active, .. } = self;
        let checkpoint = saved.dir;
        let mut end = end;
        if interrupted.is_none() {
            end.check_repositories(&shown, &uncaptured.lost_repositories(context.workspace.root()));
        }
        let has_failed = end.code != 0 || interrupted.is_some();
        let is_untouched = context.workspace.store().is_untouched();
        let (repair, repair_error) = repair(context, &mut own_files, &checkpoint, &manifest, has_failed);
        let cause = if interrupted.is_some() { format!("`{shown}` was interrupted") } else { end.cause };
        let git_before = manifest.git.clone();
        let set_aside = checkpoint.quarantine_dir();
        let scope = request.scope;
        let mut uncaptured =
            GuardedUncaptured::look(context, uncaptured, &manifest, has_failed, &set_aside, &scope);
        // A command that is kept is promised a rollback only if that is possible.
        let no_way_back = match &repair_error {
            Some(_) if !has_failed => Some(Error::integrity("its way back could not be repaired")),
            None if !has_failed && !is_untouched => checkpoint.verify(context.workspace, &manifest).err(),
            _ => None,
        };
        // The manifest may be large, and the rollback reads it again.
        drop(manifest);
        let rollback = has_failed.then(|| {
            // The scope is the one that the checkpoint was made for.
            let mut options = RollbackOptions::with_reason(Some(cause.clone()));
            (options.even_expired, options.automatic) = (true, true);
            (options.restores_git, options.moves_secrets) = (true, true);
            rollback(context, &RunOrCheckpoint::Checkpoint(checkpoint.clone()), &options)
        });
        let git_before = git_before.filter(|_| matches!(rollback, Some(Ok(_))));
        let git = git_before.and_then(|before| restore_git(context, &checkpoint, &before));
        match &rollback {
            Some(Err(error)) => active.mark_failed(context.layout, &checkpoint, &shown, error),
            Some(Ok(_)) | None => active.clear(),
        }
        if let Some(rollback) = &rollback {
            let moved = rollback.as_ref().map_or(&[][..], |report| &report.set_aside);
            uncaptured.restore(context, &set_aside, &scope, moved);
        }
        if !matches!(rollback, Some(Err(_))) {
            interrupt::set_last_words(Some(
                "the tree is rolled back, or kept if the command succeeded".to_owned(),
            ));
        }
        let code = end.code;
        GuardOutcome {
            checkpoint,
            code,
            cause,
            interrupted,
            repair,
            repair_error,
            no_way_back,
            rollback,
            git,
            uncaptured,
        }
    }
}

impl CommandEnd {
    /// A command that removes a repository has failed, whatever its exit code.
    fn check_repositories(&mut self, shown: &str, lost: &[LostRepository]) {
        if self.code == 0 && !lost.is_empty() {
            let lost: Vec<String> = lost.iter().map(LostRepository::violation).collect();
            (self.code, self.cause) = (1, format!("`{shown}` succeeded, but {}", lost.join("; ")));
        }
    }
}

fn shown(command_line: &str) -> String {
    truncate(&one_line(&Redactor::of_this_process().redact(command_line)), MAX_SHOWN).to_owned()
}

fn hold_own_files(layout: &Layout, checkpoint: &CheckpointDir) -> Result<OwnFiles> {
    let (dir, reserved) =
        (checkpoint.dir(), vec![layout.audit(), layout.guarding(), layout.guard_failed(), layout.pending()]);
    let mut records = vec![checkpoint.manifest_path(), dir.join(CheckpointRecord::FILE)];
    records.extend(reserved.iter().cloned());
    let protected = ProtectedDir {
        dir,
        set_aside: checkpoint.quarantine_dir(),
        records,
        is_record: &|path| path.starts_with(dir),
        reserved,
        reserved_unless_file: Vec::new(),
        later_dirs: vec![dir.join(OPERATIONS_DIR)],
        run_records: &RunDir::RECORDS,
    };
    OwnFiles::hold(layout, protected)
}

/// Repairs decree's own files and the store. A command that is kept may have changed settings and the tracker on purpose.
fn repair(
    context: HistoryContext<'_>,
    own_files: &mut OwnFiles,
    checkpoint: &CheckpointDir,
    manifest: &Manifest,
    has_failed: bool,
) -> (RepairReport, Option<Error>) {
    let repaired =
        if has_failed { own_files.repair_with_settings() } else { own_files.repair_except_tracker() };
    match repaired {
        Ok(report) => {
            let error = repair_content(context, checkpoint, manifest, &report).err();
            (report, error)
        }
        Err(error) => (RepairReport::default(), Some(error)),
    }
}

fn restore_git(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    before: &GitRecord,
) -> Option<GitChange> {
    let restore = GitRestore {
        workspace: context.workspace,
        keep_as: checkpoint.id().to_owned(),
        reason: format!("decree: the guarded command failed; back to {}", checkpoint.id()),
        dir: checkpoint.dir(),
    };
    restore.run(before)
}

/// Restores what the rollback needs of the store, and a manifest that was too large to be held in memory.
fn repair_content(
    context: HistoryContext<'_>,
    checkpoint: &CheckpointDir,
    manifest: &Manifest,
    report: &RepairReport,
) -> Result<()> {
    context.workspace.store().repair()?;
    let path = checkpoint.manifest_path();
    if report.spoiled.contains(&path) { manifest.write(&path) } else { Ok(()) }
}

/// The contents of `guarding.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GuardRecord {
    pub checkpoint: String,
    pub command: String,
    /// Why the rollback failed; absent if decree was killed, or if the disk had no room for this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Whether the rollback failed, by the name of the file.
    #[serde(skip)]
    has_failed: bool,
    /// Whether it failed because the store lost content, so that only `recover` helps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    content_lost: bool,
}

/// A guarded command that is running. Without a call to [`ActiveGuard::clear`] the next decree reports it as killed.
#[must_use]
pub struct ActiveGuard(PathBuf);

impl GuardRecord {
    /// Writes the file before the command starts.
    pub fn begin(&self, layout: &Layout) -> Result<ActiveGuard> {
        let path = layout.guarding();
        json::write_pretty(&path, self)?;
        Ok(ActiveGuard(path))
    }

    /// The command that is running, or was when decree was killed; else the one whose rollback failed.
    pub fn find(layout: &Layout) -> Result<Option<GuardRecord>> {
        for (path, has_failed) in [(layout.guarding(), false), (layout.guard_failed(), true)] {
            let text = untrusted::read(&path).if_exists().at("read", &path)?;
            let found = text.and_then(|text| serde_json::from_slice::<GuardRecord>(&text).ok());
            if let Some(record) = found {
                return Ok(Some(GuardRecord { has_failed, ..record }));
            }
        }
        Ok(None)
    }

    /// The command that was running when decree was killed, or whose rollback failed, reported once. The caller holds the project's
    /// lock.
    pub fn take_interrupted(layout: &Layout) -> Result<Option<GuardRecord>> {
        let found = GuardRecord::find(layout)?;
        ActiveGuard(layout.guarding()).clear();
        ActiveGuard(layout.guard_failed()).clear();
        Ok(found)
    }

    /// The warning about it, with the way back.
    pub fn warning(&self) -> String {
        let (command, checkpoint) = (one_line(&self.command), &self.checkpoint);
        let what = match &self.failure {
            Some(why) => format!("the rollback after `{command}` failed: {}", one_line(why)),
            None if self.has_failed => {
                format!("the rollback after `{command}` failed, and there was no room to record why")
            }
            None => format!("decree was killed while it guarded `{command}`"),
        };
        if self.content_lost {
            return format!(
                "{what}; `decree recover {checkpoint}` restores what can be restored, and names the rest"
            );
        }
        format!("{what}; `decree rollback {checkpoint}` restores the state before the command")
    }
}

impl ActiveGuard {
    /// The rollback failed. A rename needs no space; the reason may, and is left out then.
    fn mark_failed(self, layout: &Layout, checkpoint: &CheckpointDir, command: &str, error: &Error) {
        let path = layout.guard_failed();
        let _ = fs::rename(&self.0, &path);
        let failure = Some(Redactor::of_this_process().redact(&error.to_string()).into_owned());
        let (checkpoint, command) = (checkpoint.id().to_owned(), command.to_owned());
        let content_lost = error.is(FailureReason::ContentLost);
        let record = GuardRecord { checkpoint, command, failure, has_failed: true, content_lost };
        let _ = json::write_pretty(&path, &record);
    }

    /// The command's work is kept or rolled back.
    pub fn clear(self) {
        let _ = fs::remove_file(&self.0);
    }
}
