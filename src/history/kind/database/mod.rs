//! Databases, each by its own means: SQLite files, and those that the config has commands for. A savepoint is a directory with a
//! file for each of them.

mod rollback;
mod savepoint;
mod target;

pub use rollback::rollback;
pub use savepoint::{DatabaseState, SavedDatabase, Savepoint, fill, left_over, verify};
pub use target::{DatabaseTarget, DatabaseTargets};
