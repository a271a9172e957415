//! The contents of a pack whose index is lost. Frames are found one after the other, as each says where it ends; where a content ends
//! within them follows from the sizes and hashes that manifests have.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use super::directory::Store;
use super::pack::HEADER;
use super::write::FRAME;
use crate::checkpoint::hash::{ContentHash, Hasher};
use crate::error::Result;

/// The first bytes of every frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The contents that manifests name: what to look for.
#[derive(Debug, Default)]
pub struct NamedContents {
    by_size: BTreeMap<u64, HashSet<ContentHash>>,
    /// Those whose size no manifest has.
    unsized_hashes: HashSet<ContentHash>,
}

impl NamedContents {
    pub fn add(&mut self, hash: ContentHash, size: Option<u64>) {
        match size {
            Some(size) => self.by_size.entry(size).or_default().insert(hash),
            None => self.unsized_hashes.insert(hash),
        };
    }

    /// How many of them are not in a store.
    pub fn count_missing(&self, store: &Store) -> Result<usize> {
        let stored = store.snapshot()?;
        Ok(self.iter().filter(|hash| !stored.contains(hash)).count())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ContentHash> {
        self.by_size.values().flatten().chain(&self.unsized_hashes)
    }

    fn has(&self, hash: &ContentHash, size: u64) -> bool {
        self.by_size.get(&size).is_some_and(|hashes| hashes.contains(hash))
            || self.unsized_hashes.contains(hash)
    }

    /// The content at the beginning of these bytes.
    fn find_first(&self, bytes: &[u8]) -> Option<(ContentHash, usize)> {
        if bytes.is_empty() {
            return None;
        }
        let mut hasher = Hasher::new();
        let mut hashed = 0;
        for (size, hashes) in self.by_size.range(1..=bytes.len() as u64) {
            let size = *size as usize;
            hasher.update(&bytes[hashed..size]);
            hashed = size;
            let (hash, _) = hasher.clone().finish();
            if hashes.contains(&hash) {
                return Some((hash, size));
            }
        }
        if self.unsized_hashes.is_empty() {
            return None;
        }
        let mut hasher = Hasher::new();
        for size in 1..=bytes.len() {
            hasher.update(&bytes[size - 1..size]);
            let (hash, _) = hasher.clone().finish();
            if self.unsized_hashes.contains(&hash) {
                return Some((hash, size));
            }
        }
        None
    }
}

/// A content that was found, and where: whole frames, or a part of one.
#[derive(Debug)]
pub(super) struct FoundContent {
    pub hash: ContentHash,
    pub size: u64,
    /// By number.
    frames: Vec<usize>,
    offset: usize,
}

/// The frames of a pack, by place and length.
pub(super) struct FrameScan<'f> {
    file: &'f File,
    frames: Vec<(u64, usize)>,
}

impl<'f> FrameScan<'f> {
    /// Finds every frame that is whole.
    pub fn of(file: &'f File) -> io::Result<Self> {
        let (length, mut at, mut frames) = (file.metadata()?.len(), HEADER.len() as u64, Vec::new());
        let mut window = vec![0; zstd::zstd_safe::compress_bound(FRAME)];
        while at < length {
            let wanted = window.len().min(usize::try_from(length - at).unwrap_or(usize::MAX));
            file.read_exact_at(&mut window[..wanted], at)?;
            let bytes = &window[..wanted];
            match zstd::zstd_safe::find_frame_compressed_size(bytes) {
                Ok(size) if bytes.starts_with(&MAGIC) && size > 0 => {
                    frames.push((at, size));
                    at += size as u64;
                }
                // Damaged, or what is left of the index: the next frame may be whole.
                _ => match bytes[1..].windows(MAGIC.len()).position(|found| found == MAGIC) {
                    Some(next) => at += next as u64 + 1,
                    None => at += wanted.saturating_sub(MAGIC.len() - 1).max(1) as u64,
                },
            }
        }
        Ok(FrameScan { file, frames })
    }

    /// Finds the contents among `named` that are in the frames.
    pub fn find(&self, named: &NamedContents) -> Vec<FoundContent> {
        let (mut found, mut rest) = (Vec::new(), Vec::new());
        for number in 0..self.frames.len() {
            let Ok(bytes) = self.read(number) else { continue };
            let mut offset = 0;
            while let Some((hash, size)) = named.find_first(&bytes[offset..]) {
                found.push(FoundContent { hash, size: size as u64, frames: vec![number], offset });
                offset += size;
            }
            if offset == 0 {
                rest.push(number);
            }
        }
        self.find_large(named, &rest, &mut found);
        found
    }

    /// Contents of several frames. All but their last frame are full.
    fn find_large(&self, named: &NamedContents, rest: &[usize], found: &mut Vec<FoundContent>) {
        let mut start = 0;
        while start < rest.len() {
            let (mut hasher, mut length) = (Hasher::new(), None);
            for (count, number) in rest[start..].iter().enumerate() {
                let Ok(bytes) = self.read(*number) else { break };
                hasher.update(&bytes);
                let (hash, size) = hasher.clone().finish();
                if named.has(&hash, size) {
                    let frames = rest[start..=start + count].to_vec();
                    found.push(FoundContent { hash, size, frames, offset: 0 });
                    length = Some(count + 1);
                }
                if length.is_some() || bytes.len() < FRAME {
                    break;
                }
            }
            start += length.unwrap_or(1);
        }
    }

    fn read(&self, number: usize) -> io::Result<Vec<u8>> {
        let (at, size) = self.frames[number];
        let mut packed = vec![0; size];
        self.file.read_exact_at(&mut packed, at)?;
        zstd::bulk::decompress(&packed, FRAME)
    }

    /// Reads a content that was found.
    pub fn reader<'s>(&'s self, content: &'s FoundContent) -> FrameReader<'s> {
        FrameReader { scan: self, left: content.size, content, next: 0, bytes: Vec::new(), at: 0 }
    }
}

/// Reads the frames of one content.
pub(super) struct FrameReader<'s> {
    scan: &'s FrameScan<'s>,
    content: &'s FoundContent,
    next: usize,
    bytes: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for FrameReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len()
            && self.left > 0
            && let Some(number) = self.content.frames.get(self.next)
        {
            self.bytes = self.scan.read(*number)?;
            self.at = if self.next == 0 { self.content.offset } else { 0 };
            self.next += 1;
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let n = out.len().min(self.bytes.len() - self.at).min(left);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        self.left -= n as u64;
        Ok(n)
    }
}
