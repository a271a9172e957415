//! Runs git, for the parts of decree that need it: publishing, checkpoints as stash entries, and restoring git's own state. Everything
//! else works without git.
//!
//! - [`Git`]: the only code that executes git: no hooks, no prompts, no tokens
//! - [`WorkTree`]: the repository that contains a project
//! - [`GitIndex`]: an index in a separate file, to build trees in
//! - [`stash`]: the work tree and the index as a stash entry, without touching either
//! - [`state`]: HEAD, refs and index at one moment, read without git, and restored with it
//!
//! Files that git reads from a work tree go through the filters in attributes and config, as with `git add`.

mod index;
mod run;
pub mod stash;
pub mod state;
mod work_tree;

pub use index::{
    Differences, GitIndex, INDEX_LOCK, IndexChange, IndexEntry, copy_index, lock_index, nul_separated,
    parse_changes,
};
pub use run::{Git, GitCall, GitOutput};
pub use work_tree::WorkTree;
