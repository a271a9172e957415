//! Which thread adds which content to a new pack: every hash is added once, by one thread.
//!
//! There may be millions, so the list of claimed blobs also becomes the pack's index: a blob is claimed first, and
//! placed when its frame is written.

use super::pack::Blob;
use crate::checkpoint::hash::ContentHash;

/// All contents that were claimed so far.
#[derive(Default)]
pub struct PendingBlobs {
    /// One per hash, in the order they were claimed.
    blobs: Vec<Blob>,
    /// A hash table with linear probing: the number of a blob plus one, or zero for a free slot.
    table: Vec<u32>,
    /// Claimed blobs that are not added yet.
    open: Vec<u32>,
    /// Blobs whose claim was dropped because the file had changed.
    abandoned: Vec<u32>,
}

/// The answer to a claim.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// The caller has to add it, under this number.
    Granted(u32),
    /// It was added already.
    Added,
    /// Another thread has claimed it and is not done.
    Busy,
}

impl PendingBlobs {
    pub fn claim(&mut self, hash: &ContentHash) -> ClaimState {
        // At most three quarters full.
        if (self.blobs.len() + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        let slot = self.find(hash);
        let Some(number) = self.table[slot].checked_sub(1) else {
            let number = u32::try_from(self.blobs.len()).expect("fewer than 2^32 contents");
            self.blobs.push(Blob { hash: *hash, frame: 0, offset: 0, size: 0 });
            self.table[slot] = number + 1;
            self.open.push(number);
            return ClaimState::Granted(number);
        };
        if self.open.contains(&number) {
            return ClaimState::Busy;
        }
        match self.abandoned.iter().position(|&other| other == number) {
            Some(at) => {
                self.abandoned.swap_remove(at);
                self.open.push(number);
                ClaimState::Granted(number)
            }
            None => ClaimState::Added,
        }
    }

    /// Ends a claim: the content was added.
    pub fn fulfil(&mut self, number: u32) {
        self.open.retain(|&other| other != number);
    }

    /// Ends a claim without the content: the next thread that finds it may claim it.
    pub fn abandon(&mut self, number: u32) {
        self.fulfil(number);
        self.abandoned.push(number);
    }

    /// Records where a content is in the pack.
    pub fn place(&mut self, number: u32, frame: u32, offset: u32, size: u64) {
        let blob = &mut self.blobs[number as usize];
        *blob = Blob { hash: blob.hash, frame, offset, size };
    }

    /// All contents that were added.
    pub fn into_blobs(mut self) -> Vec<Blob> {
        self.abandoned.sort_unstable_by(|a, b| b.cmp(a));
        for number in self.abandoned {
            self.blobs.swap_remove(number as usize);
        }
        self.blobs
    }

    /// Makes room for so many more contents at once: buffers that grow leave gaps in memory.
    pub fn reserve(&mut self, contents: usize) {
        self.blobs.reserve_exact(contents);
        self.resize_table(((self.blobs.len() + contents + 1) * 4 / 3 + 1).next_power_of_two());
    }

    fn grow(&mut self) {
        self.resize_table(self.table.len() * 2);
    }

    fn resize_table(&mut self, slots: usize) {
        if slots <= self.table.len() && !self.table.is_empty() {
            return;
        }
        self.table = vec![0; slots.max(1 << 10)];
        for number in 0..self.blobs.len() {
            let slot = self.find(&self.blobs[number].hash);
            self.table[slot] = number as u32 + 1;
        }
    }

    /// The slot of a hash in the table, or the free slot where it belongs.
    fn find(&self, hash: &ContentHash) -> usize {
        let mask = self.table.len() - 1;
        let start = u64::from_le_bytes(*hash.0.first_chunk().expect("a hash is longer"));
        let mut slot = start as usize & mask;
        while let Some(number) = self.table[slot].checked_sub(1)
            && self.blobs[number as usize].hash != *hash
        {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_is_claimed_once() {
        let mut blobs = PendingBlobs::default();
        let hashes: Vec<_> = (0u32..5000).map(|n| ContentHash::of(&n.to_le_bytes())).collect();
        for (hash, number) in hashes.iter().zip(0..) {
            assert_eq!(blobs.claim(hash), ClaimState::Granted(number));
            assert_eq!(blobs.claim(hash), ClaimState::Busy);
            blobs.fulfil(number);
            blobs.place(number, 1, number, 4);
        }
        assert!(hashes.iter().all(|hash| blobs.claim(hash) == ClaimState::Added));
        blobs.abandon(7);
        blobs.abandon(4999);
        assert_eq!(blobs.claim(&hashes[7]), ClaimState::Granted(7));
        blobs.fulfil(7);
        let added = blobs.into_blobs();
        assert_eq!(added.len(), 4999);
        assert!(added.iter().all(|blob| hashes[blob.offset as usize] == blob.hash));
    }
}
