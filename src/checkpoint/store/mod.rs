//! Content, deduplicated by SHA-256, in few large files.
//!
//! A capture writes what the store lacks into one new *pack* ([`mod@write`]); packs never change
//! afterwards. Small contents share compressed frames, in the order of their paths, which
//! makes a pack smaller than one file per content. Reading ([`content`]) checks the hash of every
//! content: a damaged pack is an error, never wrong bytes. Content that no checkpoint needs is
//! dropped only on request ([`compaction`]). Small packs are merged as they come ([`merge`]), and all
//! are held while a program runs that may delete them ([`held`]). A damaged one is replaced by what is
//! intact in it ([`salvage`]), also without its index ([`frame_scan`]). [`pack`] encodes and reads a pack, as `docs/format.md`
//! describes it; [`directory`] is the store as a directory of packs.

mod compaction;
mod content;
mod directory;
mod frame_scan;
mod hash_list;
mod held;
mod merge;
mod pack;
mod pending_blobs;
mod salvage;
mod verified;
mod write;
mod writeback;

pub use compaction::{CompactionPlan, CompactionReport};

pub use directory::{PackStamp, Store, StoreSnapshot};
pub use frame_scan::NamedContents;
pub use hash_list::{HashList, HashListBuilder};
pub use salvage::PackCheck;
pub use verified::PackVerification;
pub use write::{FrameWriter, PackWriter};
