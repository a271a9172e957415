//! What no checkpoint holds and a revert needs all the same, held while a routine or a guarded command runs.
//!
//! - `secrets`: the content of likely secrets, in memory and never on decree's disk
//! - `entries`: the `.git` of repositories and the ignored entries in the root, held open, so that one that is renamed can be moved back
//! - `git_dirs`: the inside of `.git` directories: settings and hooks in memory, objects as hard links
//! - `nested`: HEAD, index and refs of repositories below the project's own
//! - `held_file`: one small file as it was
//! - `state`: both together, and what to report about them
//! - `guarded`: the same around a guarded command
//! - `leftovers`: what a killed decree left of restoring likely secrets
//!
//! After `kill -9` nothing of this is left but the objects: then the next decree can only report what else is missing.

mod entries;
mod git_dirs;
mod guarded;
mod held_file;
mod leftovers;
mod nested;
mod secrets;
mod state;

pub use entries::LostRepository;
pub use git_dirs::restore_left_objects;
pub use guarded::GuardedUncaptured;
pub use leftovers::collect_leftovers;
pub use secrets::{SecretChange, SecretFate};
pub use state::{HeldForRun, NotRestored, UncapturedReport, UncapturedState};
