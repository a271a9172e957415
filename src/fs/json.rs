//! JSON files, which may be large.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::atomic::AtomicFile;
use crate::error::{Error, IoContext, Result};

/// A file of at most this size is parsed from memory: about 100,000 lines of a manifest.
const MAX_IN_MEMORY: u64 = 16 * 1024 * 1024;

/// Parses a file: from memory, which is faster, unless it is so large that memory matters. A file that can be read and is not
/// valid is the error that `damaged` returns.
pub fn parse<T: DeserializeOwned>(
    mut file: File,
    path: &Path,
    damaged: impl FnOnce(serde_json::Error) -> Error,
) -> Result<T> {
    let size = file.metadata().at("read", path)?.len();
    let parsed = if size > MAX_IN_MEMORY {
        serde_json::from_reader(BufReader::with_capacity(1 << 16, file))
    } else {
        let mut text = Vec::with_capacity(size as usize);
        file.read_to_end(&mut text).at("read", path)?;
        serde_json::from_slice(&text)
    };
    match parsed {
        Err(error) if error.is_io() => Err(io::Error::from(error)).at("read", path),
        parsed => parsed.map_err(damaged),
    }
}

/// Writes a file that is complete or absent, without a copy of its text in memory.
pub fn write(target: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = AtomicFile::create(target)?;
    serde_json::to_writer(&mut file, value).map_err(io::Error::from).at("write", target)?;
    file.commit()
}

/// Writes a file that is complete or absent, indented for human readers.
pub fn write_pretty(target: &Path, value: &impl Serialize) -> Result<()> {
    let mut file = AtomicFile::create(target)?;
    serde_json::to_writer_pretty(&mut file, value).map_err(io::Error::from).at("write", target)?;
    file.commit()
}
