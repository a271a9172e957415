//! The checkpoint engine: capture a tree, tell exactly what changed, put it back, prove it.

pub mod compare;
pub mod contents;
pub mod coverage;
pub mod entry;
pub mod hash;
mod hashing;
pub mod ignore;
pub mod manifest;
pub mod patch;
pub mod path;
pub mod progress;
pub mod quote;
pub mod restore;
pub mod root;
pub mod saved;
pub mod sensitive;
pub mod stat_cache;
pub mod store;
pub mod walk;
pub mod workspace;

/// `1 file`, `2 files`.
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
