//! The checkpoint engine: capture a tree, tell exactly what changed, put it back, prove it.
//!
//! The flow, top to bottom:
//!
//! - [`workspace`] is a tree with its store: `capture`, and (in [`compare`]) `compare`
//! - [`walk`] finds what is in scope, by the rules of [`ignore`] and [`sensitive`]; [`stat_cache`] spares reading
//! - `hashing` reads the rest and fills the [`store`]
//! - [`manifest`] is the tree as a file, [`coverage`] what it leaves out
//! - [`patch`] writes, parses and applies `changes.diff`
//! - [`restore`] takes a tree to the other side of a diff, all or nothing
//! - [`checkpoint_dir`] is a checkpoint's directory: manifest, diff and result together
//!
//! Below them, words: [`path`], [`quote`], [`hash`], [`entry`], [`tree`]; and [`root`], through which alone the user's tree
//! is touched.

pub mod checkpoint_dir;
pub mod compare;
pub mod content_source;
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
pub mod sensitive;
pub mod stat_cache;
pub mod store;
pub mod tree;
mod unlocked_dirs;
pub mod walk;
pub mod workspace;
