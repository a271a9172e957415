//! What the rows and the growth series are made of.
//!
//! `options` reads the command line and `scale` says how large everything is. `tree` and `small_tree` build the projects,
//! `text` writes their files, `edit` changes them and checks that they came back. `contender` drives decree and the shadow
//! git, `restic` and `stash` the other two, `project` has decree process messages; all of them run commands through `measure`.
//! `results` compares the figures with the goals, `report` prints them, `plot` draws the series.

pub mod contender;
pub mod edit;
pub mod interrupt;
pub mod measure;
pub mod options;
mod phrases;
pub mod plot;
pub mod project;
mod random;
pub mod report;
pub mod restic;
pub mod results;
pub mod scale;
pub mod small_tree;
pub mod stash;
mod text;
pub mod tree;
pub mod units;

/// A benchmark has one reader, who wants a sentence that says what went wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
