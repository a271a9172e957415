//! The hash of a tree, and its fingerprint.

use std::io::Write as _;

use rayon::prelude::*;

use super::packed::{Chunk, Entry, Part, Slot, Tree};
use crate::checkpoint::hash::{ContentHash, Hasher};

/// How many entries a thread hashes at a time for a fingerprint.
const FINGERPRINT_PART: usize = 4096;

impl Tree {
    /// The hash of the whole tree; see [`combined_hash`].
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| combined_hash(self.iter()))
    }

    /// Saves the time to compute the hash where it is known.
    pub fn set_known_hash(&self, hash: ContentHash) {
        debug_assert_eq!(hash, combined_hash(self.iter()));
        let _ = self.hash.set(hash);
    }

    /// A hash that only this tree has, and that depends on how it is divided into chunks: it is for this version of decree alone, and
    /// made several times faster than [`Self::hash`].
    pub fn fingerprint(&self) -> ContentHash {
        let parts = self.parts(FINGERPRINT_PART);
        let hashes: Vec<ContentHash> = parts.par_iter().map(|part| part.fingerprint()).collect();
        ContentHash::of(&hashes.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>())
    }
}

impl Part<'_> {
    fn fingerprint(&self) -> ContentHash {
        let mut hasher = Hasher::new();
        let mut bytes = Vec::new();
        for chunk in self.0 {
            bytes.clear();
            chunk.write_bytes(&mut bytes);
            hasher.update(&bytes);
        }
        hasher.finish().0
    }
}

impl Chunk {
    /// Writes everything in it. What has no fixed size comes after its size.
    fn write_bytes(&self, out: &mut Vec<u8>) {
        let mut write = |bytes: &[u8]| {
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        write(&self.dir);
        write(&self.names);
        for (index, attributes) in &self.attributes {
            write(format!("{index} {attributes}").as_bytes());
        }
        out.extend((self.slots.len() as u64).to_le_bytes());
        for Slot { hash, size, name_end, mode, kind } in &self.slots {
            out.extend_from_slice(&hash.0);
            out.extend(size.to_le_bytes());
            out.extend(name_end.to_le_bytes());
            out.extend(mode.bits().to_le_bytes());
            out.push(*kind as u8);
        }
    }
}

/// The hash of a list of entries: of `type mode size hash[ attributes]<TAB>path<NUL>` for each, in order.
pub fn combined_hash<'e>(entries: impl Iterator<Item = Entry<'e>>) -> ContentHash {
    let mut hasher = Hasher::new();
    let mut line = Vec::with_capacity(1 << 14);
    for entry in entries {
        if line.len() > 1 << 13 {
            hasher.update(&line);
            line.clear();
        }
        line.extend_from_slice(entry.node.type_name().as_bytes());
        line.push(b' ');
        if let Some(mode) = entry.node.mode() {
            write!(line, "{mode}").expect("writing to memory does not fail");
        }
        line.push(b' ');
        if let Some((hash, size)) = entry.node.content() {
            write!(line, "{size} ").expect("writing to memory does not fail");
            line.extend_from_slice(&hash.hex());
        }
        if !entry.attributes.is_none() {
            write!(line, " {}", entry.attributes).expect("writing to memory does not fail");
        }
        line.push(b'\t');
        entry.write_path(&mut line);
        line.push(0);
    }
    hasher.update(&line);
    hasher.finish().0
}
