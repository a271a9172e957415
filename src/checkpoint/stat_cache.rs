//! The `stat` result and hash of each file at the last capture, so that an unchanged file costs one `stat`.
//!
//! A hit means: same size, times, inode and mode, hence the same content, and that content is in the
//! store. Two rules make that safe. *Racy timestamps*: a file that changed in the same clock tick in
//! which the capture began could change again and keep its times; such entries are
//! kept but not trusted. *The store*: the cache lists the packs it relies on, and if one is missing, the
//! capture looks up every content.
//!
//! The cache also records under which ignore rules a name was visible, which saves matching it
//! again, and what a directory was when it was listed, if all of its names are entries. A directory that is still
//! the same has the same names: adding, removing or renaming one changes its times. If the cache is missing or
//! damaged, every file is read.
//!
//! Of a large cache, only the table of directories is kept in memory. The entries of a directory are
//! checked when the walk enters it.

mod encoding;
mod file;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use encoding::PackedStat;
pub use file::CacheFile;

use encoding::{Decoder, encode, encode_stat, tag_is_dir};

use super::attributes::Attributes;
use super::hash::ContentHash;
use super::root::PathKind;
use super::store::PackStamp;
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;

const HEADER: &[u8; 8] = b"DCRstat\x04";
/// The same without what directories were when they were listed.
const HEADER_3: &[u8; 8] = b"DCRstat\x03";
/// The offset of the table, and its checksum.
const FOOTER_LEN: u64 = 8 + 4;

/// A cache of at most this size is read as a whole.
const MAX_READ: u64 = 16 << 20;
/// About as many bytes as a file takes.
const TYPICAL_ENTRY_LEN: usize = 80;

/// A file system's timestamp, in nanoseconds since 1970. Times more than 292 years from then wrap around,
/// and still differ if they did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

impl Time {
    /// From seconds and nanoseconds.
    pub fn of((seconds, nanos): (i64, i64)) -> Self {
        Time(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos))
    }

    pub fn nanos(self) -> i64 {
        self.0
    }
}

/// The fields of a `stat` result that change whenever the content does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub size: u64,
    /// The last change of the content; a process may set it to anything.
    pub mtime: Time,
    /// The last change of content or metadata; only the kernel sets it.
    pub ctime: Time,
    pub inode: u64,
    pub device: u64,
    pub mode: u32,
}

impl Stat {
    // The fields have other types on other architectures.
    #[allow(clippy::unnecessary_cast)]
    pub fn of(stat: &rustix::fs::Stat) -> Self {
        Stat {
            size: stat.st_size as u64,
            mtime: Time::of((stat.st_mtime as i64, stat.st_mtime_nsec as i64)),
            ctime: Time::of((stat.st_ctime as i64, stat.st_ctime_nsec as i64)),
            inode: stat.st_ino as u64,
            device: stat.st_dev as u64,
            mode: stat.st_mode as u32,
        }
    }
}

/// What the cache has for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    Dir,
    /// An ignored directory that was entered because a `.decreeignore` may keep something in it.
    IgnoredDir,
    /// A link, with the hash of its target.
    Link(ContentHash),
    /// A file as it was when its content was read. It is trusted if its times are not racy.
    File {
        stat: Stat,
        hash: ContentHash,
        /// Without its owner, which every `stat` has.
        attributes: Attributes,
        trusted: bool,
    },
}

/// The order of two entries of a directory (name, whether it is a directory) in a list sorted by whole paths.
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

/// The cache of the last capture, on disk.
#[derive(Default)]
pub struct StatCache {
    bytes: Option<CacheBytes>,
    dirs: HashMap<Box<[u8]>, Block>,
    /// The packs that have the content of the cached files.
    pub packs: Vec<PackStamp>,
}

/// The blocks of a cache.
enum CacheBytes {
    /// All of them: a system call for each directory would take longer.
    Read(Arc<Vec<u8>>),
    /// In the file, as there are many.
    InFile(File),
}

impl CacheBytes {
    fn block(&self, offset: u64, length: u32) -> Option<BlockBytes> {
        let length = length as usize;
        match self {
            CacheBytes::Read(bytes) => {
                let start = usize::try_from(offset).ok()?;
                let end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
                Some(BlockBytes { whole: Arc::clone(bytes), range: start..end })
            }
            CacheBytes::InFile(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(BlockBytes { whole: Arc::new(bytes), range: 0..length })
            }
        }
    }
}

/// The entries of a directory, encoded: a part of the whole cache, or read on their own.
struct BlockBytes {
    whole: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }
}

/// Where the entries of a directory are in the file.
struct Block {
    fingerprint: [u8; 16],
    listed: Option<Stat>,
    offset: u64,
    length: u32,
    checksum: u32,
}

