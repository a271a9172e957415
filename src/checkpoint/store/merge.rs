//! Merging packs by itself: every capture that stores something adds a pack, every command opens all of them, and a run holds all of
//! them. So there must be few.
//!
//! Packs are in tiers by size. When a tier has [`FAN_IN`] packs, they and all smaller ones become one pack of a higher tier. So a content
//! is copied once per tier at most, and the cost of a capture grows with the logarithm of the store. Frames are copied one by one, as they
//! are compressed.
//!
//! Nothing is dropped, and a pack is removed only when a durable pack has all of its contents. So a kill at any moment loses nothing, and
//! two projects may merge a store that they share. A lock on the directory keeps them from doing the same work twice. A pack that is
//! damaged stays where it is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Store;
use super::pack::{Pack, damaged_pack, read_index};
use crate::error::{IoContext, Result};
use crate::fs::atomic;

/// The upper limits of the tiers. Larger packs stay as they are.
const TIERS: [u64; 5] = [64 << 10, 512 << 10, 4 << 20, 32 << 20, 128 << 20];
/// This many packs of a tier are merged.
const FAN_IN: usize = 8;
/// How many bytes a capture copies at most: a full tier, which takes a second or two. The next capture goes on.
const MAX_BYTES: u64 = FAN_IN as u64 * TIERS[TIERS.len() - 1];
/// So much of the disk's free space has to remain: a merge needs room for a second copy.
const MAX_SHARE_OF_FREE: u64 = 4;

impl Store {
    /// Merges packs where there are many of a tier. Returns how many are gone.
    pub fn merge_tiers(&self) -> Result<usize> {
        let (mut gone, mut left) = (0, MAX_BYTES);
        while left > 0 {
            let batch = choose(self.pack_sizes()?, left);
            let bytes: u64 = batch.iter().map(|(size, _)| size).sum();
            if batch.len() < 2 || bytes > self.free_space()? / MAX_SHARE_OF_FREE {
                break;
            }
            // Another project that shares the store is merging it.
            let Some(_lock) = self.lock_dir()? else { break };
            let merged = self.merge(batch.iter().map(|(_, path)| path))?;
            if merged == 0 {
                break;
            }
            gone += merged;
            left = left.saturating_sub(bytes);
        }
        Ok(gone)
    }

    fn free_space(&self) -> Result<u64> {
        let disk = rustix::fs::statvfs(&self.dir).map_err(io::Error::from).at("read", &self.dir)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
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

    /// Copies packs into a new one and removes them. Returns how many are gone.
    fn merge<'p>(&self, paths: impl Iterator<Item = &'p PathBuf>) -> Result<usize> {
        let writer = self.pack_writer();
        let (mut copied, mut contents) = (Vec::new(), Vec::new());
        for path in paths {
            let Some(pack) = self.open_intact(path)? else { continue };
            writer.copy_pack(&pack)?;
            contents.extend(pack.index.blobs().map(|blob| blob.hash));
            copied.push(path);
        }
        if copied.len() < 2 {
            return Ok(0);
        }
        let Some(new) = writer.finish()? else { return Ok(0) };
        let index = File::open(&new).and_then(|file| read_index(&file));
        let index = index.map_err(|error| damaged_pack(&new, error))?;
        if !contents.iter().all(|hash| index.find(hash).is_some()) {
            return Err(damaged_pack(&new, "it lacks contents of the packs that it replaces"));
        }
        let mut gone = 0;
        for path in copied.into_iter().filter(|path| **path != new) {
            fs::remove_file(path).if_exists().at("remove", path)?;
            gone += 1;
        }
        atomic::sync_dir(&self.dir)?;
        self.discard_packs();
        Ok(gone)
    }

    /// Opens a pack and reads all of it; `None` if it is gone or damaged. What is copied after that is not read from the disk again.
    fn open_intact(&self, path: &Path) -> Result<Option<Pack>> {
        let Some(file) = File::open(path).if_exists().at("open", path)? else { return Ok(None) };
        let Ok(index) = read_index(&file) else { return Ok(None) };
        let pack = Pack { path: path.to_owned(), index: Arc::new(index), held: None };
        Ok(self.is_intact(&pack)?.then_some(pack))
    }
}

/// The packs to merge, given all packs sorted by size: the smallest, up to the highest tier that is full.
fn choose(packs: Vec<(u64, PathBuf)>, max_bytes: u64) -> Vec<(u64, PathBuf)> {
    let below = |limit: u64| packs.partition_point(|(size, _)| *size < limit);
    let mut end = 0;
    let mut low = 0;
    for limit in TIERS {
        let high = below(limit);
        if high - low >= FAN_IN {
            end = high;
        }
        low = high;
    }
    let mut bytes = 0;
    let fits = |(size, _): &(u64, PathBuf)| {
        bytes += size;
        bytes <= max_bytes
    };
    packs.into_iter().take(end).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::hash::ContentHash;

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
            store.merge_tiers().unwrap();
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
        let large = |size: u64| (0..99).map(|n| pack(size, n)).collect();
        assert!(choose(large(128 << 20), MAX_BYTES).is_empty());
        // A full tier fits into one merge, whatever the sizes in it: otherwise a few packs would be copied again and again.
        for limit in TIERS {
            assert!(choose(large(limit - 1), MAX_BYTES).len() >= FAN_IN);
        }
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
        assert_eq!(store.merge_tiers().unwrap(), 8);
        assert_eq!(store.pack_paths().unwrap().len(), 2);
        assert_eq!(fs::read(&damaged).unwrap(), bytes);
    }
}
