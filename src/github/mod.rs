//! GitHub, and what behaves like it: the log of a workflow, and what its steps hand on. Nothing here is needed elsewhere.

pub mod commands;
mod step;
pub mod told;

pub use step::{Step, in_actions, in_workspace};
