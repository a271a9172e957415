//! What a project remembers: its runs, the checkpoints that people and scripts make, and what was put back, by whom and why; and
//! how it forgets.
//!
//! - [`create`] makes a checkpoint, [`verify`] checks one, [`rollback`] goes back to one, [`remove`] deletes one
//! - [`kind`]: what a checkpoint can be of, and how each kind does these
//! - [`CheckpointRecord`]: what is written down of one; [`find`]: from what people type to it
//! - [`Guard`]: a command with a checkpoint as its way back; [`since`]: what changed since a checkpoint
//! - [`gc`]: what has expired, and what nothing names any more
//! - [`audit`]: the trail

pub mod audit;
mod contents_report;
mod create;
pub mod gc;
mod guard;
mod guard_record;
pub mod kind;
mod lookup;
mod manifests;
pub mod own_files;
mod record;
mod remove;
pub mod rollback;
mod scope;
mod since;
mod verify;

pub use contents_report::{ContentsReport, confidence};
pub use create::{CheckpointPayload, CreatedCheckpoint, NewCheckpoint, create};
pub use guard::{CommandEnd, Guard, GuardOutcome, GuardRequest};
pub use guard_record::GuardRecord;
pub use kind::state::finish_cut_off;
pub use kind::{CheckpointKind, CheckpointTarget};
pub use lookup::{RunOrCheckpoint, find, find_tree, run_ids, runs_of_chain};
pub use record::{CheckpointRecord, list};
pub use remove::remove;
pub use rollback::{RollbackOptions, RollbackReport, rollback};
pub use scope::Scope;
pub use since::{revert_since, write_diff_since};
pub use verify::verify;

use crate::checkpoint::progress::Progress;
use crate::checkpoint::workspace::Workspace;
use crate::project::{Config, Layout};

/// Where all of this happens.
#[derive(Clone, Copy)]
pub struct HistoryContext<'s> {
    /// What is where.
    pub layout: &'s Layout,
    /// The settings.
    pub config: &'s Config,
    /// The tree.
    pub workspace: &'s Workspace,
    /// Who hears how far it is.
    pub progress: &'s dyn Progress,
}
