//! What a rollback is asked for, and what came of it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::audit::{self, AuditAction, AuditEntry};
use super::contents_report::confidence;
use super::payload::CheckpointKind;
use super::scope::{Scope, ScopeWords};
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::verify::Verification;
use crate::error::{Error, Result};
use crate::interrupt::Shield;

#[derive(Clone, Debug, Default)]
pub struct RollbackOptions {
    /// No words for what the checkpoint was made for.
    pub scope: ScopeWords,
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Compare everything with the checkpoint again at the end.
    pub verify: bool,
    /// The caller restores the environment from [`RollbackReport::exports`].
    pub takes_environment: bool,
    /// Roll back even if the checkpoint has expired: the command it was made for is still running.
    pub even_expired: bool,
    /// No user can stop the programs that have a database of the tree open: its content is written back through SQLite. Otherwise the
    /// rollback is refused.
    pub automatic: bool,
    /// The caller restores git's own state, so that a difference is not reported.
    pub restores_git: bool,
    /// Move likely secrets that are new to `set-aside/`: the command that made them is undone. Otherwise they stay where they are.
    pub moves_secrets: bool,
    /// The checkpoint of the present, once there is one: from then on something may have been changed.
    pub(super) present: RefCell<Option<String>>,
}

impl RollbackOptions {
    pub fn with_reason(reason: Option<String>) -> RollbackOptions {
        RollbackOptions { reason, verify: true, ..RollbackOptions::default() }
    }

    /// Notes the checkpoint of the present, for the audit trail of a rollback that fails.
    pub(super) fn note_present(&self, present: &SavedCheckpoint) {
        *self.present.borrow_mut() = Some(present.record.id.clone());
    }
}

/// What had happened to a path since the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Modify,
    Delete,
}

impl Operation {
    /// The word that answers use.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Modify => "modify",
            Operation::Delete => "delete",
        }
    }

    /// What the rollback does about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Operation::Create => "remove",
            Operation::Modify => "revert",
            Operation::Delete => "restore",
        }
    }

    /// From what the checkpoint has and what is there.
    pub(super) fn between<T>(before: Option<T>, after: Option<T>) -> Operation {
        match (before, after) {
            (None, _) => Operation::Create,
            (_, None) => Operation::Delete,
            _ => Operation::Modify,
        }
    }
}

/// One path, variable or database that differed.
#[derive(Clone, Debug)]
pub struct RolledBackPath {
    /// A path is spelled as in the manifest.
    pub name: String,
    pub operation: Operation,
    /// What had happened, and what the checkpoint has.
    pub summary: String,
}

impl RolledBackPath {
    /// The name for people: quoted if it is not safe to print.
    pub fn shown(&self) -> Cow<'_, str> {
        quote::json_for_people(&self.name)
    }
}

/// How many paths, variables or databases a rollback reverts, recreates and removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RollbackCounts {
    pub reverted: usize,
    pub recreated: usize,
    pub removed: usize,
}

#[derive(Debug, Default)]
pub struct RollbackReport {
    pub kind: CheckpointKind,
    /// The part of the tree that it is about.
    pub scope: Scope,
    /// When the checkpoint was made, or the run began; `None` if the run's result cannot be read.
    pub created_at: Option<String>,
    pub changes: Vec<RolledBackPath>,
    /// Paths that were staged differently in git's index.
    pub staged: Vec<RolledBackPath>,
    /// Those of the changes that are directories which were created since.
    pub created_dirs: Vec<String>,
    /// Files that were created since beside the scope, spelled as in the manifest. They are not touched.
    pub orphans: Vec<String>,
    /// What stood in the way, and where it was moved.
    pub set_aside: Vec<(String, PathBuf)>,
    /// The same of a rollback that is only reported.
    pub would_set_aside: Vec<String>,
    /// Likely secrets that are new since the checkpoint, and stay.
    pub secrets_left: Vec<String>,
    /// The checkpoint of what was there before; `None` if nothing differed, or nothing was done.
    pub present: Option<String>,
    /// The hash of the scope, before.
    pub before: String,
    /// The hash of the scope afterwards; `None` if it was not asked for.
    pub after: Option<String>,
    /// The hash of the scope in the checkpoint.
    pub wanted: String,
    /// How many things the checkpoint holds within the scope.
    pub held: usize,
    /// Paths whose owner or attributes could not be restored, and which. Everything else of them was.
    pub unrestored: Vec<(TreePath, Vec<String>)>,
    /// Variables of the environment that differ, as `env:NAME`: only the shell that calls decree can restore them.
    pub variables_left: Vec<String>,
    /// Whether variables of the environment are within the scope.
    pub has_environment: bool,
    /// What decree could not restore, and how the user can.
    pub warnings: Vec<String>,
    /// Of a dry run: why the rollback would be refused.
    pub refusal: Option<Error>,
    /// What a rollback does not touch, and is different from what it was at the checkpoint.
    pub untouched: Vec<String>,
    /// What is within the scope, but not in the checkpoint.
    pub left_out: Vec<String>,
    /// What has to be true for this type of checkpoint, because decree does not verify it itself.
    pub assumptions: Vec<String>,
    /// Shell commands that restore the environment.
    pub exports: String,
    /// The files that prove it.
    pub evidence: Vec<String>,
    /// Whether its audit entry could be written; `None` if that was not tried yet.
    pub(super) logged: Option<Result<()>>,
    /// Held as long as the report, once something was changed: a signal does not stop what the caller still does.
    pub(super) shield: Option<Shield>,
}

