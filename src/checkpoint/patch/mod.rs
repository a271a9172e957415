//! `changes.diff`: a unified diff that git and patch take, and that alone is enough to go either way.
//!
//! [`mod@write`] makes one, [`parse`] reads it back strictly, [`rebuild`] makes one side of a file out of the
//! other. What git's format cannot say stands in comment lines between the sections ([`notes`]), which both
//! tools skip. The whole form is described in `docs/format.md`.

pub mod binary;
mod hunks;
mod large;
pub(crate) mod notes;
pub mod parse;
pub mod rebuild;
mod scan;
pub mod write;

/// A file with a NUL among this many first bytes is binary; git's own rule.
const BINARY_PROBE: usize = 8000;

/// Whether content is binary, from its first bytes.
pub fn is_binary(head: &[u8]) -> bool {
    memchr::memchr(0, &head[..head.len().min(BINARY_PROBE)]).is_some()
}
