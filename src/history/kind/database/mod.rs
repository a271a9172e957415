//! Databases, each by its own means: SQLite files, and those that the config has commands for. A savepoint is a directory with a
//! file for each of them.

mod rollback;
mod savepoint;

pub use rollback::restore;
pub use savepoint::{describe, save, verify};
