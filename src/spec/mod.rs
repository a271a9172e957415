//! Specs: the work that people describe in `specs/*.spec.md`, and the list of what is done.

mod discovery;
mod tracker;

pub use discovery::{Spec, Specs};
pub use tracker::Tracker;
