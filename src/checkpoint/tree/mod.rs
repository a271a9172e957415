//! The sorted list of everything a checkpoint holds.
//!
//! A tree of a million files has to fit into memory, so an entry has no allocation. Consecutive entries of one
//! directory form a *chunk* ([`packed`]), which has the directory's path once and all names in one buffer.

mod build;
mod cursor;
mod digest;
mod packed;

pub use build::TreeBuilder;
pub use cursor::Cursor;
pub use digest::combined_hash;
pub use packed::{Entry, Part, Tree};
