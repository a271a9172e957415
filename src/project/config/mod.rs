//! `.decree/config.yml`: the settings, their defaults, and error messages with line and hint.
//!
//! - [`settings`]: the types and their defaults
//! - [`keys`]: the one table of keys, with how each value is parsed
//! - [`read`]: parses a file by that table
//! - [`databases`]: parses the one section whose keys are chosen by the user

mod databases;
mod keys;
mod read;
mod settings;

pub use settings::{Budget, Commands, Config, Database, Hooks, OnNoChange, Policy, Router, SensitiveConfig};
