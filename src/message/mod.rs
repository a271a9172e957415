//! Messages, the units of execution: how they are named and written, and the queue they wait in.

mod front_matter;
mod id;
mod inbox;
mod name;
mod normalise;

pub use front_matter::{Document, STANDARD_KEYS, text};
pub use id::{ChainId, MessageId};
pub use inbox::{Inbox, Pending};
pub use name::MessageName;
pub use normalise::{Message, MessageKind, Rejection, Standing, display_name, is_spec};

use std::io;
use std::path::Path;

/// Nobody's message or spec is longer than this; a routine's may be.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Reads a message or a spec.
pub fn read_text(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 MiB"));
    }
    std::fs::read_to_string(path)
}