/// The cached entries of one directory.
pub struct CachedDir {
    fingerprint: [u8; 16],
    /// What the directory was when it had these names and no others.
    listed: Option<Stat>,
    bytes: BlockBytes,
    /// The offset of each entry.
    starts: Vec<u32>,
    /// The length of all names together.
    names_len: usize,
}

impl CachedDir {
    fn decode(block: &Block, bytes: BlockBytes) -> Option<Self> {
        let mut starts = Vec::with_capacity(bytes.len() / TYPICAL_ENTRY_LEN);
        let (mut input, mut names_len) = (Decoder(&bytes), 0);
        while !input.0.is_empty() {
            starts.push(u32::try_from(bytes.len() - input.0.len()).ok()?);
            names_len += input.skip_entry()?;
        }
        Some(CachedDir { fingerprint: block.fingerprint, listed: block.listed, bytes, starts, names_len })
    }

    /// Whether the entries are all names of a directory with this `stat` result.
    pub fn is_listing_of(&self, dir: &Stat) -> bool {
        self.listed.as_ref() == Some(dir)
    }

    /// The names with their kinds, in [`path_order`].
    pub fn names(&self) -> impl Iterator<Item = (&[u8], PathKind)> {
        self.starts.iter().filter_map(|&start| {
            let (tag, name) = Decoder(&self.bytes[start as usize..]).name()?;
            let kind = match tag {
                1 => PathKind::Symlink,
                tag if tag_is_dir(tag) => PathKind::Dir,
                _ => PathKind::File,
            };
            Some((name, kind))
        })
    }

    /// The entry at this place among the names.
    pub fn at(&self, place: usize) -> Option<CacheLookup> {
        Decoder(&self.bytes[*self.starts.get(place)? as usize..]).entry()
    }

    /// Whether its entries were visible under these rules.
    pub fn has_rules(&self, fingerprint: &[u8; 16]) -> bool {
        self.fingerprint == *fingerprint
    }

    pub fn find(&self, name: &[u8], is_dir: bool) -> Option<CacheLookup> {
        let input = |start: u32| Decoder(&self.bytes[start as usize..]);
        let order = |&start: &u32| {
            let (known, known_is_dir) =
                input(start).name().map_or((&[][..], false), |(tag, name)| (name, tag_is_dir(tag)));
            path_order((known, known_is_dir), (name, is_dir))
        };
        let at = self.starts.binary_search_by(order).ok()?;
        input(self.starts[at]).entry()
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn names_len(&self) -> usize {
        self.names_len
    }
}

impl StatCache {
    pub fn dir_count(&self) -> usize {
        self.dirs.len()
    }

    /// Reads the entries of a directory (empty: the root).
    pub fn dir(&self, path: &[u8]) -> Option<CachedDir> {
        let block = self.dirs.get(path)?;
        let bytes = self.bytes.as_ref()?.block(block.offset, block.length)?;
        if crc32fast::hash(&bytes) != block.checksum {
            return None;
        }
        CachedDir::decode(block, bytes)
    }

    fn open(file: File) -> Option<Self> {
        let mut header = [0; HEADER.len()];
        file.read_exact_at(&mut header, 0).ok()?;
        let footer_at = file.metadata().ok()?.len().checked_sub(FOOTER_LEN)?;
        let mut footer = [0; FOOTER_LEN as usize];
        file.read_exact_at(&mut footer, footer_at).ok()?;
        let mut footer = Decoder(&footer);
        let (table_at, checksum) = (footer.u64()?, footer.u32()?);
        let mut table = vec![0; usize::try_from(footer_at.checked_sub(table_at)?).ok()?];
        file.read_exact_at(&mut table, table_at).ok()?;
        let has_listed = &header == HEADER;
        if !(has_listed || &header == HEADER_3) || crc32fast::hash(&table) != checksum {
            return None;
        }
        let mut input = Decoder(&table);
        let mut packs = Vec::new();
        for _ in 0..input.u32()? {
            let id = ContentHash(input.array()?);
            packs.push(PackStamp { id, size: input.u64()? });
        }
        let mut dirs = HashMap::new();
        while !input.0.is_empty() {
            let length = input.u32()? as usize;
            let path = input.take(length)?.into();
            let fingerprint = input.array()?;
            let (offset, length, checksum) = (input.u64()?, input.u32()?, input.u32()?);
            let listed = if has_listed && input.array()? == [1] { Some(input.stat()?) } else { None };
            dirs.insert(path, Block { fingerprint, listed, offset, length, checksum });
        }
        let bytes = if table_at <= MAX_READ {
            let mut bytes = vec![0; usize::try_from(table_at).ok()?];
            file.read_exact_at(&mut bytes, 0).ok()?;
            CacheBytes::Read(Arc::new(bytes))
        } else {
            CacheBytes::InFile(file)
        };
        Some(StatCache { bytes: Some(bytes), dirs, packs })
    }
}

/// A cache being written, directory by directory.
pub struct CacheWriter {
    file: AtomicFile,
    path: PathBuf,
    /// The number of bytes written so far.
    length: u64,
    /// Written behind the blocks.
    table: Vec<u8>,
}

impl CacheWriter {
    /// Begins a cache of files whose content is in these packs.
    pub fn create(path: &Path, packs: &[PackStamp]) -> Result<Self> {
        let mut file = AtomicFile::create(path)?;
        file.write_all(HEADER).at("write", path)?;
        let mut table = Vec::new();
        table.extend((packs.len() as u32).to_le_bytes());
        for pack in packs {
            table.extend(pack.id.0);
            table.extend(pack.size.to_le_bytes());
        }
        Ok(CacheWriter { file, path: path.to_owned(), length: HEADER.len() as u64, table })
    }

