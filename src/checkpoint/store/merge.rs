//! Merging small packs automatically: every capture that stores something adds a pack, every command opens all of them, and a run holds
//! all of them. So there must be few.
//!
//! Packs are in tiers by size. When a tier has [`FAN_IN`] packs, they and all smaller ones become one pack, mostly of a higher tier. So a
//! content is copied about once per tier, and the cost of a capture grows with the logarithm of the store. Frames are copied one by
//! one, as they are compressed.
//!
//! Nothing is dropped, and a pack is removed only when a durable pack has all of its contents. So a kill at any moment loses nothing, and
//! two projects may merge a store that they share. A lock on the directory keeps them from doing the same work twice. A pack that is
//! damaged stays where it is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::ContentReader;
use super::directory::Store;
use super::pack::{Blob, Pack, Packs, damaged_pack, read_index};
use crate::checkpoint::hash::ContentHash;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::interrupt;

/// The upper limits of the tiers. Larger packs stay as they are: a merge of eight of them would keep a message waiting for seconds.
const TIERS: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, 32 << 20];
/// This many packs of a tier are merged.
const FAN_IN: usize = 8;
/// How many bytes a capture copies at most; the next one goes on. A full tier fits, with all smaller packs that were not merged before.
const MAX_BYTES: u64 = 320 << 20;
/// A merge needs room for a second copy, and may take one part in so many of the disk's free space.
const FREE_PARTS: u64 = 4;
/// Two packs are merged even if they have more contents than this, each of which takes about 150 bytes of memory meanwhile.
const MAX_CONTENTS: usize = 250_000;

/// What a merge did.
#[derive(Default)]
struct Merged {
    /// Packs that are gone.
    gone: usize,
    /// The bytes of those that were copied.
    bytes: u64,
}

impl Store {
    /// Merges small packs where there are many. Returns how many are gone.
    pub fn merge_small(&self) -> Result<usize> {
        let (mut gone, mut left) = (0, MAX_BYTES);
        while left > 0 {
            let batch = choose(self.pack_sizes()?, left.min(self.free_space()? / FREE_PARTS));
            if batch.is_empty() {
                break;
            }
            // Another project that shares the store is merging it.
            let Some(_lock) = self.lock_dir()? else { break };
            let merged = self.merge(&batch)?;
            if merged.gone == 0 {
                break;
            }
            gone += merged.gone;
            left = left.saturating_sub(merged.bytes);
        }
        Ok(gone)
    }

    fn free_space(&self) -> Result<u64> {
        let disk = rustix::fs::statvfs(&self.dir).map_err(io::Error::from).at("read", &self.dir)?;
        // Not every file system reports it.
        Ok(if disk.f_blocks == 0 { u64::MAX } else { disk.f_bavail.saturating_mul(disk.f_frsize) })
    }

    fn pack_sizes(&self) -> Result<Vec<(u64, PathBuf)>> {
        let mut sizes = Vec::new();
        for path in self.pack_paths()? {
            if let Some(found) = fs::metadata(&path).if_exists().at("read", &path)? {
                sizes.push((found.len(), path));
            }
        }
        sizes.sort();
        Ok(sizes)
    }

    fn lock_dir(&self) -> Result<Option<File>> {
        let dir = File::open(&self.dir).at("open", &self.dir)?;
        match dir.try_lock() {
            Ok(()) => Ok(Some(dir)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error).at("lock", &self.dir),
        }
    }

