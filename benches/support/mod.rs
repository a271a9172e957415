//! What the checkpoint benchmark is made of, in the order in which a run uses it.
//!
//! `options` reads the command line, `tree` builds the synthetic project out of the files that `text`
//! writes, `contender` drives decree and its rivals through `measure`, `edit` changes the project and
//! checks that it came back, and `report` prints the one table.

pub mod contender;
pub mod edit;
pub mod measure;
pub mod options;
mod phrases;
pub mod random;
pub mod report;
pub mod restic;
pub mod text;
pub mod tree;

/// A benchmark has one reader, who wants a sentence that says what went wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
