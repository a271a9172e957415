//! Taking a tree from one side of a diff to the other: all of it, or nothing.
//!
//! 1. [`plan`]: every path has to be what the diff says on the side that the restore starts from; any other path is a
//!    conflict, and then nothing is touched.
//! 2. [`stage`]: every file is rebuilt beside the tree, checked against its hash, and given its [`attributes`].
//! 3. [`transaction`]: a journal is written; then the files that are replaced move out of the tree, and the staged ones move in.
//!    A killed process leaves the journal, from which the next one finishes or undoes the restore.
//!    What other processes put in the way moves to quarantine ([`concurrent_writes`]).
//! 4. Every path is read back and verified. Then the restore is logged, and the journal removed.
//!
//! [`preview`] only says what a restore would do.

mod attributes;
mod concurrent_writes;
mod dirs;
mod in_place;
mod journal;
mod plan;
mod preview;
mod report;
mod stage;
mod transaction;
mod transaction_dir;

pub use journal::RestoreAction;
pub use plan::{RestoreOutcome, RestoreRequest};
pub use preview::{Obstacle, ObstacleKind, PathEffect, PreviewedTree, RestorePreview};
pub use report::{FinishedRestore, RecoveredRestore, RestoreLog, RestoreReport};
pub use transaction::{is_recovery_needed, recover};
