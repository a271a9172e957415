//! Dropping content that no checkpoint needs, and merging small packs.
//!
//! A pack without needed content is removed. A pack that is a quarter or more garbage is rewritten: at most three bytes are
//! copied to free one, and the store is never more than a third larger than necessary. Every capture adds a pack, and
//! every command opens all of them; so `gc` merges small packs when there are several.
//!
//! Copied content is checked against its hash. A new pack is complete, durable and read back before any pack that it
//! replaces is removed, so a kill loses nothing: at worst a content is in two packs, which the next compaction finds.
//! Before one of two copies is dropped, the other is read: the copy that stays must be intact.
//!
//! Packs are rewritten in batches, which bounds the disk space needed in addition.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::ContentReader;
use super::directory::Store;
use super::hash_list::HashList;
use super::pack::{Blob, Pack, Packs, Weight, damaged_pack, read_index};
use super::write::{FRAME, FrameWriter, PackWriter};
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::interrupt;

/// A pack is rewritten if at least one part in this many is garbage.
const GARBAGE_PARTS: u64 = 4;
/// Packs below this size are cheap enough to be rewritten again and again.
const SMALL: u64 = 4 << 20;
/// This many small packs are merged; fewer are not worth it.
const MIN_MERGE: usize = 8;
/// How many bytes to write, about, before the packs that they replace are removed.
const BATCH: u64 = 1 << 30;

/// What a compaction will do to a store.
pub struct CompactionPlan<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    needed: HashList,
    /// For each needed hash: the number of the pack that it stays in plus one, or zero if the store lacks it.
    keeper: Vec<u32>,
    /// Needed content that is in more than one pack.
    duplicates: Vec<ContentHash>,
    /// Packs without needed content.
    unused: Vec<usize>,
    /// Packs to be rewritten together.
    batches: Vec<Vec<usize>>,
    expected: CompactionReport,
}

/// What a compaction did, or is expected to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// Packs without needed content.
    pub removed: usize,
    /// Packs whose needed content was copied to a new one.
    pub rewritten: usize,
    /// Contents that were dropped.
    pub dropped: u64,
    /// Bytes of all packs before it.
    pub before: u64,
    /// Bytes of all packs after it; an estimate in a plan.
    pub after: u64,
}

impl CompactionReport {
    pub fn freed(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }
}

impl Store {
    /// Plans what to drop if only this content is needed. Fails if any pack cannot be read, as its content is unknown.
    pub fn plan_compaction(&self, needed: HashList) -> Result<CompactionPlan<'_>> {
        self.check_undamaged()?;
        let packs = self.packs()?;
        let mut found = Vec::new();
        for (number, pack) in packs.iter().enumerate() {
            // A plan that is only shown is made without the lock, so another process may compact the store.
            let size =
                fs::metadata(&pack.path).if_exists().at("read", &pack.path)?.map_or(0, |found| found.len());
            found.push((number, size, weigh(pack, |blob| needed.contains(&blob.hash))?));
        }
        let before = found.iter().map(|(_, size, _)| size).sum();
        // A content in several packs stays in the one with the least garbage: that is the one written last.
        found.sort_by(|(a, size_a, weight_a), (b, size_b, weight_b)| {
            let share = |size: u64, weight: &Weight| size.saturating_sub(weight.bytes) as f64 / size as f64;
            let shares = share(*size_a, weight_a).total_cmp(&share(*size_b, weight_b));
            shares.then(size_b.cmp(size_a)).then(packs[*a].path.cmp(&packs[*b].path))
        });
        let mut keeper = vec![0; needed.len()];
        let mut duplicates = Vec::new();
        let mut selection = PackSelection::default();
        for (number, size, _) in found {
            let weight = weigh(&packs[number], |blob| match needed.position(&blob.hash) {
                Some(at) if keeper[at] == 0 => {
                    keeper[at] = u32::try_from(number + 1).expect("fewer than 2^32 packs");
                    true
                }
                Some(_) => {
                    duplicates.push(blob.hash);
                    false
                }
                None => false,
            })?;
            selection.add(number, size, weight);
        }
        duplicates.sort_unstable();
        duplicates.dedup();
        let (unused, batches) = selection.finish();
        let expected = expect(&packs, before, &unused, &batches);
        let number = |(number, _, _): &WeighedPack| *number;
        let unused = unused.iter().map(number).collect();
        let batches = batches.iter().map(|batch| batch.iter().map(number).collect()).collect();
        Ok(CompactionPlan { store: self, packs, needed, keeper, duplicates, unused, batches, expected })
    }
}

fn expect(
    packs: &Packs,
    before: u64,
    unused: &[WeighedPack],
    batches: &[Vec<WeighedPack>],
) -> CompactionReport {
    let rewritten = batches.iter().map(Vec::len).sum();
    let removed = unused.len();
    let mut report = CompactionReport { before, after: before, removed, rewritten, dropped: 0 };
    for (number, size, weight) in unused.iter().chain(batches.iter().flatten()) {
        let kept = if weight.contents == 0 { 0 } else { weight.bytes };
        report.after -= size.saturating_sub(kept);
        report.dropped += (packs[*number].index.blob_count() - weight.contents) as u64;
    }
    report
}

fn weigh(pack: &Pack, keeps: impl FnMut(&Blob) -> bool) -> Result<Weight> {
    pack.index.weigh(keeps).ok_or_else(|| damaged_pack(&pack.path, "its index is malformed"))
}

/// A pack's number and size, and how much of it is needed.
type WeighedPack = (usize, u64, Weight);

/// Packs by what is to be done with them.
#[derive(Default)]
struct PackSelection {
    unused: Vec<WeighedPack>,
    rewrite: Vec<WeighedPack>,
    small: Vec<WeighedPack>,
}

