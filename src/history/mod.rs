//! What a project remembers: its runs, the checkpoints that people and scripts make, and what was put back, by whom and why; and
//! how it forgets.
//!
//! - [`fn@create`] makes a checkpoint, [`fn@verify`] checks one, [`fn@rollback`] goes back to one, [`fn@remove`] deletes one
//! - [`kind`]: what a checkpoint can be of, and how each kind does these
//! - [`CheckpointRecord`]: what is written down of one; [`find`]: from what people type to it
//! - [`gc`]: what has expired, and what nothing names any more
//! - [`audit`]: the trail

pub mod audit;
mod contents_report;
mod create;
pub mod gc;
mod guard_record;
pub mod kind;
mod lookup;
mod manifests;
mod record;
mod remove;
pub mod rollback;
mod scope;
mod verify;

pub use contents_report::{ContentsReport, confidence};
pub use create::{CheckpointPayload, CreatedCheckpoint, NewCheckpoint, create};
pub use guard_record::GuardRecord;
pub use kind::state::finish_cut_off;
pub use kind::{CheckpointKind, CheckpointTarget};
pub use lookup::{RunOrCheckpoint, find, find_tree, run_ids, runs_of_chain};
pub use record::{CheckpointRecord, list};
pub use remove::remove;
pub use rollback::{RollbackOptions, RollbackReport, rollback};
pub use scope::Scope;
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
