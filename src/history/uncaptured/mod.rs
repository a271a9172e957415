//! What no checkpoint holds and a revert needs all the same, held while a routine or a guarded command runs.
//!
//! - `secrets`: the content of likely secrets, in memory and never on decree's disk
//! - `dir_modes`: the modes of ignored directories, and of those above likely secrets
//! - `entries`: the `.git` of repositories and the ignored entries in the root, held open, so that one that is renamed can be moved back
//! - `git_dirs`: the inside of `.git` directories: settings and hooks in memory, objects as hard links
//! - `outputs`, `former_output`: files in the tree that decree's output is redirected to, and what they had before
//! - `git_inside`, `inside_kind`: one entry of such a directory, and what it is for
//! - `held_file`: one small file as it was
//! - `queue_record`: the tracker, and which letters there were, in the same file
//! - `held_record`, `recorded_git`, `recorded_entries`: `held.json`, for the decree after one that was killed
//! - `held_places`: entries and git directories together; `last_act`: restores them before a repeated signal ends decree
//! - `state`: all of it together; `report`: what became of it, and the texts for people
//! - `guarded`: the same around a guarded command
//! - `leftovers`: what a killed decree left of restoring likely secrets, and of git's objects
//!
//! After `kill -9` the objects and `held.json` are left: the next decree restores hooks, and names what else was changed or is missing.

mod dir_modes;
mod entries;
mod former_output;
mod git_damage;
mod git_dirs;
mod git_inside;
mod git_objects;
mod guarded;
mod held_file;
mod held_places;
mod held_record;
mod inside_kind;
mod last_act;
mod leftovers;
mod outputs;
mod queue_record;
mod recorded_entries;
mod recorded_git;
mod report;
mod secrets;
mod state;

pub use entries::LostRepository;
pub use guarded::GuardedUncaptured;
pub use leftovers::{collect_leftovers, forget_record, restore_active_record, restore_left_objects};
pub use recorded_entries::{has_missing_entries, move_left_entries};
pub use report::{NotRestored, UncapturedReport};
pub use secrets::{SecretChange, SecretFate};
pub use state::{HeldForRun, UncapturedState};
