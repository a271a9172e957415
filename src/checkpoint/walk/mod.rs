//! Walking the tree: which paths are in scope, and what `stat` says of them.
//!
//! A walk goes down level by level, the directories of a level in parallel, and reads no file
//! content except ignore files and possible keys. With a *baseline* (a checkpoint to compare with)
//! it applies the rules in force then as well as those of now:
//!
//! - what the checkpoint holds is always in scope, whatever has become of the ignore files;
//! - something new is in scope only if both sets of rules show it;
//! - something new that is out of scope but was put where the checkpoint had nothing to say is *beside*
//!   the scope ([`Walk::beside`]): a revert moves such things away, it never deletes them.

mod dir_outcome;
mod listing;
mod result;
mod scope;
mod walker;

pub use result::{Item, ItemKind, Name, UncachedEntry, Walk, WalkedDir};
pub use walker::{Baseline, Walker};
