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
mod contents_report;
mod create;
pub mod gc;
mod guard;
pub mod kind;
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
mod since;
mod writer;

pub use contents_report::{ContentsReport, confidence};
pub use create::create;
pub use guard::{Guard, GuardRecord, GuardRequest};
pub use kind::state::recover_rollback;
pub use kind::tree::save_once as save_tree_once;
pub use kind::verify;
pub use lookup::{RunOrCheckpoint, find, find_tree, find_unique, list, run_ids, runs_of_chain};
pub use payload::{CheckpointKind, CheckpointPayload, SavedDatabase};
pub use record::CheckpointRecord;
pub use recover::{TreeRecovery, recover_tree};
pub use remove::remove;
pub use rollback::rollback;
pub use rollback_report::{Operation, RollbackOptions, RollbackReport};
pub use run_dir::RunDir;
pub use scope::{Scope, ScopeWords};
pub use since::{revert_since, write_diff_since};
pub use writer::{CheckpointLabel, SavedCheckpoint};

use crate::checkpoint::progress::Progress;
use crate::checkpoint::workspace::Workspace;
use crate::project::{Config, Layout};

/// What every operation on checkpoints needs.
#[derive(Clone, Copy)]
pub struct HistoryContext<'s> {
    pub layout: &'s Layout,
    pub config: &'s Config,
    pub workspace: &'s Workspace,
    pub progress: &'s dyn Progress,
}
