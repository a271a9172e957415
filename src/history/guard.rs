//! A command that runs with a checkpoint as its way back: checkpoint, run, judge, repair decree's own files, roll back.
//!
//! The command may do anything to `.decree/`, where the checkpoint is. So what the rollback needs is held open or in memory from before
//! the command starts. `guarding.json` names the checkpoint until the tree is kept or rolled back; if decree is killed in between, the
//! next one reports it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::HistoryContext;
use super::git_change::GitChange;
use super::git_restore::OPERATIONS_DIR;
use super::guard_record::{ActiveGuard, GuardRecord, restore_git};
use super::kind::{tree, tree_report};
use super::lookup::RunOrCheckpoint;
use super::own_files::{LastingFiles, OwnFiles, ProtectedDir, RepairReport};
use super::record::CheckpointRecord;
use super::rollback::rollback;
use super::rollback_report::{RollbackOptions, RollbackReport};
use super::run_dir::RunDir;
use super::scope::Scope;
use super::uncaptured::{GuardedUncaptured, LostRepository, UncapturedState, forget_record};
use super::writer::{CheckpointLabel, Expiry, SavedCheckpoint};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::coverage::WayBack;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
use crate::interrupt;
use crate::message::{Inbox, SecondNames};
use crate::process::foreground::run_in_foreground;
use crate::process::marked::MARK_VARIABLE;
use crate::process::redact::Redactor;
use crate::process::{ProcessMark, STRICT_BASH};
use crate::project::{Layout, Lock};
use crate::sanitize::{one_line, truncate};

/// Names the checkpoint in the environment of both commands.
const CHECKPOINT: &str = "DECREE_CHECKPOINT";
/// The exit codes of a command that could not be started, as in a shell: there is none, or it cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// How much of a command line messages repeat.
const MAX_SHOWN: usize = 200;

/// What to run, and under which conditions its work is kept.
pub struct GuardRequest<'g> {
    /// A program and its arguments.
    pub command: &'g [OsString],
    /// A shell command that has to succeed afterwards.
    pub verify: Option<&'g str>,
    pub directory: &'g Path,
    /// The project's lock, whose file the command may delete.
    pub lock: &'g Lock,
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
    /// By it the next decree finds the processes of the command, if this one is killed.
    mark: ProcessMark,
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

    /// The files within the scope, as the manifest spells them.
    pub fn file_names(&self) -> Vec<String> {
        tree_report::file_names(&self.manifest, &self.request.scope)
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
    /// How git's own state differed at the rollback, and what was done about it: each repository.
    pub git: Vec<GitChange>,
    /// What became of likely secrets, repositories and ignored entries.
    pub uncaptured: GuardedUncaptured,
}

