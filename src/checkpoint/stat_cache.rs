//! What was known of each file when it was last captured, so that an unchanged one costs a `stat`.
//!
//! A hit means: same size, times, inode and mode, so the same content, and that content is in the
//! store. Two things guard that. *Racy timestamps*: a file that was changed in the same tick of the
//! clock in which the capture began could change again without its times telling; such entries are
//! kept but not trusted. *The store*: the cache names the packs it relies on, and if one is gone, no
//! entry is trusted to be stored.
//!
//! The cache also remembers under which ignore rules a name was visible, which spares matching it
//! again. It is only a cache: if it is missing or damaged, everything is read anew.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use super::hash::ContentHash;
use super::store::PackStamp;
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;

const HEADER: &[u8; 8] = b"DCRstat\x01";

/// A point in a file system's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Since 1970.
    pub seconds: i64,
    /// And these.
    pub nanos: u32,
}

/// What `stat` says that changes whenever the content does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// In bytes.
    pub size: u64,
    /// Last change of the content, which anybody may set.
    pub mtime: Time,
    /// Last change of anything, which nobody can set.
    pub ctime: Time,
    /// Inode.
    pub inode: u64,
    /// Device.
    pub device: u64,
    /// `st_mode`.
    pub mode: u32,
}

impl Stat {
    /// From the system's answer, whose numbers have other types on other machines.
    #[allow(clippy::unnecessary_cast)]
    pub fn of(stat: &rustix::fs::Stat) -> Self {
        let time = |seconds: i64, nanos: u64| Time { seconds, nanos: nanos as u32 };
        Stat {
            size: stat.st_size as u64,
            mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            inode: stat.st_ino as u64,
            device: stat.st_dev as u64,
            mode: stat.st_mode as u32,
        }
    }
}

/// What a directory's listing said of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A visible directory: only the name counts.
    Name,
    /// An ignored directory that was entered for what a `.decreeignore` may ask for in it.
    Opened,
    /// A link, with the hash of its target.
    Link(ContentHash),
    /// A file, with what it was.
    File {
        /// As it was when its content was read.
        stat: Stat,
        /// Of its content.
        hash: ContentHash,
        /// Whether the times can be relied on.
        trusted: bool,
    },
}

/// The order of two entries of one directory in a list that is sorted by whole paths.
pub fn path_order(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    a.0[..common].cmp(&b.0[..common]).then_with(|| {
        let next = |(name, is_dir): (&[u8], bool)| match name.get(common) {
            Some(byte) => Some(*byte),
            None if is_dir => Some(b'/'),
            None => None,
        };
        next(a).cmp(&next(b)).then(a.0.len().cmp(&b.0.len()))
    })
}

/// A cache read from disk.
#[derive(Default)]
pub struct StatCache {
    bytes: Vec<u8>,
    dirs: HashMap<Box<[u8]>, Block>,
    packs: Vec<PackStamp>,
}

struct Block {
    fingerprint: [u8; 16],
    entries: Range<usize>,
}

/// One directory of the cache.
pub struct CachedDir<'c> {
    fingerprint: [u8; 16],
    names: Vec<(&'c [u8], bool, Known)>,
}

impl CachedDir<'_> {
    /// Whether everything in it was visible under these very rules.
    pub fn has_rules(&self, fingerprint: &[u8; 16]) -> bool {
        self.fingerprint == *fingerprint
    }

    /// What it says of a name.
    pub fn find(&self, name: &[u8], is_dir: bool) -> Option<&Known> {
        let at = self
            .names
            .binary_search_by(|(known, known_dir, _)| path_order((known, *known_dir), (name, is_dir)))
            .ok()?;
        Some(&self.names[at].2)
    }

    /// How many names it has.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl StatCache {
    /// Reads the cache; a missing or damaged one is empty.
    pub fn load(path: &Path) -> Self {
        fs::read(path).ok().and_then(Self::decode).unwrap_or_default()
    }

    /// The packs it relies on.
    pub fn packs(&self) -> &[PackStamp] {
        &self.packs
    }

    /// How many directories it knows.
    pub fn dir_count(&self) -> usize {
        self.dirs.len()
    }

    /// What it knows of a directory (empty: the root).
    pub fn dir(&self, path: &[u8]) -> Option<CachedDir<'_>> {
        let block = self.dirs.get(path)?;
        let mut input = Input(&self.bytes[block.entries.clone()]);
        let mut names = Vec::new();
        while let Some(entry) = input.entry() {
            names.push(entry);
        }
        Some(CachedDir { fingerprint: block.fingerprint, names })
    }

    fn decode(bytes: Vec<u8>) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut input = Input(body.strip_prefix(HEADER)?);
        let mut packs = Vec::new();
        for _ in 0..input.u32()? {
            let id = ContentHash(input.array()?);
            packs.push(PackStamp { id, size: input.u64()? });
        }
        let count = input.u32()?;
        let mut dirs = HashMap::with_capacity(count as usize);
        for _ in 0..count {
            let path_len = input.u32()? as usize;
            let path = input.take(path_len)?.into();
            let fingerprint = input.array()?;
            let length = input.u32()? as usize;
            let start = body.len() - input.0.len();
            input.take(length)?;
            let entries = start..start + length;
            dirs.insert(path, Block { fingerprint, entries });
        }
        Some(StatCache { dirs, packs, bytes })
    }
}

