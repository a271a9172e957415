//! Messages, the units of work: ids, names, front matter, and the inbox they wait in.

mod front_matter;
mod id;
mod inbox;
mod keys;
mod name;
mod new_chain;
mod normalise;
mod queue_view;
mod second_names;
mod waiting_list;

pub use front_matter::{Document, mistaken_opening};
pub use id::{ChainId, MessageId};
pub use inbox::Inbox;
pub use keys::{
    DocumentKind, UnknownKey, check_parameters, check_values, is_spec_key, misplaced_key, unknown_keys,
};
pub use name::{MessageName, SPEC_EXTENSION};
pub use new_chain::begin_chain;
pub use normalise::{IdStatus, Message, MessageError, Rejection, display_name, is_spec};
pub use queue_view::QueueView;
pub use second_names::{GoneMessage, SecondNames};
pub use waiting_list::WaitingNames;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::fs::untrusted;

/// No honest message or spec is larger; one that a routine wrote may be.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a message or a spec as UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a message or a spec that may not be UTF-8.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_limited(untrusted::open(path)?)
}

/// Reads an open message or spec.
pub fn read_limited(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 {
        0..=MAX_BYTES => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 16 MiB")),
    }
}
