//! Walking the tree: which paths are in scope, and what `stat` says of them.
//!
//! A walk enters directories in parallel, each as soon as its parent is done, and reads no file
//! content except ignore files and possible keys. With a *baseline* (a checkpoint to compare with)
//! it applies the rules of the checkpoint as well as the current ones:
//!
//! - what the checkpoint holds is always in scope, even if the ignore files have changed;
//! - a new path is in scope only if both sets of rules show it;
//! - a new path that only one set of rules shows, or that is in a new directory, is reported as
//!   [`Walk::out_of_scope`]: a revert moves it to the quarantine and never deletes it.

mod collect;
mod entry_path;
mod inspect;
mod listing;
mod pruned;
mod result;
mod scope;
mod walker;

pub use inspect::{Baseline, WalkInput};
pub use result::{Item, ItemKind, UncachedEntry, Walk, WalkedDir};
