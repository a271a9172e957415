//! What is told after the work: `summary.json`, and what is made of it.

mod summary;
pub mod text;

pub use summary::{FileChange, MessageSummary, Summary};
