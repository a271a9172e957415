//! Routines: the scripts and notebooks that carry messages out. Here they are found, described and chosen, not run.
//!
//! [`discovery`] finds them, [`header`] and [`parameters`] read what they say of themselves, [`notebook`] takes a notebook
//! apart for both, and [`router`] chooses one for a message.

mod discovery;
mod header;
mod name;
mod notebook;
mod parameters;
pub mod router;

pub use discovery::{Routine, RoutineKind, Routines};
pub use name::RoutineName;
pub use parameters::{Parameter, STANDARD_PARAMETERS};
