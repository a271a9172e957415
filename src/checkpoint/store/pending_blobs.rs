//! Who adds which content: every hash once, by one thread, whatever the others find meanwhile.
//!
//! There may be millions, so the list of claims is also what becomes the pack's index: a content is claimed,
//! then placed.

use super::pack::Blob;
use crate::checkpoint::hash::ContentHash;

/// Everything that was claimed so far.
#[derive(Default)]
pub struct PendingBlobs {
    /// One for each hash, in the order they were claimed.
    blobs: Vec<Blob>,
    /// Finds a blob by its hash: its number and one, at the place the hash says or, if that is taken, after it.
    table: Vec<u32>,
    /// Those whose content is still on its way, and may turn out to be another.
    open: Vec<u32>,
    /// Those whose content did.
    abandoned: Vec<u32>,
}

/// What comes of asking for a content.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// The caller has to add it, under this number.
    Yours(u32),
    /// Somebody has added it.
    Added,
    /// Somebody is at it.
    Wait,
}

impl PendingBlobs {
    /// Asks for a content.
    pub fn claim(&mut self, hash: &ContentHash) -> ClaimState {
        // At most three quarters full.
        if (self.blobs.len() + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        let place = self.find(hash);
        let Some(number) = self.table[place].checked_sub(1) else {
            let number = u32::try_from(self.blobs.len()).expect("fewer than 2^32 contents");
            self.blobs.push(Blob { hash: *hash, frame: 0, offset: 0, size: 0 });
            self.table[place] = number + 1;
            self.open.push(number);
            return ClaimState::Yours(number);
        };
        if self.open.contains(&number) {
            return ClaimState::Wait;
        }
        match self.abandoned.iter().position(|&other| other == number) {
            Some(at) => {
                self.abandoned.swap_remove(at);
                self.open.push(number);
                ClaimState::Yours(number)
            }
            None => ClaimState::Added,
        }
    }

    /// The content was what it should be.
    pub fn fulfil(&mut self, number: u32) {
        self.open.retain(|&other| other != number);
    }

    /// It was not: whoever has that content adds it.
    pub fn abandon(&mut self, number: u32) {
        self.fulfil(number);
        self.abandoned.push(number);
    }

    /// Says where a content is.
    pub fn place(&mut self, number: u32, frame: u32, offset: u32, size: u64) {
        let blob = &mut self.blobs[number as usize];
        *blob = Blob { hash: blob.hash, frame, offset, size };
    }

    /// Every content that was added.
    pub fn into_blobs(mut self) -> Vec<Blob> {
        self.abandoned.sort_unstable_by(|a, b| b.cmp(a));
        for number in self.abandoned {
            self.blobs.swap_remove(number as usize);
        }
        self.blobs
    }

    fn grow(&mut self) {
        self.table = vec![0; (self.table.len() * 2).max(1 << 10)];
        for number in 0..self.blobs.len() {
            let place = self.find(&self.blobs[number].hash);
            self.table[place] = number as u32 + 1;
        }
    }

    /// Where a hash is in the table, or has to go.
    fn find(&self, hash: &ContentHash) -> usize {
        let mask = self.table.len() - 1;
        let start = u64::from_le_bytes(*hash.0.first_chunk().expect("a hash is longer"));
        let mut place = start as usize & mask;
        while let Some(number) = self.table[place].checked_sub(1)
            && self.blobs[number as usize].hash != *hash
        {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_is_asked_for_once() {
        let mut claims = PendingBlobs::default();
        let hashes: Vec<_> = (0u32..5000).map(|n| ContentHash::of(&n.to_le_bytes())).collect();
        for (hash, number) in hashes.iter().zip(0..) {
            assert_eq!(claims.claim(hash), ClaimState::Yours(number));
            assert_eq!(claims.claim(hash), ClaimState::Wait);
            claims.fulfil(number);
            claims.place(number, 1, number, 4);
        }
        assert!(hashes.iter().all(|hash| claims.claim(hash) == ClaimState::Added));
        claims.abandon(7);
        claims.abandon(4999);
        assert_eq!(claims.claim(&hashes[7]), ClaimState::Yours(7));
        claims.fulfil(7);
        let blobs = claims.into_blobs();
        assert_eq!(blobs.len(), 4999);
        assert!(blobs.iter().all(|blob| hashes[blob.offset as usize] == blob.hash));
    }
}
