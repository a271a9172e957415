//! The layout of a pack file (header, compressed frames, index, footer), and reading one.
//!
//! The index is at the end, so that a pack is written in one pass; the footer says where it
//! begins and carries its checksum. All numbers are little-endian.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::hash::ContentHash;
use crate::error::Error;
use crate::fs::FileStamp;
use crate::fs::spool::SpooledContent;

/// The first bytes of a pack; the last one is the version.
pub const HEADER: &[u8; 8] = b"DCRpack\x01";
/// The last bytes of a pack.
const TRAILER: &[u8; 8] = b"DCRindex";
/// Index offset, index checksum, trailer.
const FOOTER_LEN: u64 = 8 + 4 + 8;

const FRAME_LEN: usize = 8 + 4 + 4 + 4;
const BLOB_LEN: usize = 32 + 4 + 4 + 8;

/// Where a compressed frame is in its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the start of the pack.
    pub offset: u64,
    /// The compressed size in bytes.
    pub packed: u32,
    /// The decompressed size in bytes.
    pub raw: u32,
    /// CRC-32 of the compressed bytes: not every damaged byte changes the decompressed ones.
    pub checksum: u32,
}

/// Where a content is in its pack: it begins in a frame and may continue in the frames after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    pub hash: ContentHash,
    /// The number of its first frame in the frame table.
    pub frame: u32,
    /// Where it begins in that frame, decompressed.
    pub offset: u32,
    pub size: u64,
}

/// How much of a pack is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub contents: usize,
    /// Their compressed size, and that of their index.
    pub bytes: u64,
}

/// Writes an index: the frames, and the blobs sorted by hash.
pub fn write_index(out: &mut impl Write, frames: &[Frame], mut blobs: Vec<Blob>) -> io::Result<()> {
    blobs.sort_unstable_by_key(|blob| blob.hash);
    let mut part = Vec::new();
    part.extend((frames.len() as u64).to_le_bytes());
    for frame in frames {
        part.extend(frame.offset.to_le_bytes());
        part.extend(frame.packed.to_le_bytes());
        part.extend(frame.raw.to_le_bytes());
        part.extend(frame.checksum.to_le_bytes());
    }
    part.extend((blobs.len() as u64).to_le_bytes());
    out.write_all(&part)?;
    for blobs in blobs.chunks(1024) {
        part.clear();
        for blob in blobs {
            part.extend(blob.hash.0);
            part.extend(blob.frame.to_le_bytes());
            part.extend(blob.offset.to_le_bytes());
            part.extend(blob.size.to_le_bytes());
        }
        out.write_all(&part)?;
    }
    Ok(())
}

/// The index of one pack. The blob table stays encoded: it is searched far more often than it is iterated.
#[derive(Debug)]
pub struct PackIndex {
    frames: Vec<Frame>,
    bytes: Vec<u8>,
    /// Where in `bytes` the blob table begins.
    blobs_at: usize,
}

impl PackIndex {
    /// Decodes what [`write_index`] wrote; `None` if it is malformed.
    pub fn decode(bytes: Vec<u8>) -> Option<Self> {
        let (count, rest) = take_u64(&bytes)?;
        let frames_len = usize::try_from(count).ok()?.checked_mul(FRAME_LEN)?;
        let frames = rest.get(..frames_len)?;
        let (blob_count, blobs) = take_u64(&rest[frames_len..])?;
        if usize::try_from(blob_count).ok()?.checked_mul(BLOB_LEN)? != blobs.len() {
            return None;
        }
        let frames = frames
            .as_chunks::<FRAME_LEN>()
            .0
            .iter()
            .map(|b| Frame {
                offset: u64::from_le_bytes(b[..8].try_into().expect("8 bytes")),
                packed: u32::from_le_bytes(b[8..12].try_into().expect("4 bytes")),
                raw: u32::from_le_bytes(b[12..16].try_into().expect("4 bytes")),
                checksum: u32::from_le_bytes(b[16..].try_into().expect("4 bytes")),
            })
            .collect();
        let blobs_at = bytes.len() - blobs.len();
        Some(PackIndex { frames, blobs_at, bytes })
    }

