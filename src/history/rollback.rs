//! Back to a checkpoint. What is there is saved first, so that this can be undone as well.
//!
//! 1. The checkpoint has to be whole and not expired.
//! 2. What differs within the scope is found out; nothing else is ever touched.
//! 3. The present is saved as a checkpoint of the same kind.
//! 4. What differs is put back.
//! 5. The scope is compared with the checkpoint once more, and has to have its hash.
//! 6. A line in the audit trail says so.

use std::cell::RefCell;
use std::path::PathBuf;

use super::HistoryContext;
use super::audit::{self, AuditAction, AuditEntry};
use super::create::{CreatedCheckpoint, NewCheckpoint, create};
use super::kind::{CheckpointKind, CheckpointTarget, database, stash, state, tree};
use super::lookup::RunOrCheckpoint;
use super::record::CheckpointRecord;
use crate::error::{Error, Result};

/// What somebody wants back.
#[derive(Clone, Debug)]
pub struct RollbackOptions {
    /// Which part; what the checkpoint was made for, if it does not say.
    pub aim: Option<CheckpointTarget>,
    /// Why.
    pub reason: Option<String>,
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Compare everything once more when it is done.
    pub verify: bool,
    /// Whoever asks takes over the environment, too.
    pub takes_environment: bool,
    /// Also if the checkpoint has expired: whoever made it is still at what it was made for.
    pub even_expired: bool,
    /// The checkpoint of the present, as soon as there is one: from then on something may have been changed.
    pub(super) began: RefCell<Option<String>>,
}

impl RollbackOptions {
    /// All of it, for this reason.
    pub fn because(reason: Option<String>) -> RollbackOptions {
        RollbackOptions {
            aim: None,
            reason,
            dry_run: false,
            verify: true,
            takes_environment: false,
            even_expired: false,
            began: RefCell::default(),
        }
    }
}

/// What had been done, and is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It appeared since.
    Create,
    /// It was changed.
    Modify,
    /// It was deleted.
    Delete,
}

impl Operation {
    /// As answers have it.
    pub fn word(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Modify => "modify",
            Operation::Delete => "delete",
        }
    }

    /// What is done about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Operation::Create => "remove",
            Operation::Modify => "put back",
            Operation::Delete => "restore",
        }
    }

    /// From what was there and what is there.
    pub(super) fn between<T>(before: Option<T>, after: Option<T>) -> Operation {
        match (before, after) {
            (None, _) => Operation::Create,
            (_, None) => Operation::Delete,
            _ => Operation::Modify,
        }
    }
}

/// One thing that differed.
#[derive(Clone, Debug)]
pub struct RolledBackPath {
    /// Its path, or its name.
    pub what: String,
    /// What had been done to it.
    pub operation: Operation,
    /// In words.
    pub summary: String,
}

/// What came of it.
#[derive(Debug)]
pub struct RollbackReport {
    /// By which means it was saved.
    pub kind: CheckpointKind,
    /// When the checkpoint was made, if it says so: that of a run does not.
    pub created_at: Option<String>,
    /// What differed, and does not any more.
    pub undone: Vec<RolledBackPath>,
    /// What was moved away, and where to.
    pub set_aside: Vec<(String, PathBuf)>,
    /// The checkpoint that holds what was there before; none if nothing differed, or nothing was done.
    pub saved: Option<String>,
    /// Of the scope, before.
    pub before: String,
    /// Of the scope, now; unknown if nobody wanted to know.
    pub after: Option<String>,
    /// Of the scope, in the checkpoint.
    pub wanted: String,
    /// How many things the checkpoint holds within the scope.
    pub held: usize,
    /// What decree could not put back, and who can.
    pub warnings: Vec<String>,
    /// What is within the scope, and was never held.
    pub left_out: Vec<String>,
    /// Lines that give a shell the values that its environment had.
    pub exports: String,
    /// Files that prove it.
    pub evidence: Vec<String>,
}

