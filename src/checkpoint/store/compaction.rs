//! Dropping what nothing names: packs go, or are rewritten without it; and many small packs become one.
//!
//! A pack that holds nothing needed is removed. One of which a quarter or more is garbage is rewritten: three bytes are
//! copied at the most to get one back, and no store is ever more than a third larger than it has to be. Every capture adds a pack, and
//! every command opens all of them; so small ones are merged as soon as there are several.
//!
//! What is copied is checked against its hash. A new pack is whole, durable and read back before any that it stands in for
//! is removed, so whoever is killed has lost nothing: at worst content is there twice, which the next one finds. Content that
//! is there twice is read before one of the two goes: the one that stays has to be good.
//!
//! Packs are rewritten in batches, so that no more room is needed than for one of them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::ContentReader;
use super::hash_list::HashList;
use super::pack::{Blob, Weight};
use super::read::{Pack, Packs, Store, way_out};
use super::write::{FRAME, FrameWriter, PackWriter};
use crate::checkpoint::hash::ContentHash;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;
use crate::interrupt;

/// A pack is rewritten if one part in so many, or more, is garbage.
const GARBAGE: u64 = 4;
/// Packs below this size are small: read and written again in an instant, so it does not matter if that happens twice.
const SMALL: u64 = 4 << 20;
/// With so many small packs, they are merged. Fewer are not worth a look.
const MANY: usize = 8;
/// About as much is written before anything is removed.
const BATCH: u64 = 1 << 30;

/// What there is to be done in a store, worked out and not yet done.
pub struct CompactionPlan<'s> {
    store: &'s Store,
    packs: Arc<Packs>,
    named: HashList,
    /// For each that is named: the number of the pack that it stays in and one, or nothing if the store lacks it.
    keeper: Vec<u32>,
    /// What is in more than one pack.
    doubles: Vec<ContentHash>,
    /// Packs with nothing needed.
    idle: Vec<usize>,
    /// Packs to be rewritten together.
    batches: Vec<Vec<usize>>,
    expected: CompactionReport,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// Packs that held nothing needed.
    pub removed: usize,
    /// Packs of which only what is needed was kept, in others.
    pub rewritten: usize,
    /// Contents that are gone.
    pub dropped: u64,
    /// Bytes of all packs, before.
    pub before: u64,
    /// The same, after. For something not yet done, an estimate.
    pub after: u64,
}

impl CompactionReport {
    /// The bytes that come back.
    pub fn freed(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }
}

impl Store {
    /// Works out what could go if only this is needed. Fails if any pack cannot be read: then nobody knows.
    pub fn tidying(&self, named: HashList) -> Result<CompactionPlan<'_>> {
        self.refuse_damaged()?;
        let packs = self.packs()?;
        let mut found = Vec::new();
        for (number, pack) in packs.iter().enumerate() {
            let size = match fs::metadata(&pack.path) {
                // Who only looks may be overtaken by somebody who tidies up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                result => result.at("read", &pack.path)?.len(),
            };
            found.push((number, size, weigh(pack, |blob| named.has(&blob.hash))?));
        }
        let before = found.iter().map(|(_, size, _)| size).sum();
        // What is in several packs stays in the one with the least garbage: that is the one that was written last.
        found.sort_by(|(a, size_a, weight_a), (b, size_b, weight_b)| {
            let share = |size: u64, weight: &Weight| size.saturating_sub(weight.bytes) as f64 / size as f64;
            let shares = share(*size_a, weight_a).total_cmp(&share(*size_b, weight_b));
            shares.then(size_b.cmp(size_a)).then(packs[*a].path.cmp(&packs[*b].path))
        });
        let mut keeper = vec![0; named.len()];
        let mut doubles = Vec::new();
        let mut plan = Sorted::default();
        let mut expected = CompactionReport { before, after: before, ..CompactionReport::default() };
        for (number, size, _) in found {
            let weight = weigh(&packs[number], |blob| match named.position(&blob.hash) {
                Some(place) if keeper[place] == 0 => {
                    keeper[place] = u32::try_from(number + 1).expect("fewer than 2^32 packs");
                    true
                }
                Some(_) => {
                    doubles.push(blob.hash);
                    false
                }
                None => false,
            })?;
            plan.add(number, size, weight);
        }
        doubles.sort_unstable();
        doubles.dedup();
        let (idle, batches) = plan.finish();
        for (number, size, weight) in idle.iter().chain(batches.iter().flatten()) {
            let kept = if weight.contents == 0 { 0 } else { weight.bytes };
            expected.after -= size.saturating_sub(kept);
            expected.dropped += (packs[*number].index.blob_count() - weight.contents) as u64;
        }
        let number = |(number, _, _): &Weighed| *number;
        let idle: Vec<usize> = idle.iter().map(number).collect();
        let batches: Vec<Vec<usize>> =
            batches.iter().map(|batch| batch.iter().map(number).collect()).collect();
        expected.removed = idle.len();
        expected.rewritten = batches.iter().map(Vec::len).sum();
        Ok(CompactionPlan { store: self, packs, named, keeper, doubles, idle, batches, expected })
    }
}