    /// Searches where a hash is to be expected, as hashes are spread evenly: that is a look or two instead of twenty.
    pub fn find(&self, hash: &ContentHash) -> Option<Blob> {
        let (mut low, mut high) = (0, self.blob_count());
        let start = |hash: &[u8]| u64::from_be_bytes(*hash.first_chunk().expect("a hash is longer"));
        let wanted = start(&hash.0);
        let (mut first, mut last) = (0, u64::MAX);
        let mut looks = 0;
        while low < high {
            looks += 1;
            // Hashes that are not spread evenly, which only an attacker makes, are searched in halves.
            let share = if looks > 8 { 0.5 } else { (wanted - first) as f64 / (last - first).max(1) as f64 };
            let middle = low + (((high - low) as f64 * share) as usize).min(high - low - 1);
            let found = self.hash_at(middle);
            match found.cmp(&hash.0[..]) {
                std::cmp::Ordering::Equal => return Some(self.blob_at(middle)),
                std::cmp::Ordering::Less => (low, first) = (middle + 1, start(found)),
                std::cmp::Ordering::Greater => (high, last) = (middle, start(found)),
            }
        }
        None
    }

    pub fn frame(&self, number: u32) -> Option<Frame> {
        self.frames.get(number as usize).copied()
    }

    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// All contents of the pack, sorted by hash.
    pub fn blobs(&self) -> impl Iterator<Item = Blob> + '_ {
        (0..self.blob_count()).map(|at| self.blob_at(at))
    }

    /// The size of the pack with only some of its contents, compressed as they are now. `None` if the index is malformed.
    pub fn weigh(&self, mut keeps: impl FnMut(&Blob) -> bool) -> Option<Weight> {
        let mut used: Vec<Option<u64>> = vec![None; self.frames.len()];
        let mut contents = 0;
        for blob in self.blobs().filter(|blob| keeps(blob)) {
            contents += 1;
            let (mut frame, mut offset, mut left) = (blob.frame as usize, u64::from(blob.offset), blob.size);
            // An empty content may be behind the last frame.
            while left > 0 || frame < used.len() {
                let here = left.min(u64::from(self.frames.get(frame)?.raw).checked_sub(offset)?);
                *used[frame].get_or_insert(0) += here;
                left -= here;
                if left == 0 {
                    break;
                }
                (frame, offset) = (frame + 1, 0);
            }
        }
        let mut bytes = (HEADER.len() + 8 + 8 + contents * BLOB_LEN) as u64 + FOOTER_LEN;
        for (frame, used) in self.frames.iter().zip(used) {
            let Some(used) = used else { continue };
            let share = match frame.raw {
                0 => frame.packed.into(),
                raw => (u64::from(frame.packed) * used.min(raw.into())).div_ceil(raw.into()),
            };
            bytes += share + FRAME_LEN as u64;
        }
        Some(Weight { contents, bytes })
    }

    /// The hash of the index, which is the name of its pack.
    pub fn hash(&self) -> ContentHash {
        ContentHash::of(&self.bytes)
    }

    /// Its size in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.frames.len() * size_of::<Frame>()
    }

    /// Whether every content is within the frames.
    pub fn is_well_formed(&self) -> bool {
        self.weigh(|_| true).is_some()
    }

    pub fn blob_count(&self) -> usize {
        (self.bytes.len() - self.blobs_at) / BLOB_LEN
    }

    fn hash_at(&self, at: usize) -> &[u8] {
        &self.bytes[self.blobs_at + at * BLOB_LEN..][..32]
    }

    fn blob_at(&self, at: usize) -> Blob {
        let b = &self.bytes[self.blobs_at + at * BLOB_LEN..][..BLOB_LEN];
        Blob {
            hash: ContentHash(b[..32].try_into().expect("32 bytes")),
            frame: u32::from_le_bytes(b[32..36].try_into().expect("4 bytes")),
            offset: u32::from_le_bytes(b[36..40].try_into().expect("4 bytes")),
            size: u64::from_le_bytes(b[40..].try_into().expect("8 bytes")),
        }
    }
}

/// The footer for an index that begins at `offset`, with the CRC-32 of it.
pub fn footer(offset: u64, checksum: u32) -> [u8; FOOTER_LEN as usize] {
    let mut out = [0; FOOTER_LEN as usize];
    out[..8].copy_from_slice(&offset.to_le_bytes());
    out[8..12].copy_from_slice(&checksum.to_le_bytes());
    out[12..].copy_from_slice(TRAILER);
    out
}

/// The index's offset and checksum, if these bytes are a footer.
fn parse_footer(bytes: &[u8; FOOTER_LEN as usize]) -> Option<(u64, u32)> {
    if &bytes[12..] != TRAILER {
        return None;
    }
    let offset = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let checksum = u32::from_le_bytes(bytes[8..12].try_into().expect("4 bytes"));
    Some((offset, checksum))
}

fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*head), rest))
}

/// The packs in a store's directory.
#[derive(Debug, Default)]
pub(super) struct Packs {
    pub list: Vec<Pack>,
    /// Packs whose index cannot be read, and why.
    pub damaged: Vec<(PathBuf, String)>,
}