impl RollbackReport {
    /// Nothing done yet.
    pub(super) fn new(kind: CheckpointKind, before: String, wanted: String, held: usize) -> RollbackReport {
        RollbackReport {
            kind,
            created_at: None,
            undone: Vec::new(),
            set_aside: Vec::new(),
            saved: None,
            after: Some(before.clone()),
            before,
            wanted,
            held,
            warnings: Vec::new(),
            left_out: Vec::new(),
            exports: String::new(),
            evidence: Vec::new(),
        }
    }

    /// Whether everything is as the checkpoint has it, and that was seen.
    pub fn is_proven(&self) -> bool {
        self.after.as_ref() == Some(&self.wanted)
    }
}

/// Puts back what `found` holds. Who calls this holds the project's lock.
pub fn rollback(
    site: HistoryContext<'_>,
    found: &RunOrCheckpoint,
    wish: &RollbackOptions,
) -> Result<RollbackReport> {
    let saved = found.saved();
    let record = match found {
        RunOrCheckpoint::Checkpoint(saved) => Some(CheckpointRecord::read(saved.dir())?),
        RunOrCheckpoint::Run(_) => None,
    };
    if let Some(record) = record.as_ref().filter(|record| record.is_expired() && !wish.even_expired) {
        let when = record.expiry.as_deref().unwrap_or_default();
        let error = Error::project(format!("checkpoint {} has expired on {when}", record.id))
            .detail("nothing was touched");
        return Err(match record.kind.holds_tree() {
            true => error.hint(format!("if you want it all the same: `decree revert {}`", record.id)),
            false => error.hint("`decree checkpoint list` tells which are still good"),
        });
    }
    // Whoever says nothing means what the checkpoint was made for.
    let aim = match (&wish.aim, &record) {
        (Some(aim), _) => aim.clone(),
        (None, Some(record)) => CheckpointTarget::stored(record)?,
        (None, None) => CheckpointTarget::default(),
    };
    let outcome = match &aim {
        CheckpointTarget::Tree(scope) => tree::rollback(site, saved, record.as_ref(), scope, wish, None),
        CheckpointTarget::Stash(scope) => stash::rollback(site, saved, record.as_ref(), scope, wish),
        CheckpointTarget::State(keys) => state::rollback(site, saved, record.as_ref(), keys, wish),
        CheckpointTarget::Databases { targets, .. } => {
            database::rollback(site, saved, record.as_ref(), targets, wish)
        }
    };
    let mut done = outcome.inspect_err(|error| {
        // Whatever became of it: it was begun, and the trail says so.
        if let Some(present) = wish.began.take() {
            let reason = Some(format!("not finished: {error}"));
            let deed = AuditEntry {
                reason,
                saved: Some(present),
                ..AuditEntry::new(AuditAction::Rollback, saved.id(), 0)
            };
            let _ = audit::record(&site.layout.audit(), deed);
        }
    })?;
    done.created_at = record.map(|record| record.created_at);
    if done.saved.is_some() {
        let deed = AuditEntry {
            reason: wish.reason.clone(),
            before: Some(format!("sha256:{}", done.before)),
            after: done.after.as_ref().map(|hash| format!("sha256:{hash}")),
            saved: done.saved.clone(),
            ..AuditEntry::new(AuditAction::Rollback, saved.id(), done.undone.len() as u64)
        };
        audit::record_done(&site.layout.audit(), deed)?;
    }
    Ok(done)
}

/// Saves what is there, before `id` takes its place.
pub(super) fn save_present(
    site: HistoryContext<'_>,
    aim: CheckpointTarget,
    id: &str,
    wish: &RollbackOptions,
) -> Result<CreatedCheckpoint> {
    let created = create(
        site,
        NewCheckpoint { aim, ..NewCheckpoint::because(format!("before the rollback to {id}")) },
    )?;
    *wish.began.borrow_mut() = Some(created.record.id.clone());
    Ok(created)
}

/// It was put back, and is not what it should be.
pub(super) fn not_the_same(id: &str, what: &str, differ: Vec<String>, present: &str) -> Error {
    Error::integrity(format!("{what} is not what {id} has, after it was put back"))
        .details(differ, 20)
        .detail("something else may be writing here")
        .hint(format!("what was there before is in {present}: `decree rollback {present}`"))
}
