//! Specs: files in `specs/*.spec.md` that describe work, and the tracker that lists the processed ones.

mod discovery;
mod tracker;

pub use discovery::{Spec, Specs};
pub use tracker::Tracker;
