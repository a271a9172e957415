//! Routines: the scripts and notebooks that carry out messages. This module finds, describes and chooses them; the pipeline
//! runs them.
//!
//! - [`discovery`]: finds routines by name
//! - [`header`], [`parameters`]: parse a routine's description and the parameters it declares
//! - [`needs`]: whether the commands that a routine needs are installed
//! - [`notebook`]: parses the cells of a notebook
//! - [`router`]: chooses a routine for a message
//! - [`invocation`]: the command line that runs a routine
//! - [`papermill`]: the Python environment for notebooks

mod discovery;
mod header;
mod invocation;
mod needs;
mod notebook;
pub mod papermill;
mod parameters;
pub mod router;

pub use discovery::{Routine, RoutineKind, Routines};
pub use invocation::Invocation;
