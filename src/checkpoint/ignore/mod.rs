//! `.gitignore` and `.decreeignore` files: which paths a checkpoint ignores.
//!
//! [`pattern`] is one line and [`glob`] its matching; [`rules`] combines the files that apply to a
//! directory and decides about a path. It works the same with and without a git repository;
//! `.git/info/exclude`, the user's global excludes and files above the project are not read.

mod glob;
mod pattern;
mod rules;

pub use pattern::PatternList;
pub use rules::{Fingerprint, FrozenRules, IgnoreFile, RuleMatch, RuleSource, Rules};

/// Whether a glob matches all of a text.
pub fn matches_glob(glob: &[u8], text: &[u8]) -> bool {
    glob::Glob::compile(glob).is_some_and(|glob| glob.matches(text))
}
