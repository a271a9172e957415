//! Taking a tree from one side of a diff to the other: all of it, or nothing.
//!
//! 1. [`plan`]: every path has to be as the diff has it on the side we come from; whatever is not is a
//!    conflict, and nothing is touched.
//! 2. [`stage`]: every file is rebuilt beside the tree and checked against its hash.
//! 3. [`transaction`]: a journal is written; then what is replaced moves out, what was staged moves in.
//!    A killed process leaves the journal, from which the next one finishes or undoes the move.
//!    What something else puts in the way meanwhile is set aside ([`concurrent_writes`]).
//! 4. [`super::disk_node`]: every path is read back and checked.

mod concurrent_writes;
mod journal;
mod plan;
mod stage;
mod transaction;

pub use plan::{RestoreOutcome, RestoreReport, RestoreRequest};
pub use transaction::{RecoveredRestore, recover};
