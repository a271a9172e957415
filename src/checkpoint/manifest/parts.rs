//! A list of lines in the store, in parts. Lists that hardly differ share nearly all of their parts.
//!
//! Where a part ends depends on the lines alone, not on their number: a line whose checksum says so is the last of its part. So a line
//! that is added, changed or removed affects the part it is in, and none of the others.
//!
//! The parts of a long list are themselves listed, one per line, in parts of their own, and so on, until a list is short.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::store::{FrameWriter, PackWriter, Store};
use crate::error::{Error, Result};

/// One line in so many is the last of its part.
const LINES_PER_PART: u32 = 64;
/// A part ends with the line that makes it this large, whatever its checksum. Names may be long.
const MAX_PART: usize = 64 << 10;
/// A list of more parts is itself stored in parts.
const MAX_LIST: usize = 64;
/// How many parts are hashed, or read, at a time.
const BATCH: usize = 128;

/// A content in the store, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartRef {
    pub hash: ContentHash,
    pub size: u64,
}

impl fmt::Display for PartRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.hash, self.size)
    }
}

impl FromStr for PartRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (hash, size) = text.split_once(' ')?;
            Some(PartRef { hash: ContentHash::from_hex(hash)?, size: size.parse().ok()? })
        };
        parse().ok_or("not a hash and a size")
    }
}

impl Serialize for PartRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PartRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How much of a text the store had before.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedBytes {
    pub all: u64,
    pub new: u64,
}

/// Stores lines in parts.
pub struct PartWriter<'w, 's> {
    frames: FrameWriter<'w, 's>,
    current: Vec<u8>,
    complete: Vec<Vec<u8>>,
    parts: Vec<PartRef>,
    /// Every part of the list, those that list parts included.
    pub all: Vec<PartRef>,
    pub bytes: SharedBytes,
}

impl<'w, 's> PartWriter<'w, 's> {
    pub fn new(writer: &'w PackWriter<'s>) -> Result<Self> {
        Ok(PartWriter {
            frames: writer.frame_writer()?,
            current: Vec::new(),
            complete: Vec::new(),
            parts: Vec::new(),
            all: Vec::new(),
            bytes: SharedBytes::default(),
        })
    }

    /// Adds whole lines.
    pub fn add(&mut self, lines: &[u8]) -> Result<()> {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', lines) {
            let line = &lines[start..=end];
            start = end + 1;
            self.current.extend_from_slice(line);
            if self.current.len() >= MAX_PART || crc32fast::hash(line).is_multiple_of(LINES_PER_PART) {
                self.complete.push(std::mem::take(&mut self.current));
            }
        }
        if self.complete.len() >= BATCH { self.store_complete() } else { Ok(()) }
    }

    /// Stores a text as one part.
    pub fn add_text(&mut self, text: &str) -> Result<PartRef> {
        let part = PartRef { hash: ContentHash::of(text.as_bytes()), size: text.len() as u64 };
        self.store(part, text.as_bytes())?;
        Ok(part)
    }

    /// Ends the list, and returns its parts: of the lines themselves, or of the list of their parts, and so on; and how often the list
    /// was listed.
    pub fn finish_list(&mut self) -> Result<(Vec<PartRef>, u32)> {
        let mut depth = 0;
        loop {
            if !self.current.is_empty() {
                self.complete.push(std::mem::take(&mut self.current));
            }
            self.store_complete()?;
            // A level has frames of its own: the contents of a pack without an index are found level by level.
            self.frames.flush()?;
            let parts = std::mem::take(&mut self.parts);
            if parts.len() <= MAX_LIST {
                return Ok((parts, depth));
            }
            let lines: String = parts.iter().map(|part| format!("{part}\n")).collect();
            self.add(lines.as_bytes())?;
            depth += 1;
        }
    }

    /// Must be called at the end.
    pub fn flush(&mut self) -> Result<()> {
        self.frames.flush()
    }

    fn store_complete(&mut self) -> Result<()> {
        let complete = std::mem::take(&mut self.complete);
        let hashes: Vec<ContentHash> = complete.par_iter().map(|part| ContentHash::of(part)).collect();
        for (hash, text) in hashes.into_iter().zip(&complete) {
            let part = PartRef { hash, size: text.len() as u64 };
            self.store(part, text)?;
            self.parts.push(part);
            self.all.push(part);
        }
        Ok(())
    }

    fn store(&mut self, part: PartRef, text: &[u8]) -> Result<()> {
        self.bytes.all += part.size;
        if let Some(claim) = self.frames.writer.claim(&part.hash)? {
            self.bytes.new += part.size;
            self.frames.add(claim, text)?;
        }
        Ok(())
    }
}

