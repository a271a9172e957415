//! decree's own state: the queue, the tracker, the settings, and values of the environment that the user names. It is not part
//! of the tree, and consists of a few small files: a snapshot is one file, `state.json`, that holds all of them.

mod rollback;
mod snapshot;

pub use rollback::{recover_rollback, restore};
pub use snapshot::{StateSnapshot, save};
