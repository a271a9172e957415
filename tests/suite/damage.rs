//! Damage: if anything is broken, full, locked or forged, the tree is unchanged and the error says what is wrong.

mod diff;
pub mod disk;
mod forged;
mod location;
mod manifest;
mod store;

use std::fs;
use std::path::Path;

/// The same bytes with one bit changed; another bit for every place.
fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << (at % 8);
    bytes
}

/// Overwrites a file of decree's own, whatever its mode.
fn put(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}
