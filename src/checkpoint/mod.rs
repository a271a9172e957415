//! The checkpoint engine: captures a tree, finds what changed since, reverts it and verifies the result.
//!
//! The flow, top to bottom:
//!
//! - [`checkpoint_dir`] is the directory of a checkpoint: manifest, diff and result together
//! - [`verify`] finds out whether the store has what it names
//! - [`change_record`] is `result.json`: what changed, in numbers and hashes
//! - `forced_apply` applies a diff to paths that are not what it expects
//! - [`restore`] takes a tree to the other side of a diff, all or nothing
//! - [`patch`] writes, parses and applies `changes.diff`
//! - [`compare`] finds what changed since a checkpoint
//! - [`live_database`] finds SQLite databases in the tree that other programs use
//! - [`workspace`] is a tree with its store, and captures checkpoints
//! - `hashing` reads files that the cache does not know, and fills the [`store`]
//! - [`walk`] finds what is in scope, by the rules of [`ignore`] and [`sensitive`]; [`stat_cache`] saves reading files
//! - `seen_file` is a file that saves time, and that no routine may have written
//! - [`manifest`] is the tree as a file, [`coverage`] what it leaves out
//!
//! Below them are the basic types [`path`], [`quote`], [`hash`], [`attributes`], [`entry`] and [`tree`], and [`root`], the only module that
//! touches the user's tree.

pub(crate) mod attributes;
pub(crate) mod change_record;
pub(crate) mod checkpoint_dir;
pub(crate) mod compare;
pub(crate) mod content_source;
pub(crate) mod coverage;
pub(crate) mod deleted_database;
pub(crate) mod entry;
mod forced_apply;
pub(crate) mod git_record;
pub mod hash;
mod hashing;
pub(crate) mod ignore;
pub(crate) mod live_database;
pub(crate) mod manifest;
pub(crate) mod partial_restore;
pub(crate) mod patch;
pub(crate) mod path;
pub(crate) mod progress;
pub mod quote;
pub(crate) mod restore;
pub(crate) mod root;
pub(crate) mod root_write;
pub(crate) mod secret_copies;
pub(crate) mod secret_stamp;
mod seen_file;
pub(crate) mod sensitive;
pub(crate) mod stat_cache;
pub(crate) mod store;
pub(crate) mod tree;
pub(crate) mod unlocked_dirs;
pub(crate) mod verify;
pub(crate) mod walk;
pub(crate) mod workspace;