impl PackSelection {
    fn add(&mut self, number: usize, size: u64, weight: Weight) {
        let list = match weight {
            Weight { contents: 0, .. } => &mut self.unused,
            Weight { bytes, .. } if size.saturating_sub(bytes) >= size.div_ceil(GARBAGE_PARTS) => {
                &mut self.rewrite
            }
            _ if size < SMALL => &mut self.small,
            _ => return,
        };
        list.push((number, size, weight));
    }

    /// The packs to remove, and those to rewrite together.
    fn finish(mut self) -> (Vec<WeighedPack>, Vec<Vec<WeighedPack>>) {
        if self.small.len() + usize::from(!self.rewrite.is_empty()) >= MIN_MERGE {
            self.rewrite.append(&mut self.small);
        }
        let mut batches: Vec<Vec<WeighedPack>> = Vec::new();
        let mut room = 0;
        for pack in self.rewrite {
            match batches.last_mut().filter(|_| pack.2.bytes <= room) {
                Some(batch) => batch.push(pack),
                None => {
                    batches.push(vec![pack]);
                    room = BATCH;
                }
            }
            room = room.saturating_sub(pack.2.bytes);
        }
        (self.unused, batches)
    }
}

impl CompactionPlan<'_> {
    /// The expected result. What is removed is exact. A rewritten content counts with its share of its frame: that is exact
    /// for whole frames, and too much if small packs are merged, as larger frames compress better. It is too little only if
    /// the dropped content of a frame compressed far better than the rest.
    pub fn expected(&self) -> CompactionReport {
        self.expected
    }

    /// Runs the plan. The caller holds the project's lock; no other process writes to the store.
    pub fn run(&self) -> Result<CompactionReport> {
        self.check_duplicates().map_err(|error| error.detail("nothing was dropped"))?;
        // First what needs no disk space.
        self.remove(self.unused.iter().map(|&number| self.packs[number].path.as_path()))?;
        for batch in &self.batches {
            let new = self.rewrite(batch).map_err(|error| error.detail("nothing that is needed is lost"))?;
            let old = batch.iter().map(|&number| self.packs[number].path.as_path());
            self.remove(old.filter(|path| Some(*path) != new.as_deref()))?;
        }
        let after = self.store.stamps()?.iter().map(|stamp| stamp.size).sum();
        Ok(CompactionReport { after, ..self.expected })
    }

    fn keeps(&self, number: usize, blob: &Blob) -> bool {
        self.needed.position(&blob.hash).is_some_and(|at| self.keeper[at] as usize == number + 1)
    }

    fn reader(&self, number: usize, blob: Blob) -> ContentReader<'_> {
        ContentReader::new(self.store, (Arc::clone(&self.packs), number, blob)).only_this_copy()
    }

    /// Reads each duplicate from the pack in which it stays.
    fn check_duplicates(&self) -> Result<()> {
        let mut copies: Vec<(usize, Blob)> = self
            .duplicates
            .iter()
            .filter_map(|hash| {
                let number = self.keeper[self.needed.position(hash)?].checked_sub(1)? as usize;
                Some((number, self.packs[number].index.find(hash)?))
            })
            .collect();
        copies.sort_unstable_by_key(|(number, blob)| (*number, blob.frame, blob.offset));
        for (number, blob) in copies {
            interrupt::check()?;
            io::copy(&mut self.reader(number, blob), &mut io::sink()).at("read", self.store.dir())?;
        }
        Ok(())
    }

    /// Writes the needed content of some packs into a new one, and checks that it is complete.
    fn rewrite(&self, batch: &[usize]) -> Result<Option<PathBuf>> {
        let writer = self.store.pack_writer();
        let mut frames = writer.frame_writer()?;
        for &number in batch {
            // In the order they were stored, so that related contents stay in one frame.
            let mut blobs: Vec<Blob> = self.kept(number).collect();
            blobs.sort_unstable_by_key(|blob| (blob.frame, blob.offset));
            for blob in blobs {
                interrupt::check()?;
                self.copy(&writer, &mut frames, number, blob)?;
            }
        }
        frames.flush()?;
        drop(frames);
        let new = writer.finish()?;
        let mut index = None;
        if let Some(path) = &new {
            let file = File::open(path).at("open", path)?;
            index = Some(read_index(&file).map_err(|error| damaged_pack(path, error))?);
        }
        for blob in batch.iter().flat_map(|&number| self.kept(number)) {
            if index.as_ref().and_then(|index| index.find(&blob.hash)).is_none() {
                return Err(Error::integrity(format!("the new pack lacks the content {}", blob.hash)));
            }
        }
        Ok(new)
    }

    fn kept(&self, number: usize) -> impl Iterator<Item = Blob> + '_ {
        self.packs[number].index.blobs().filter(move |blob| self.keeps(number, blob))
    }

    fn copy(
        &self,
        writer: &PackWriter<'_>,
        frames: &mut FrameWriter<'_, '_>,
        number: usize,
        blob: Blob,
    ) -> Result<()> {
        let Some(claim) = writer.claim_copy(&blob.hash) else { return Ok(()) };
        let mut reader = self.reader(number, blob);
        // In both cases the reader fails at its end if the hash does not match.
        if blob.size > FRAME as u64 {
            return frames.add_stream(claim, &mut reader).map(drop);
        }
        let mut content = Vec::new();
        reader.read_to_end(&mut content).at("read", self.store.dir())?;
        frames.add(claim, &content)
    }

    fn remove<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Result<()> {
        let mut any = false;
        for path in paths {
            any = true;
            fs::remove_file(path).if_exists().at("remove", path)?;
        }
        self.store.discard_packs();
        if any { atomic::sync_dir(self.store.dir()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
