//! What a project remembers: its runs, the checkpoints that people and scripts make, and what was put back, by whom and why.

pub mod audit;
mod lookup;
mod record;
pub mod rollback;
mod scope;

pub use lookup::{Found, find, run_ids, runs_of_chain};
pub use record::{About, CheckpointRecord, create, list};
pub use scope::Scope;
