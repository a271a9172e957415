//! The sorted list of everything a checkpoint holds.
//!
//! A tree of a million files has to fit into memory beside whatever else is going on, so an entry has no
//! allocation of its own. Entries that follow each other and are in one directory are a *run* ([`packed`]): it names
//! the directory once, and has their names in one buffer.

mod build;
mod entry;
mod packed;

pub use build::TreeBuilder;
pub use entry::{Entry, combined_hash};
pub use packed::{Part, Tree};