/// Replaces a list of parts that have lists by what those list, once.
pub fn expand(parts: &[PartRef], store: &Store, max: usize) -> Result<Vec<PartRef>> {
    let mut listed = Vec::new();
    for part in parts {
        let text = read_part(*part, store)?;
        for line in String::from_utf8_lossy(&text).lines() {
            listed.push(line.parse().map_err(|why| Error::integrity(format!("part {}: {why}", part.hash)))?);
        }
        if listed.len() > max {
            return Err(Error::integrity(format!("part {}: it lists too many parts", part.hash)));
        }
    }
    Ok(listed)
}

/// Reads a part.
pub fn read_part(part: PartRef, store: &Store) -> Result<Vec<u8>> {
    let text = store.read(&part.hash)?;
    if text.len() as u64 != part.size {
        return Err(Error::integrity(format!("part {} does not have {} bytes", part.hash, part.size)));
    }
    Ok(text)
}

/// Reads parts in order, some of them at a time, each decoded in parallel.
pub fn read_each<T: Send>(
    parts: &[PartRef],
    store: &Store,
    decode: impl Fn(&[u8]) -> Option<T> + Sync,
    mut each: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    for batch in parts.chunks(BATCH) {
        let read = |part: &PartRef| {
            let text = read_part(*part, store)?;
            decode(&text).ok_or_else(|| Error::integrity(format!("part {} is malformed", part.hash)))
        };
        let decoded: Vec<T> = batch.par_iter().map(read).collect::<Result<_>>()?;
        for part in decoded {
            each(part)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u32, changed: Option<u32>) -> String {
        let line = |n: u32| format!("{n}:{}\n", if changed == Some(n) { "changed" } else { "as it was" });
        (0..count).map(line).collect()
    }

    fn store_lines(store: &Store, text: &str) -> (Vec<PartRef>, u32, SharedBytes) {
        let writer = store.pack_writer();
        let mut parts = PartWriter::new(&writer).unwrap();
        parts.add(text.as_bytes()).unwrap();
        let (list, depth) = parts.finish_list().unwrap();
        let bytes = parts.bytes;
        drop(parts);
        writer.finish().unwrap();
        (list, depth, bytes)
    }

    fn read_lines(store: &Store, mut list: Vec<PartRef>, depth: u32) -> String {
        for _ in 0..depth {
            list = expand(&list, store, usize::MAX).unwrap();
        }
        let mut text = String::new();
        let decode = |part: &[u8]| String::from_utf8(part.to_vec()).ok();
        read_each(&list, store, decode, |part| {
            text.push_str(&part);
            Ok(())
        })
        .unwrap();
        text
    }

    #[test]
    fn a_list_is_read_as_it_was_stored_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        for (count, depths) in [(0, 0..=0), (1, 0..=0), (100, 0..=0), (100_000, 1..=2), (400_000, 2..=3)] {
            let text = lines(count, None);
            let (list, depth, _) = store_lines(&store, &text);
            assert!(depths.contains(&depth), "{count} lines: {depth}");
            assert!(list.len() <= MAX_LIST);
            assert!(read_lines(&store, list, depth) == text, "{count} lines");
        }
    }

    #[test]
    fn a_changed_line_affects_one_part_of_each_level() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let (_, _, first) = store_lines(&store, &lines(100_000, None));
        assert_eq!(first.new, first.all);
        let (_, _, same) = store_lines(&store, &lines(100_000, None));
        assert_eq!((same.new, same.all), (0, first.all));
        for changed in [0, 1, 50_000, 99_999] {
            let text = lines(100_000, Some(changed));
            let (list, depth, bytes) = store_lines(&store, &text);
            // If the end of a part changes, two parts do.
            assert!(bytes.new > 0 && bytes.new < 100_000, "{} bytes for line {changed}", bytes.new);
            assert!(read_lines(&store, list, depth) == text, "line {changed}");
        }
        let inserted = format!("new\n{}", lines(100_000, None));
        assert!(store_lines(&store, &inserted).2.new < 50_000);
    }

    #[test]
    fn long_lines_do_not_make_large_parts() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let line = |n: u32| format!("{n}{}\n", "x".repeat(4000));
        let text: String = (0..1000).map(line).collect();
        let (list, depth, _) = store_lines(&store, &text);
        assert!(list.iter().all(|part| part.size < (MAX_PART + 5000) as u64));
        assert!(read_lines(&store, list, depth) == text);
    }
}