/// A cache being written, directory by directory.
pub struct CacheWriter {
    bytes: Vec<u8>,
    count_at: usize,
    count: u32,
}

impl CacheWriter {
    /// Begins a cache that relies on these packs.
    pub fn new(packs: &[PackStamp]) -> Self {
        let mut bytes = HEADER.to_vec();
        bytes.extend((packs.len() as u32).to_le_bytes());
        for pack in packs {
            bytes.extend(pack.id.0);
            bytes.extend(pack.size.to_le_bytes());
        }
        let count_at = bytes.len();
        bytes.extend(0u32.to_le_bytes());
        CacheWriter { bytes, count_at, count: 0 }
    }

    /// Adds a directory: its entries in [`path_order`].
    pub fn dir<'e>(
        &mut self,
        path: &[u8],
        fingerprint: &[u8; 16],
        entries: impl Iterator<Item = (&'e [u8], Known)>,
    ) {
        let out = &mut self.bytes;
        out.extend((path.len() as u32).to_le_bytes());
        out.extend(path);
        out.extend(fingerprint);
        let length_at = out.len();
        out.extend(0u32.to_le_bytes());
        for (name, known) in entries {
            let tag = match known {
                Known::Name => 0,
                Known::Link(_) => 1,
                Known::Opened => 4,
                Known::File { trusted: false, .. } => 2,
                Known::File { trusted: true, .. } => 3,
            };
            out.push(tag);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name);
            if let Known::Link(hash) = known {
                out.extend(hash.0);
            }
            if let Known::File { stat, hash, .. } = known {
                out.extend(stat.size.to_le_bytes());
                for time in [stat.mtime, stat.ctime] {
                    out.extend(time.seconds.to_le_bytes());
                    out.extend(time.nanos.to_le_bytes());
                }
                out.extend(stat.inode.to_le_bytes());
                out.extend(stat.device.to_le_bytes());
                out.extend(stat.mode.to_le_bytes());
                out.extend(hash.0);
            }
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
    }

    /// Writes the file.
    pub fn commit(mut self, path: &Path) -> Result<()> {
        self.bytes[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_le_bytes());
        let checksum = crc32fast::hash(&self.bytes);
        self.bytes.extend(checksum.to_le_bytes());
        let mut file = AtomicFile::create(path)?;
        file.write_all(&self.bytes).at("write", path)?;
        file.commit()
    }
}

/// Bytes that are being decoded.
struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Time> {
        let seconds = i64::from_le_bytes(self.array()?);
        let nanos = self.u32()?;
        Some(Time { seconds, nanos })
    }

    fn entry(&mut self) -> Option<(&'b [u8], bool, Known)> {
        let [tag] = self.array()?;
        let length = usize::from(u16::from_le_bytes(self.array()?));
        let name = self.take(length)?;
        match tag {
            0 => return Some((name, true, Known::Name)),
            4 => return Some((name, true, Known::Opened)),
            1 => return Some((name, false, Known::Link(ContentHash(self.array()?)))),
            _ => {}
        }
        let stat = Stat {
            size: self.u64()?,
            mtime: self.time()?,
            ctime: self.time()?,
            inode: self.u64()?,
            device: self.u64()?,
            mode: self.u32()?,
        };
        let hash = ContentHash(self.array()?);
        let known = Known::File { stat, hash, trusted: tag == 3 };
        Some((name, false, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CacheWriter {
        let pack = PackStamp { id: ContentHash::of(b"pack"), size: 7 };
        let mut writer = CacheWriter::new(&[pack]);
        let file = Known::File {
            stat: Stat { size: 3, inode: 9, ..Stat::default() },
            hash: ContentHash::of(b"abc"),
            trusted: true,
        };
        let link = Known::Link(ContentHash::of(b"target"));
        let entries: [(&[u8], Known); 3] = [(b"a.c", file), (b"a", Known::Name), (b"b", link)];
        writer.dir(b"src", &[1; 16], entries.into_iter());
        writer
    }

    #[test]
    fn what_was_written_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        sample().commit(&path).unwrap();
        let cache = StatCache::load(&path);
        assert_eq!(cache.packs().len(), 1);
        let src = cache.dir(b"src").expect("it was written");
        assert!(src.has_rules(&[1; 16]) && !src.has_rules(&[2; 16]));
        assert!(matches!(src.find(b"a.c", false), Some(Known::File { trusted: true, .. })));
        assert_eq!(src.find(b"a", true), Some(&Known::Name));
        assert_eq!(src.find(b"a", false), None);
        assert_eq!(src.find(b"b", false), Some(&Known::Link(ContentHash::of(b"target"))));
        assert!(cache.dir(b"").is_none());
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        sample().commit(&path).unwrap();
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert_eq!(StatCache::load(&path).dir_count(), 0, "byte {at}");
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert_eq!(StatCache::load(&path).dir_count(), 0);
    }

    #[test]
    fn directories_sort_as_if_they_ended_in_a_slash() {
        let mut names: Vec<(&[u8], bool)> =
            vec![(b"a", true), (b"a", false), (b"a-b", false), (b"a.c", false), (b"a0", false)];
        names.sort_by(|a, b| path_order(*a, *b));
        let sorted: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        assert_eq!(sorted, [&b"a"[..], b"a-b", b"a.c", b"a", b"a0"]);
    }
}
