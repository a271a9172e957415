//! Routines: the scripts and notebooks that carry messages out. Here they are found, described and chosen.
//!
//! [`discovery`] finds them, [`header`] and [`parameters`] read what they say of themselves, [`notebook`] takes a notebook
//! apart for both, [`router`] chooses one for a message, and [`invocation`] says what to execute ([`papermill`] for
//! notebooks).

mod discovery;
mod header;
mod invocation;
mod notebook;
pub mod papermill;
mod parameters;
pub mod router;

pub use discovery::{Routine, RoutineKind, Routines};
pub use invocation::Invocation;
pub use parameters::{Parameter, STANDARD_PARAMETERS};
