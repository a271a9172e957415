//! Messages, the units of execution: how they and their chains are named, and what stands at their top.

mod front_matter;
mod id;
mod name;

pub use front_matter::{Document, STANDARD_KEYS, text};
pub use id::{ChainId, MessageId};
pub use name::MessageName;