    /// Adds a directory: its entries in [`path_order`]. `listed` is what it was when it had so many names.
    pub fn dir<'e>(
        &mut self,
        path: &[u8],
        fingerprint: &[u8; 16],
        listed: Option<(&Stat, usize)>,
        entries: impl Iterator<Item = (&'e [u8], CacheLookup)>,
    ) -> Result<()> {
        let mut block = Vec::new();
        let mut count = 0;
        for (name, known) in entries {
            encode(&mut block, name, &known);
            count += 1;
        }
        // One that was not cached, as a file that vanished before it was read, would be missed.
        let listed = listed.filter(|(_, names)| *names == count).map(|(stat, _)| stat);
        // A directory with more than 4 GiB of entries is not cached.
        let Ok(length) = u32::try_from(block.len()) else { return Ok(()) };
        self.file.write_all(&block).at("write", &self.path)?;
        self.table.extend((path.len() as u32).to_le_bytes());
        self.table.extend(path);
        self.table.extend(fingerprint);
        self.table.extend(self.length.to_le_bytes());
        self.table.extend(length.to_le_bytes());
        self.table.extend(crc32fast::hash(&block).to_le_bytes());
        self.table.push(u8::from(listed.is_some()));
        listed.iter().for_each(|stat| encode_stat(&mut self.table, stat));
        self.length += u64::from(length);
        Ok(())
    }

    pub fn commit(mut self) -> Result<()> {
        let checksum = crc32fast::hash(&self.table);
        self.table.extend(self.length.to_le_bytes());
        self.table.extend(checksum.to_le_bytes());
        self.file.write_all(&self.table).at("write", &self.path)?;
        self.file.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write_sample(path: &Path) {
        let pack = PackStamp { id: ContentHash::of(b"pack"), size: 7 };
        let mut writer = CacheWriter::create(path, &[pack]).unwrap();
        let file = CacheLookup::File {
            stat: Stat { size: 3, inode: 9, ..Stat::default() },
            hash: ContentHash::of(b"abc"),
            attributes: Attributes::parse("user.x:YQ==").unwrap(),
            trusted: true,
        };
        let link = CacheLookup::Link(ContentHash::of(b"target"));
        let entries: [(&[u8], CacheLookup); 3] = [(b"a.c", file), (b"a", CacheLookup::Dir), (b"b", link)];
        let listed = Stat { inode: 7, ctime: Time(5), ..Stat::default() };
        writer.dir(b"src", &[1; 16], Some((&listed, 3)), entries.into_iter()).unwrap();
        writer.commit().unwrap();
    }

    #[test]
    fn what_was_written_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        write_sample(&path);
        let cache = CacheFile::new(&path, dir.path()).load();
        assert_eq!(cache.packs.len(), 1);
        let src = cache.dir(b"src").expect("it was written");
        assert!(src.has_rules(&[1; 16]) && !src.has_rules(&[2; 16]));
        assert!(matches!(src.find(b"a.c", false), Some(CacheLookup::File { trusted: true, .. })));
        assert_eq!(src.find(b"a", true), Some(CacheLookup::Dir));
        assert_eq!(src.find(b"a", false), None);
        assert_eq!(src.find(b"b", false), Some(CacheLookup::Link(ContentHash::of(b"target"))));
        assert!(cache.dir(b"").is_none());
        assert!(src.is_listing_of(&Stat { inode: 7, ctime: Time(5), ..Stat::default() }));
        assert!(!src.is_listing_of(&Stat { inode: 7, ctime: Time(6), ..Stat::default() }));
        let names: Vec<_> = src.names().collect();
        let expected: [(&[u8], _); 3] =
            [(b"a.c", PathKind::File), (b"a", PathKind::Dir), (b"b", PathKind::Symlink)];
        assert_eq!(names, expected);
        assert_eq!(src.at(1), Some(CacheLookup::Dir));
        assert_eq!(src.at(3), None);
    }

    #[test]
    fn a_damaged_cache_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        write_sample(&path);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(CacheFile::new(&path, dir.path()).load().dir(b"src").is_none(), "byte {at}");
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert_eq!(CacheFile::new(&path, dir.path()).load().dir_count(), 0);
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
