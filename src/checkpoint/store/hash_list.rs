//! Which contents something names: every hash once, sorted.
//!
//! Hundreds of manifests may name a million contents each, most of them the same ones. So there is a list, not a set: it
//! takes 32 bytes a hash, and never holds more than twice as many as there are.

use crate::checkpoint::hash::ContentHash;

/// Up to this many, nothing is gained by sorting early.
const FEW: usize = 1 << 16;

/// Hashes on their way into a [`HashList`].
#[derive(Debug, Default)]
pub struct HashListBuilder {
    hashes: Vec<ContentHash>,
    /// How many there were when they were last sorted.
    settled: usize,
}

impl HashListBuilder {
    /// Adds one, which may be there already.
    pub fn add(&mut self, hash: ContentHash) {
        if self.hashes.len() >= 2 * self.settled.max(FEW) {
            self.settle();
        }
        self.hashes.push(hash);
    }

    fn settle(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.settled = self.hashes.len();
    }

    /// All of them.
    pub fn finish(mut self) -> HashList {
        self.settle();
        self.hashes.shrink_to_fit();
        HashList(self.hashes)
    }
}

/// Hashes, each once.
#[derive(Debug, Default)]
pub struct HashList(Vec<ContentHash>);

impl HashList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of a hash among them, if it is there.
    pub fn position(&self, hash: &ContentHash) -> Option<usize> {
        self.0.binary_search(hash).ok()
    }

    /// Whether it is there.
    pub fn has(&self, hash: &ContentHash) -> bool {
        self.position(hash).is_some()
    }
}

impl FromIterator<ContentHash> for HashList {
    fn from_iter<I: IntoIterator<Item = ContentHash>>(hashes: I) -> HashList {
        let mut builder = HashListBuilder::default();
        hashes.into_iter().for_each(|hash| builder.add(hash));
        builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_is_there_once_however_often_it_was_named() {
        let hash = |n: u32| ContentHash::of(&n.to_le_bytes());
        let named: HashList = (0..400_000).map(|n| hash(n % 3000)).collect();
        assert_eq!(named.len(), 3000);
        assert!((0..3000).all(|n| named.has(&hash(n))) && !named.has(&hash(3000)));
    }
}
