//! What a project remembers: its runs, and the checkpoints that people and scripts make.

mod lookup;
mod record;

pub use lookup::{Found, find, run_ids, runs_of_chain};
pub use record::{CheckpointRecord, create, list};
