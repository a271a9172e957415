//! What each type of checkpoint does to be saved, verified, restored and described:
//!
//! - [`tree`]: the tree, in decree's own store
//! - [`stash`]: the same, and an entry that plain git can restore
//! - [`state`]: decree's own queue and settings, and named values of the environment
//! - [`database`]: databases, each by its own means

pub mod database;
pub mod stash;
pub mod state;
pub mod tree;