impl<'g> Guard<'g> {
    /// Makes the checkpoint.
    pub fn begin(context: HistoryContext<'g>, request: GuardRequest<'g>) -> Result<Guard<'g>> {
        let words = shell_words::join(request.command.iter().map(|word| word.to_string_lossy()));
        let shown = shown(&words);
        let label = CheckpointLabel {
            reason: Some(request.reason.clone().unwrap_or_else(|| format!("before `{shown}`"))),
            expiry: request.expiry,
        };
        let (saved, manifest) = tree::save(context, &label, &request.scope)?;
        let (layout, workspace) = (context.layout, context.workspace);
        let way_back = WayBack::Automatic;
        let mut warnings = tree_report::warnings(workspace.root(), &manifest, &request.scope, way_back);
        let mark = ProcessMark::random();
        let active = GuardRecord::new(&saved.record.id, &shown, &mark).begin(layout)?;
        let letters = SecondNames::letters(layout);
        let held =
            UncapturedState::hold(layout, workspace, &manifest, &saved.record.id, letters).and_then(|held| {
                workspace.store().hold()?;
                SecondNames::update_all(layout, &Inbox::of(layout).files()?);
                Ok((held, hold_own_files(layout, &saved.dir)?))
            });
        let (uncaptured, own_files) = match held {
            Ok(held) => held,
            Err(error) => {
                forget_record(layout);
                active.clear();
                return Err(error);
            }
        };
        warnings.extend(uncaptured.warnings());
        let scope = request.scope.clone();
        let root = context.workspace.root();
        let left = (mark.clone(), context.layout.guarding());
        uncaptured.restore_at_exit(root, saved.dir.quarantine_dir(), left, move |path| scope.covers(path));
        // The second Ctrl-C ends the command at once, and the tree is rolled back all the same.
        interrupt::wait_for_a_third();
        interrupt::set_last_words(Some(format!(
            "the tree is NOT rolled back: `decree rollback {}` restores the state before the command",
            saved.record.id
        )));
        Ok(Guard { context, request, shown, mark, saved, manifest, warnings, own_files, uncaptured, active })
    }

    /// Runs the command, then the one that verifies it.
    pub fn run(&self) -> CommandEnd {
        let attend_in = |command: &mut Command| {
            if self.request.answers {
                command.stdout(Stdio::from(io::stderr()));
            }
            command.current_dir(self.request.directory);
            command.env(CHECKPOINT, &self.saved.record.id).env(MARK_VARIABLE, self.mark.as_str());
            run_in_foreground(command)
        };
        let (shown_command, words) = (&self.shown, self.request.command);
        let code = match attend_in(Command::new(&words[0]).args(&words[1..])) {
            Ok(code) => code,
            Err(error) => {
                let code = code_of(&words[0], &error);
                let error = Error::failed(format!("cannot run `{shown_command}`")).caused_by(error);
                let is_line = words.len() == 1 && words[0].to_string_lossy().contains(' ');
                let hint = format!("for a shell command line: `decree guard -- sh -c {shown_command}`");
                return CommandEnd {
                    code,
                    cause: format!("`{shown_command}` failed with {code}"),
                    error: Some(if is_line { error.hint(hint) } else { error }),
                };
            }
        };
        let Some(verify) = self.request.verify.filter(|_| code == 0 && interrupt::requested().is_none())
        else {
            return CommandEnd { code, cause: format!("`{shown_command}` failed with {code}"), error: None };
        };
        let (code, error) = match attend_in(Command::new("bash").args(STRICT_BASH).arg(verify)) {
            Ok(code) => (code, None),
            Err(error) => (
                code_of(OsStr::new("bash"), &error),
                Some(Error::failed("cannot run bash for --verify").caused_by(error)),
            ),
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
        if !has_failed {
            interrupt::set_last_act(None);
        }
        let is_untouched = context.workspace.store().is_untouched();
        let (repair, repair_error) =
            repair(context, &mut own_files, request.lock, &checkpoint, &manifest, has_failed);
        let cause = if interrupted.is_some() { format!("`{shown}` was interrupted") } else { end.cause };
        let git_before: Vec<GitRecord> = manifest.git_records().cloned().collect();
        let set_aside = checkpoint.quarantine_dir();
        let scope = request.scope;
        let mut uncaptured =
            GuardedUncaptured::look(context, uncaptured, &manifest, has_failed, &set_aside, &scope);
        // A command that is kept is promised a rollback only if that is possible.
        let no_way_back = match &repair_error {
            _ if has_failed => None,
            Some(_) => Some(Error::integrity("its way back could not be repaired")),
            None if is_untouched => None,
            None => checkpoint.verify(context.workspace.store(), &manifest).err(),
        };
        // The manifest may be large, and the rollback reads it again.
        drop(manifest);
        let rollback = has_failed.then(|| roll_back(context, &checkpoint, &cause));
        // git can only work in a repository that is whole.
        if let Some(rollback) = &rollback {
            let moved = rollback.as_ref().map_or(&[][..], |report| &report.set_aside);
            uncaptured.restore(context, &set_aside, &scope, moved);
            interrupt::set_last_act(None);
        }
        uncaptured.release();
        let git = match &rollback {
            Some(Ok(_)) => restore_git(context, &checkpoint, &shown, &git_before, &mut uncaptured.warnings),
            _ => Vec::new(),
        };
        match &rollback {
            Some(Err(error)) => active.mark_failed(context.layout, &checkpoint, &shown, error),
            Some(Ok(_)) | None => {
                // First: it has a copy of the guard's record.
                forget_record(context.layout);
                active.clear();
                let words = "the tree is rolled back, or kept if the command succeeded";
                interrupt::set_last_words(Some(words.to_owned()));
            }
        }
        GuardOutcome {
            checkpoint,
            code: end.code,
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

/// The exit code of a shell for a program that could not be started. A name that is in no directory of `PATH` is not found, although the
/// system says "permission denied" if one of them cannot be searched.
fn code_of(program: &OsStr, error: &io::Error) -> u8 {
    let is_in_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        program.as_encoded_bytes().contains(&b'/')
            || std::env::split_paths(&path).any(|dir| dir.join(program).symlink_metadata().is_ok())
    };
    if error.kind() != io::ErrorKind::NotFound && is_in_path() { NOT_EXECUTABLE } else { NOT_FOUND }
}

fn shown(command_line: &str) -> String {
    truncate(&one_line(&Redactor::of_this_process().redact(command_line)), MAX_SHOWN).to_owned()
}

fn hold_own_files(layout: &Layout, checkpoint: &CheckpointDir) -> Result<OwnFiles> {
    let dir = checkpoint.dir();
    let reserved = vec![
        layout.audit(),
        layout.guarding(),
        layout.guard_failed(),
        layout.pending(),
        layout.git_pending(),
        layout.held(),
    ];
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
    };
    OwnFiles::hold(layout, protected, LastingFiles::new(layout, &RunDir::RECORDS))
}

/// Rolls back the scope that the checkpoint was made for.
fn roll_back(context: HistoryContext<'_>, checkpoint: &CheckpointDir, cause: &str) -> Result<RollbackReport> {
    let mut options = RollbackOptions::with_reason(Some(cause.to_owned()));
    (options.even_expired, options.automatic) = (true, true);
    (options.restores_git, options.moves_secrets) = (true, true);
    rollback(context, &RunOrCheckpoint::Checkpoint(checkpoint.clone()), &options)
}

/// Repairs decree's own files and the store. A command that is kept may have changed settings and the tracker on purpose.
fn repair(
    context: HistoryContext<'_>,
    own_files: &mut OwnFiles,
    lock: &Lock,
    checkpoint: &CheckpointDir,
    manifest: &Manifest,
    has_failed: bool,
) -> (RepairReport, Option<Error>) {
    let repaired =
        if has_failed { own_files.repair_with_settings() } else { own_files.repair_except_tracker() };
    // The directory of the project may be another one from now on.
    let root = context.workspace.root();
    let followed = root.follow_path().at("open", root.path());
    match repaired.and_then(|report| followed.map(|()| report)) {
        Ok(report) => {
            let content = repair_content(context, checkpoint, manifest, &report);
            let error = lock.renew().and(content).err();
            (report, error)
        }
        Err(error) => (RepairReport::default(), Some(error)),
    }
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
    if report.spoiled.contains(&path) { context.workspace.write_manifest(manifest, &path) } else { Ok(()) }
}