impl RollbackReport {
    pub(super) fn new(kind: CheckpointKind, before: String, wanted: String, held: usize) -> RollbackReport {
        let after = Some(before.clone());
        RollbackReport { kind, before, after, wanted, held, ..RollbackReport::default() }
    }

    /// How many paths, variables, databases and entries of git's index differed.
    pub fn changed(&self) -> usize {
        self.changes.len() + self.staged.len()
    }

    pub fn counts(&self) -> RollbackCounts {
        let mut counts = RollbackCounts::default();
        for change in self.changes.iter().chain(&self.staged) {
            match change.operation {
                Operation::Modify => counts.reverted += 1,
                Operation::Delete => counts.recreated += 1,
                Operation::Create => counts.removed += 1,
            }
        }
        counts
    }

    /// The audit entry of the rollback to `id`. It does not wait for the comparison at the end: a rollback whose hash is not that of the
    /// checkpoint then is an error.
    pub(super) fn audit_entry(&self, id: &str, present: &str, options: &RollbackOptions) -> AuditEntry {
        let hash = |hash: &String| format!("sha256:{hash}");
        AuditEntry {
            reason: options.reason.clone(),
            before: Some(hash(&self.before)),
            after: options.verify.then(|| hash(&self.wanted)),
            saved: Some(present.to_owned()),
            ..AuditEntry::new(AuditAction::Rollback, id, self.changed() as u64)
        }
    }

    /// Writes the audit entry before anything is changed, where no journal outlives a kill: an entry of a rollback that was not finished
    /// is better than a rollback without one. If it cannot be written now, it is tried again at the end.
    pub(super) fn log_first(&mut self, audit_log: &Path, id: &str, present: &str, options: &RollbackOptions) {
        self.logged = audit::record(audit_log, self.audit_entry(id, present, options)).ok().map(Ok);
    }

    /// Whether a comparison showed that everything is as the checkpoint has it.
    pub fn is_proven(&self) -> bool {
        self.after.as_ref() == Some(&self.wanted)
    }

    /// Whether everything that the checkpoint holds within the scope is restored, as far as that was compared.
    pub fn is_complete(&self) -> bool {
        self.lost() == 0 && (self.is_proven() || self.after.is_none())
    }

    /// Whether a path lacks an owner or attributes that the checkpoint has.
    pub(super) fn is_unrestored(&self, path: &TreePath) -> bool {
        self.unrestored.iter().any(|(lost, _)| lost == path)
    }

    /// How many things are known to be other than the checkpoint has them.
    fn lost(&self) -> usize {
        self.unrestored.len() + self.variables_left.len()
    }

    /// The error of a rollback after which something is known to be other than the checkpoint `id` has it.
    pub fn loss_error(&self, id: &str) -> Option<Error> {
        let owners = self.unrestored.iter().map(|(path, lost)| format!("{path}: its {}", lost.join(", ")));
        let variables = self.variables_left.iter().map(|name| format!("{name}: its value"));
        let lost: Vec<String> = owners.chain(variables).collect();
        (!lost.is_empty()).then(|| {
            let what = if self.unrestored.is_empty() {
                "the environment: only the shell that calls decree can set its variables"
            } else {
                "every owner and attribute: everything else is"
            };
            let error =
                Error::integrity(format!("the rollback to {id} did not restore {what}")).details(lost, 20);
            if self.unrestored.is_empty() {
                return error;
            }
            error.hint(format!(
                "only root can restore owners and some attributes: run `decree rollback {id}` as root"
            ))
        })
    }

    /// 1 only if everything was verified, and nothing was left out, left beside the scope or left to the user.
    pub fn confidence(&self) -> f64 {
        let lost = self.lost();
        if !self.is_proven() && self.after.is_some() && lost == 0 {
            return 0.0;
        }
        let verified = if self.after.is_some() { Verification::ReadBack } else { Verification::Unverified };
        let seen = confidence(self.held.saturating_sub(lost), self.left_out.len() + lost, verified);
        let seen = if self.orphans.is_empty() { seen } else { seen.min(0.95) };
        if self.warnings.is_empty() { seen } else { seen.min(0.9) }
    }
}

/// The label of the checkpoint of the present, which a rollback to `id` makes first.
pub(super) fn present_label(id: &str) -> CheckpointLabel {
    CheckpointLabel::with_reason(format!("before the rollback to {id}"))
}

/// The error for something that is not what the checkpoint has although it was restored.
pub fn not_restored(id: &str, what: &str, differ: Vec<String>, present: &str) -> Error {
    Error::integrity(format!("{what} does not match {id} after the rollback"))
        .details(differ, 20)
        .detail("another process may be writing to it")
        .hint(format!("the previous state is saved: `decree rollback {present}` restores it"))
}