impl Deref for Packs {
    type Target = [Pack];

    fn deref(&self) -> &[Pack] {
        &self.list
    }
}

#[derive(Debug)]
pub(super) struct Pack {
    pub path: PathBuf,
    pub index: Arc<PackIndex>,
    /// Set only for the packs of a held store: there may be more packs than a process may have open files.
    pub held: Option<Arc<HeldPack>>,
}

/// A pack that can be read whatever becomes of its file.
#[derive(Debug)]
pub(super) struct HeldPack {
    pub source: HeldSource,
    /// What its file was when it was held.
    pub stamp: FileStamp,
}

#[derive(Debug)]
pub(super) enum HeldSource {
    Open(File),
    Spooled(SpooledContent),
}

impl HeldSource {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            HeldSource::Open(file) => file.read_exact_at(out, offset),
            HeldSource::Spooled(content) => content.read_exact_at(out, offset),
        }
    }
}

impl Pack {
    pub fn read_frame(&self, frame: Frame) -> io::Result<Vec<u8>> {
        let packed = self.read_packed(frame)?;
        let raw = zstd::bulk::decompress(&packed, frame.raw as usize)?;
        if raw.len() != frame.raw as usize {
            return Err(invalid("a frame is shorter than its index says"));
        }
        Ok(raw)
    }

    /// Reads a frame as it is stored, and checks its checksum.
    pub fn read_packed(&self, frame: Frame) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; frame.packed as usize];
        match &self.held {
            Some(held) => held.source.read_exact_at(&mut packed, frame.offset)?,
            None => File::open(&self.path)?.read_exact_at(&mut packed, frame.offset)?,
        }
        if crc32fast::hash(&packed) != frame.checksum {
            return Err(invalid("a frame fails its checksum"));
        }
        Ok(packed)
    }
}

/// Reads the index of a pack; an error means that it is damaged.
pub(super) fn read_index(file: &File) -> io::Result<PackIndex> {
    let length = file.metadata()?.len();
    let mut header = [0; 8];
    file.read_exact_at(&mut header, 0)?;
    if &header != HEADER {
        return Err(invalid("not a pack, or one of another version"));
    }
    let mut footer = [0; FOOTER_LEN as usize];
    let footer_at = length.checked_sub(FOOTER_LEN).ok_or_else(|| invalid("too short"))?;
    file.read_exact_at(&mut footer, footer_at)?;
    let (index_at, checksum) = parse_footer(&footer).ok_or_else(|| invalid("no footer"))?;
    let size = footer_at.checked_sub(index_at).ok_or_else(|| invalid("its index is out of place"))?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| invalid("its index is too large"))?];
    file.read_exact_at(&mut bytes, index_at)?;
    if crc32fast::hash(&bytes) != checksum {
        return Err(invalid("its index fails its checksum"));
    }
    PackIndex::decode(bytes).ok_or_else(|| invalid("its index is malformed"))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The id in a pack's file name; `None` if the file is not a pack.
pub(super) fn pack_id(path: &Path) -> Option<ContentHash> {
    if path.extension()? != "pack" {
        return None;
    }
    ContentHash::from_hex(path.file_stem()?.to_str()?)
}

/// The error of a pack whose index cannot be used.
pub(super) fn damaged_pack(pack: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::integrity(format!("the store is damaged: {}", pack.display()))
        .caused_by(why)
        .hint(damaged_pack_hint(pack))
}

/// What the user can do about a damaged pack.
pub(super) fn damaged_pack_hint(pack: &Path) -> String {
    format!(
        "`decree recover` moves the damaged pack {} out of the store and keeps what is intact in it; the next checkpoint stores \
         again what is still in the tree, and `decree checkpoint verify --all` reports which checkpoints are lost",
        pack.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_finds_every_blob_it_was_given_and_no_other() {
        let frames = [Frame { offset: 8, packed: 10, raw: 100, checksum: 7 }];
        let blobs: Vec<Blob> = (0u8..50)
            .map(|n| Blob { hash: ContentHash::of(&[n]), frame: 0, offset: u32::from(n), size: 1 })
            .collect();
        let mut bytes = Vec::new();
        write_index(&mut bytes, &frames, blobs).unwrap();
        let index = PackIndex::decode(bytes.clone()).expect("what was written");
        for n in 0u8..50 {
            let blob = index.find(&ContentHash::of(&[n])).expect("it is there");
            assert_eq!(blob.offset, u32::from(n));
        }
        assert_eq!(index.find(&ContentHash::of(b"other")), None);
        bytes.pop();
        assert!(PackIndex::decode(bytes).is_none());
    }
}
