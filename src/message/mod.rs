//! Messages, the units of execution. So far: how they and their chains are named.

mod id;

pub use id::{ChainId, MessageId};
