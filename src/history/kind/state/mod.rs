//! decree's own state: the queue, the tracker, the settings, and values of the environment that somebody names. It is no part
//! of the tree, and a few small files: a snapshot is one file, `state.json`, that holds all of them.

mod keys;
mod pending;
mod rollback;
mod snapshot;

pub use keys::{Area, StateKeys};
pub use pending::finish_cut_off;
pub use rollback::rollback;
pub use snapshot::{StateSnapshot, fill, verify};
