//! Running git, for those parts of decree that need it: publishing, and checkpoints that git knows. Nothing else does.
//!
//! - [`Git`]: the one place that runs it: no hooks, no prompts, no tokens
//! - [`WorkTree`]: the repository that a project is in
//! - [`GitIndex`]: an index in a file of its own, in which trees are put together
//! - [`stash`]: the work tree and the index as a stash entry, without touching either
//!
//! What git is asked to read of a work tree goes through the filters that attributes and settings name, as with `git add`.

mod index;
mod run;
pub mod stash;
mod work_tree;

pub use index::{Differences, GitIndex, IndexChange, IndexEntry, changes, copy_index, joined};
pub use run::{Git, GitCall, GitOutput};
pub use work_tree::WorkTree;
