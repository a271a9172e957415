//! Content, deduplicated by SHA-256, in few large files.
//!
//! A capture writes what the store lacks into one new *pack* ([`mod@write`]); packs never change
//! afterwards. Small contents share compressed frames, in the order of their paths, which is
//! what makes a pack smaller than a file per content. Reading ([`read`]) checks the hash of every
//! content it hands out: a damaged pack is an error, never wrong bytes. What nothing names any more is
//! dropped only if somebody asks for it ([`compaction`]). The bytes of a pack are
//! described in `docs/format.md` and laid out by [`pack`].

mod compaction;
mod content;
mod hash_list;
mod pack;
mod pending_blobs;
mod read;
mod write;

pub use compaction::{CompactionPlan, CompactionReport};
pub use content::ContentReader;
pub use hash_list::{HashList, HashListBuilder};
pub use read::{PackStamp, Store, StoreSnapshot, StoreUsage};
pub use write::{Claim, FrameWriter, PackWriter};
