//! What a project remembers: its runs, the checkpoints that people and scripts make, and what was put back, by whom and why; and
//! how it forgets ([`gc`]).

pub mod audit;
pub mod gc;
mod lookup;
mod manifests;
mod record;
mod remove;
pub mod rollback;
mod scope;

pub use lookup::{Found, find, run_ids, runs_of_chain};
pub use record::{About, CheckpointRecord, create, list};
pub use remove::remove;
pub use scope::Scope;
