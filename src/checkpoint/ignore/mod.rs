//! Which paths a checkpoint is about: `.gitignore` and `.decreeignore` files.
//!
//! [`pattern`] is one line and [`glob`] its matching; [`rules`] stacks the files that govern a
//! directory and gives the verdict on a path. Works the same with and without a git repository;
//! `.git/info/exclude`, the user's global excludes and files above the project do not count.

mod glob;
mod pattern;
mod rules;

pub use pattern::PatternList;
pub use rules::{Fingerprint, FrozenRules, IgnoreFile, RuleMatch, RuleSource, Rules};

/// Whether a whole text matches a glob.
pub fn matches_glob(glob: &[u8], text: &[u8]) -> bool {
    glob::Glob::compile(glob).is_some_and(|glob| glob.matches(text))
}