fn weigh(pack: &Pack, keeps: impl FnMut(&Blob) -> bool) -> Result<Weight> {
    pack.index.weigh(keeps).ok_or_else(|| {
        Error::integrity(format!("the store is damaged: {}: its index makes no sense", pack.path.display()))
            .hint(way_out(&pack.path))
    })
}

/// A pack's number and size, and what of it is to be kept.
type Weighed = (usize, u64, Weight);

/// Packs by what is to be done with them.
#[derive(Default)]
struct Sorted {
    idle: Vec<Weighed>,
    rewrite: Vec<Weighed>,
    small: Vec<Weighed>,
}

impl Sorted {
    fn add(&mut self, number: usize, size: u64, weight: Weight) {
        let list = match weight {
            Weight { contents: 0, .. } => &mut self.idle,
            Weight { bytes, .. } if size.saturating_sub(bytes) >= size.div_ceil(GARBAGE) => &mut self.rewrite,
            _ if size < SMALL => &mut self.small,
            _ => return,
        };
        list.push((number, size, weight));
    }

    /// What goes, and what is rewritten together.
    fn finish(mut self) -> (Vec<Weighed>, Vec<Vec<Weighed>>) {
        if self.small.len() + usize::from(!self.rewrite.is_empty()) >= MANY {
            self.rewrite.append(&mut self.small);
        }
        let mut batches: Vec<Vec<Weighed>> = Vec::new();
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
        (self.idle, batches)
    }
}

impl CompactionPlan<'_> {
    /// What would come of it. What is removed is known to the byte. What is rewritten is taken to have its share of the frame
    /// it is in: that is exact for whole frames, and too much if many small packs become one, as what shares a frame is packed
    /// better. Only if what goes compressed far better than what stays in the same frame, it is too little.
    pub fn expected(&self) -> CompactionReport {
        self.expected
    }

    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.batches.is_empty()
    }

    /// Does it. Who calls this holds the project's lock, and nobody else uses the store.
    pub fn carry_out(&self) -> Result<CompactionReport> {
        self.check_doubles().map_err(|error| error.detail("nothing was dropped"))?;
        // First what needs no room.
        self.remove(self.idle.iter().map(|&number| self.packs[number].path.as_path()))?;
        for batch in &self.batches {
            let new = self.rewrite(batch).map_err(|error| error.detail("nothing that is needed is lost"))?;
            let old = batch.iter().map(|&number| self.packs[number].path.as_path());
            self.remove(old.filter(|path| Some(*path) != new.as_deref()))?;
        }
        let after = self.store.stamps()?.iter().map(|stamp| stamp.size).sum();
        Ok(CompactionReport { after, ..self.expected })
    }

    fn keeps(&self, number: usize, blob: &Blob) -> bool {
        self.named.position(&blob.hash).is_some_and(|place| self.keeper[place] as usize == number + 1)
    }

    fn reader(&self, number: usize, blob: Blob) -> ContentReader<'_> {
        ContentReader::new(self.store, Arc::clone(&self.packs), number, blob)
    }

    /// Reads what is there twice, from where it is to stay.
    fn check_doubles(&self) -> Result<()> {
        let mut places: Vec<(usize, Blob)> = self
            .doubles
            .iter()
            .filter_map(|hash| {
                let number = self.keeper[self.named.position(hash)?].checked_sub(1)? as usize;
                Some((number, self.packs[number].index.find(hash)?))
            })
            .collect();
        places.sort_unstable_by_key(|(number, blob)| (*number, blob.frame, blob.offset));
        for (number, blob) in places {
            interrupt::check()?;
            io::copy(&mut self.reader(number, blob), &mut io::sink()).at("read", self.store.dir())?;
        }
        Ok(())
    }

    /// Writes what is needed of some packs into a new one, and looks whether it is all there.
    fn rewrite(&self, batch: &[usize]) -> Result<Option<PathBuf>> {
        let deposit = self.store.deposit();
        let mut filler = deposit.filler()?;
        for &number in batch {
            // In the order they were stored, so that neighbours stay neighbours.
            let mut blobs: Vec<Blob> = self.kept(number).collect();
            blobs.sort_unstable_by_key(|blob| (blob.frame, blob.offset));
            for blob in blobs {
                interrupt::check()?;
                self.copy(&deposit, &mut filler, number, blob)?;
            }
        }
        filler.flush()?;
        drop(filler);
        let new = deposit.finish()?;
        let index =
            new.as_ref().map(|path| Pack::open(path.clone(), false)).transpose()?.map(|pack| pack.index);
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
        deposit: &PackWriter<'_>,
        filler: &mut FrameWriter<'_, '_>,
        number: usize,
        blob: Blob,
    ) -> Result<()> {
        let Some(claim) = deposit.claim_again(&blob.hash) else { return Ok(()) };
        let mut reader = self.reader(number, blob);
        // Either way the reader's end is an error if it was not what its hash says.
        if blob.size > FRAME as u64 {
            return filler.add_stream(claim, &mut reader).map(drop);
        }
        let mut content = Vec::new();
        reader.read_to_end(&mut content).at("read", self.store.dir())?;
        filler.add(claim, &content)
    }

    fn remove<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Result<()> {
        let mut any = false;
        for path in paths {
            any = true;
            match fs::remove_file(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.at("remove", path)?,
            }
        }
        self.store.reload();
        if any { atomic::sync_dir(self.store.dir()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
