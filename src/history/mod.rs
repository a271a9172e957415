//! What a project remembers: its runs, the checkpoints that users and scripts make, and the audit trail of everything that was
//! reverted, rolled back or deleted; and how it forgets.
//!
//! - [`fn@create`] makes a checkpoint, [`fn@verify`] checks one, [`fn@rollback`] goes back to one, [`fn@remove`] deletes one
//! - [`CheckpointRecord`] is `checkpoint.json`, [`CheckpointPayload`] what it says of the checkpoint's type; [`kind`] has the code of each type
//! - [`recover_tree`] goes back as far as a damaged store allows
//! - [`find`] resolves the id that a user typed
//! - [`Guard`] runs a command with a checkpoint as its way back; [`own_files`] are decree's own files, which no checkpoint of the tree holds
//! - [`gc`] deletes what has expired, and content that nothing names any more
//! - [`audit`] is the trail

pub mod audit;
mod beside_scope;
mod change_summary;
mod contents_report;
mod create;
mod deleted_databases;
mod failed_changes;
pub mod gc;
mod git_change;
mod git_compare;
mod git_names;
mod git_pending;
mod git_restore;
mod guard;
mod guard_record;
pub mod kind;
mod live_databases;
mod lookup;
mod manifests;
pub mod own_files;
mod payload;
mod record;
mod recover;
mod remove;
mod rollback;
mod rollback_report;
mod run_dir;
mod scope;
mod set_aside;
mod since;
mod store_location;
pub mod uncaptured;
mod unmatched;
mod writer;

pub use contents_report::{ContentsReport, confidence};
pub use create::{CompletedCheckpoint, create};
pub use deleted_databases::keep_deleted;
pub use failed_changes::{failed_guards, read_failed_changes};
pub use git_change::GitChange;
pub use git_compare::git_change_since;
pub use git_pending::{KeptRuns, PendingGitRestore, TriedOutcome};
pub use git_restore::GitRestore;
pub use guard::{Guard, GuardOutcome, GuardRequest};
pub use guard_record::{GuardRecord, SettledGuard};
pub use kind::state::recover_rollback;
pub use kind::tree::{save_present, save_present_once};
pub use kind::verify;
pub use live_databases::write_back;
pub use lookup::{
    RunOrCheckpoint, checkpoint_ids, find, find_tree, find_unique, list, run_ids, runs_of_chain,
};
pub use payload::{CheckpointKind, CheckpointPayload, SavedDatabase};
pub use record::CheckpointRecord;
pub use recover::{TreeRecovery, check_packs, recover_tree, restock};
pub use remove::{SetAsideRule, remove};
pub use rollback::rollback;
pub use rollback_report::{Operation, RollbackOptions, RollbackReport, RolledBackPath};
pub use run_dir::RunDir;
pub use scope::{Scope, ScopeWords};
pub use set_aside::{refuse_if_set_aside, set_aside_files};
pub use since::{RevertSince, WrittenDiff, find_recorded_change, revert_since, write_diff_since};
pub use store_location::{external_store, refuse_other_store, refuse_other_store_of};
pub use writer::{CheckpointLabel, Expiry};

use crate::checkpoint::progress::Progress;
use crate::checkpoint::restore::RestoreLog;
use crate::checkpoint::workspace::Workspace;
use crate::project::{Config, Layout};

/// What every operation on checkpoints needs.
#[derive(Clone, Copy)]
pub struct HistoryContext<'s> {
    pub layout: &'s Layout,
    pub config: &'s Config,
    pub workspace: &'s Workspace,
    pub progress: &'s dyn Progress,
    /// Records which runs leave the tree or come back with a restore, before that one's journal is removed.
    pub runs: Option<&'s dyn RestoreLog>,
}
