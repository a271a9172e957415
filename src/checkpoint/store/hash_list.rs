//! A sorted list of distinct hashes: the contents that checkpoints need.
//!
//! Hundreds of manifests may refer to a million contents each, most of them the same ones. A list takes 32 bytes per hash,
//! less than a hash set, and while it is built it never has more than twice as many entries as distinct hashes.

use crate::checkpoint::hash::ContentHash;

/// Below this many hashes, removing duplicates early saves nothing.
const MIN_SORT: usize = 1 << 16;

/// Collects hashes, in any order and any number of times, into a [`HashList`].
#[derive(Debug, Default)]
pub struct HashListBuilder {
    hashes: Vec<ContentHash>,
    /// How many distinct hashes there were when they were last sorted.
    distinct: usize,
}

impl HashListBuilder {
    pub fn add(&mut self, hash: ContentHash) {
        if self.hashes.len() >= 2 * self.distinct.max(MIN_SORT) {
            self.sort();
        }
        self.hashes.push(hash);
    }

    fn sort(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.distinct = self.hashes.len();
    }

    pub fn finish(mut self) -> HashList {
        self.sort();
        self.hashes.shrink_to_fit();
        HashList(self.hashes)
    }
}

#[derive(Debug, Default)]
pub struct HashList(Vec<ContentHash>);

impl HashList {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The index of a hash in the list.
    pub fn position(&self, hash: &ContentHash) -> Option<usize> {
        self.0.binary_search(hash).ok()
    }

    pub fn contains(&self, hash: &ContentHash) -> bool {
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
    fn each_hash_is_listed_once_however_often_it_was_added() {
        let hash = |n: u32| ContentHash::of(&n.to_le_bytes());
        let list: HashList = (0..400_000).map(|n| hash(n % 3000)).collect();
        assert_eq!(list.len(), 3000);
        assert!((0..3000).all(|n| list.contains(&hash(n))) && !list.contains(&hash(3000)));
    }
}
