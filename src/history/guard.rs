//! A command that runs with a checkpoint as its way back: checkpoint, run, judge, repair decree's own files, roll back.
//!
//! The command may do anything to `.decree/`, where the checkpoint is. So what the rollback needs is held open or in memory from before
//! the command starts. `guarding.json` names the checkpoint until the tree is kept or rolled back; if decree is killed in between, the
//! next one reports it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::HistoryContext;
use super::kind::tree;
use super::lookup::RunOrCheckpoint;
use super::own_files::{OwnFiles, ProtectedDir, RepairReport};
use super::record::CheckpointRecord;
use super::rollback::rollback;
use super::rollback_report::{RollbackOptions, RollbackReport};
use super::run_dir::RunDir;
use super::scope::Scope;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, IoContext, Result};
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
    pub lifetime: Option<Duration>,
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
    active: ActiveGuard,
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
    /// `None` if the work of the command is kept.
    pub rollback: Option<Result<RollbackReport>>,
}

impl<'g> Guard<'g> {
    /// Makes the checkpoint. The caller holds the project's lock.
    pub fn begin(context: HistoryContext<'g>, request: GuardRequest<'g>) -> Result<Guard<'g>> {
        let words = shell_words::join(request.command.iter().map(|word| word.to_string_lossy()));
        let shown = shown(&words);
        let label = CheckpointLabel {
            reason: Some(request.reason.clone().unwrap_or_else(|| format!("before `{shown}`"))),
            lifetime: request.lifetime,
        };
        let (saved, manifest) = tree::save(context, &label, &request.scope)?;
        let warnings = tree::warnings(context.workspace.root(), &manifest, &request.scope);
        context.workspace.store().hold()?;
        let record =
            GuardRecord { checkpoint: saved.record.id.clone(), command: shown.clone(), has_failed: false };
        let active = record.begin(context.layout)?;
        let own_files = match hold_own_files(context.layout, &saved.dir) {
            Ok(own_files) => own_files,
            Err(error) => {
                active.clear();
                return Err(error);
            }
        };
        Ok(Guard { context, request, shown, saved, manifest, warnings, own_files, active })
    }

    /// Runs the command, then the one that verifies it.
    pub fn run(&self) -> CommandEnd {
        let attend_in = |command: &mut Command| {
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
        let Guard { context, shown, saved, manifest, mut own_files, active, .. } = self;
        let checkpoint = saved.dir;
        let has_failed = end.code != 0 || interrupted.is_some();
        // A command that is kept may have changed settings and the tracker on purpose.
        let repair =
            if has_failed { own_files.repair_with_settings() } else { own_files.repair_except_tracker() };
        let (repair, repair_error) = match repair {
            Ok(report) => {
                let error = repair_content(context, &checkpoint, &manifest, &report).err();
                (report, error)
            }
            Err(error) => (RepairReport::default(), Some(error)),
        };
        let cause = if interrupted.is_some() { format!("`{shown}` was interrupted") } else { end.cause };
        // The manifest may be large, and the rollback reads it again.
        drop(manifest);
        let rollback = has_failed.then(|| {
            // The scope is the one that the checkpoint was made for.
            let mut options = RollbackOptions::with_reason(Some(cause.clone()));
            options.even_expired = true;
            rollback(context, &RunOrCheckpoint::Checkpoint(checkpoint.clone()), &options)
        });
        if matches!(rollback, Some(Err(_))) {
            active.fail();
        } else {
            active.clear();
        }
        GuardOutcome { checkpoint, code: end.code, cause, interrupted, repair, repair_error, rollback }
    }
}

fn shown(command_line: &str) -> String {
    truncate(&one_line(&Redactor::of_this_process().redact(command_line)), MAX_SHOWN).to_owned()
}

fn hold_own_files(layout: &Layout, checkpoint: &CheckpointDir) -> Result<OwnFiles> {
    let (dir, reserved) = (checkpoint.dir(), vec![layout.audit(), layout.guarding()]);
    let mut records = vec![checkpoint.manifest_path(), dir.join(CheckpointRecord::FILE)];
    records.extend(reserved.iter().cloned());
    let protected = ProtectedDir {
        dir,
        set_aside: checkpoint.quarantine_dir(),
        records,
        is_record: &|path| path.starts_with(dir),
        reserved,
        reserved_unless_file: Vec::new(),
        run_records: &RunDir::RECORDS,
    };
    OwnFiles::hold(layout, protected)
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardRecord {
    pub checkpoint: String,
    pub command: String,
    /// Whether the command failed and the tree could not be rolled back; otherwise decree was killed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_failed: bool,
}

/// A guarded command that is running. Without a call to [`ActiveGuard::clear`] the next decree reports it as killed.
#[must_use]
pub struct ActiveGuard {
    path: PathBuf,
    record: GuardRecord,
}

impl GuardRecord {
    /// Writes the file before the command starts.
    pub fn begin(&self, layout: &Layout) -> Result<ActiveGuard> {
        let path = layout.guarding();
        json::write_pretty(&path, self)?;
        Ok(ActiveGuard { path, record: self.clone() })
    }

    /// The command that is running, or was when decree was killed.
    pub fn find(layout: &Layout) -> Result<Option<GuardRecord>> {
        let path = layout.guarding();
        let text = untrusted::read(&path).if_exists().at("read", &path)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// The command that was running when decree was killed, reported once. The caller holds the project's lock.
    pub fn take_interrupted(layout: &Layout) -> Result<Option<GuardRecord>> {
        let found = GuardRecord::find(layout)?;
        let _ = fs::remove_file(layout.guarding());
        Ok(found)
    }

    /// The warning about it, with the way back.
    pub fn warning(&self) -> String {
        if self.has_failed {
            return format!(
                "`{}` failed, and the tree could not be rolled back; `decree recover {}` restores what can be restored of the state before the command",
                one_line(&self.command),
                self.checkpoint
            );
        }
        format!(
            "decree was killed while it guarded `{}`; `decree rollback {}` restores the state before the command",
            one_line(&self.command),
            self.checkpoint
        )
    }
}

impl ActiveGuard {
    /// The command's work is kept or rolled back.
    pub fn clear(self) {
        let _ = fs::remove_file(&self.path);
    }

    /// The command failed, and the tree could not be rolled back.
    fn fail(self) {
        let _ = json::write_pretty(&self.path, &GuardRecord { has_failed: true, ..self.record });
    }
}
