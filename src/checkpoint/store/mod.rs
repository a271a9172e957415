//! Content, deduplicated by SHA-256, in few large files.
//!
//! A capture writes what the store lacks into one new *pack* ([`write`]); packs never change
//! afterwards. Small contents share compressed frames, in the order of their paths, which is
//! what makes a pack smaller than a file per content. Reading ([`read`]) checks the hash of every
//! content it hands out: a damaged pack is an error, never wrong bytes. What nothing names any more is
//! dropped only if somebody asks for it ([`tidy`]). The bytes of a pack are
//! described in `docs/format.md` and laid out by [`pack`].

mod claims;
mod content;
mod named;
mod pack;
mod read;
mod tidy;
mod write;

pub use content::ContentReader;
pub use named::{Named, NamedBuilder};
pub use read::{Holdings, PackStamp, Store, Usage};
pub use tidy::{Tidied, Tidying};
pub use write::{Claim, Deposit, Filler};