    /// Copies packs into a new one and removes them.
    fn merge(&self, batch: &[(u64, PathBuf)]) -> Result<Merged> {
        let (packs, bytes) = self.open_batch(batch)?;
        if packs.len() < 2 {
            return Ok(Merged::default());
        }
        let writer = self.pack_writer();
        let mut duplicates = Vec::new();
        for pack in &packs {
            duplicates.extend(writer.copy_pack(pack)?);
        }
        let Some(new) = writer.finish()? else { return Ok(Merged::default()) };
        let checked = self.check_replaces(&new, &packs, &duplicates);
        let mut gone = 0;
        for pack in packs.iter().filter(|pack| checked.is_ok() && pack.path != new) {
            // In a directory that others share, it may belong to another user.
            gone += usize::from(fs::remove_file(&pack.path).if_exists().is_ok());
        }
        if gone == 0 && packs.iter().all(|pack| pack.path != new) {
            let _ = fs::remove_file(&new);
        }
        atomic::sync_dir(&self.dir)?;
        self.discard_packs();
        checked.map(|()| Merged { gone, bytes })
    }

    /// Opens the packs of a batch that are intact, and adds up their sizes.
    fn open_batch(&self, batch: &[(u64, PathBuf)]) -> Result<(Vec<Pack>, u64)> {
        let (mut packs, mut bytes, mut contents) = (Vec::new(), 0, 0);
        for (size, path) in batch {
            let Some(pack) = self.open_intact(path)? else { continue };
            contents += pack.index.blob_count();
            if contents > MAX_CONTENTS && packs.len() > 1 {
                break;
            }
            bytes += size;
            packs.push(pack);
        }
        Ok((packs, bytes))
    }

    /// Fails if a new pack lacks contents of those that it replaces, or has a damaged copy of one that was in two of them.
    fn check_replaces(&self, new: &Path, old: &[Pack], duplicates: &[ContentHash]) -> Result<()> {
        let index = File::open(new).and_then(|file| read_index(&file));
        let index = Arc::new(index.map_err(|error| damaged_pack(new, error))?);
        let has = |blob: Blob| index.find(&blob.hash).is_some();
        if !old.iter().all(|pack| pack.index.blobs().all(has)) {
            return Err(damaged_pack(new, "it lacks contents of the packs that it replaces"));
        }
        let pack = Pack { path: new.to_owned(), index: Arc::clone(&index), held: None };
        let packs = Arc::new(Packs { list: vec![pack], damaged: Vec::new() });
        for blob in duplicates.iter().filter_map(|hash| index.find(hash)) {
            interrupt::check()?;
            let mut reader = ContentReader::new(self, (Arc::clone(&packs), 0, blob)).only_this_copy();
            io::copy(&mut reader, &mut io::sink()).at("read", new)?;
        }
        Ok(())
    }

    /// Opens a pack and reads it back; `None` if it is gone or damaged.
    fn open_intact(&self, path: &Path) -> Result<Option<Pack>> {
        let Some(file) = File::open(path).if_exists().at("open", path)? else { return Ok(None) };
        let Ok(index) = read_index(&file) else { return Ok(None) };
        let pack = Pack { path: path.to_owned(), index: Arc::new(index), held: None };
        Ok(self.is_intact(&pack)?.then_some(pack))
    }
}

