//! What git itself has at one moment: HEAD, the branch that it names, all refs, the stash list, the index, and operations in
//! progress; and putting HEAD, its branch and the index back.
//!
//! - [`GitDirs`]: where a repository keeps these, found without git
//! - [`GitSnapshot`]: reads them, without git except where the refs are in a format of their own
//! - [`RefTexts`], [`RefChange`]: the refs as text, and which of them differ
//! - [`ObjectLinks`]: objects, as a second name for each, and their contents
//! - [`create_refs`], [`restore_stash`], [`unnamed_commits`]: what was deleted, and commits that nothing names
//! - [`GitTarget`], [`restore()`]: moves HEAD and its branch back, keeps the commits that this leaves without a name, restores the index
//!
//! Nothing here touches the work tree, and no ref is moved whose value is not the expected one.

mod dirs;
mod held_objects;
mod index_file;
mod linked_store;
mod lost_refs;
mod object_check;
mod object_links;
mod refs;
mod restore;
mod snapshot;

pub use dirs::GitDirs;
pub use index_file::{INDEX, IndexFile, IndexSource};
pub use lost_refs::{
    RestoredStash, create_refs, dropped_entries, keep_commits, move_ref, restore_stash, unnamed_commits,
};
pub use object_links::{OBJECTS, ObjectLinks};
pub use refs::{Head, RefChange, RefTexts};
pub use restore::{GitTarget, KeptCommit, MAX_LISTED, commits_between, index_of_commit, restore};
pub use snapshot::{GitSnapshot, is_connected};
