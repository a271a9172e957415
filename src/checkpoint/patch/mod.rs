//! `changes.diff`: a unified diff that git and patch accept, and that alone is enough to revert or apply a change.
//!
//! [`mod@write`] writes one, [`parse`] reads it strictly, [`rebuild`] rebuilds one side of a file from the other, `git_format`
//! converts one for git alone. What git's
//! format cannot express is in comment lines between the sections ([`notes`]), which both tools skip. `docs/format.md`
//! describes the format.

pub mod binary;
mod git_format;
mod hunks;
mod large;
pub(crate) mod notes;
pub mod parse;
pub mod rebuild;
mod scan;
pub mod write;

/// A file with a NUL among its first bytes, as many as this, is binary; git has the same rule.
const BINARY_PROBE: usize = 8000;

/// Whether a content is binary, given its first bytes or all of it.
pub fn is_binary(head: &[u8]) -> bool {
    memchr::memchr(0, &head[..head.len().min(BINARY_PROBE)]).is_some()
}
