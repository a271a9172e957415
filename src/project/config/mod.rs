//! `.decree/config.yml`: every setting, its default, and what is wrong with a file that cannot be taken.
//!
//! [`settings`] has the types and defaults, [`keys`] the one table of keys, [`read`] goes through a file by that table,
//! [`databases`] through the one section whose names are the user's own.

mod databases;
mod keys;
mod read;
mod settings;

pub use settings::{Budget, Commands, Config, Database, Hooks, OnNoChange, Policy, SensitiveConfig};