/// The packs to merge, given all packs sorted by size: the smallest, up to the highest tier that is full, if that fits into `max_bytes`.
fn choose(packs: Vec<(u64, PathBuf)>, max_bytes: u64) -> Vec<(u64, PathBuf)> {
    let mut bytes = 0;
    let fits = |(size, _): &&(u64, PathBuf)| {
        bytes += size;
        bytes <= max_bytes
    };
    let fitting = packs.iter().take_while(fits).count();
    let (mut end, mut low) = (0, 0);
    for limit in TIERS {
        let high = packs.partition_point(|(size, _)| *size < limit);
        // Fewer of a tier than that would be copied again at every capture.
        if high.min(fitting) >= low + FAN_IN {
            end = high.min(fitting);
        }
        low = high;
    }
    packs.into_iter().take(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(store: &Store, contents: &[&[u8]]) {
        let writer = store.pack_writer();
        let mut frames = writer.frame_writer().unwrap();
        for content in contents {
            let claim = writer.claim_copy(&ContentHash::of(content)).expect("it is new to this pack");
            frames.add(claim, content).unwrap();
        }
        frames.flush().unwrap();
        drop(frames);
        writer.finish().unwrap();
    }

    fn large(n: u8) -> Vec<u8> {
        (0..1_400_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n).collect()
    }

    #[test]
    fn merged_packs_have_every_content_of_those_they_replace() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let mut all: Vec<Vec<u8>> = (0..300_u32).map(|n| n.to_le_bytes().to_vec()).collect();
        all.extend([Vec::new(), large(1), large(2)]);
        for (n, content) in all.iter().enumerate() {
            // Some contents are in two packs.
            add(&store, &[&content[..], &all[n / 2]][..if n % 5 == 0 && n > 0 { 2 } else { 1 }]);
            store.merge_small().unwrap();
            let packs = store.pack_paths().unwrap().len();
            assert!(packs < 4 * FAN_IN, "{packs} packs");
        }
        for content in &all {
            assert_eq!(store.read(&ContentHash::of(content)).unwrap(), *content);
        }
    }

    #[test]
    fn a_pack_is_copied_once_per_tier_at_most() {
        let pack = |size: u64, name: u32| (size, PathBuf::from(name.to_string()));
        let small: Vec<_> = (0..7).map(|n| pack(100, n)).collect();
        assert!(choose(small.clone(), MAX_BYTES).is_empty());
        let mut full = small.clone();
        full.push(pack(101, 8));
        full.push(pack(70 << 10, 9));
        assert_eq!(choose(full.clone(), MAX_BYTES).len(), 8);
        full.extend((10..17).map(|n| pack(80 << 10, n)));
        assert_eq!(choose(full.clone(), MAX_BYTES).len(), 16);
        assert_eq!(choose(full, 1000).len(), 8);
        let many = |size: u64| (0..99).map(|n| pack(size, n)).collect::<Vec<_>>();
        assert!(choose(many(32 << 20), MAX_BYTES).is_empty());
        // A full tier fits, whatever was not merged before.
        let mut almost_full: Vec<_> =
            TIERS.iter().flat_map(|limit| many(limit - 1).into_iter().take(7)).collect();
        assert!(choose(almost_full.clone(), MAX_BYTES).is_empty());
        almost_full.push(pack((32 << 20) - 1, 99));
        assert_eq!(choose(almost_full.clone(), MAX_BYTES).len(), almost_full.len());
        // On a disk that is almost full, the smaller tiers are merged all the same.
        almost_full.insert(0, pack(1, 100));
        assert_eq!(choose(almost_full.clone(), 100 << 20).len(), 8);
        assert!(choose(almost_full, 0).is_empty());
    }

    /// Checksums say that a content is what was written, and not that it was the right one.
    #[test]
    fn the_only_good_copy_of_a_content_is_not_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        let writer = store.pack_writer();
        let mut frames = writer.frame_writer().unwrap();
        frames.add(writer.claim_copy(&ContentHash::of(b"good")).unwrap(), b"evil").unwrap();
        frames.flush().unwrap();
        drop(frames);
        writer.finish().unwrap();
        add(&store, &[b"good", &[7; 100]]);
        (0..7_u8).for_each(|n| add(&store, &[&[n; 200]]));
        let before = store.pack_paths().unwrap();
        assert!(store.merge_small().is_err());
        assert_eq!(store.pack_paths().unwrap(), before);
        assert_eq!(Store::at(dir.path()).read(&ContentHash::of(b"good")).unwrap(), b"good");
    }

    #[test]
    fn a_damaged_pack_is_not_merged() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::at(dir.path());
        (0..9_u8).for_each(|n| add(&store, &[&[n; 100]]));
        let damaged = store.pack_paths().unwrap().pop().unwrap();
        let mut bytes = fs::read(&damaged).unwrap();
        bytes[12] ^= 1;
        fs::write(&damaged, &bytes).unwrap();
        assert_eq!(store.merge_small().unwrap(), 8);
        assert_eq!(store.pack_paths().unwrap().len(), 2);
        assert_eq!(fs::read(&damaged).unwrap(), bytes);
    }
}
