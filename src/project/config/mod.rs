//! `.decree/config.yml`: every setting, its default, and what is wrong with a file that cannot be taken.
//!
//! [`settings`] has the types and defaults, [`keys`] the one table of keys, [`read`] goes through a file by that table.

mod keys;
mod read;
mod settings;

pub use settings::{Budget, Commands, Config, Hooks, OnNoChange, Policy, SensitiveConfig};
