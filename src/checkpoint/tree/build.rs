//! Building a tree from sorted entries.

use std::cmp::Ordering;

use super::packed::{Chunk, Entry, Slot, Tree};
use crate::checkpoint::attributes::Attributes;

/// The entries of a larger directory are in several chunks.
const MAX_CHUNK: usize = 4096;

/// Builds a tree from entries in the order of their paths.
#[derive(Default)]
pub struct TreeBuilder {
    tree: Tree,
    dir: Vec<u8>,
    names: Vec<u8>,
    slots: Vec<Slot>,
    attributes: Vec<(u32, Attributes)>,
}

impl TreeBuilder {
    /// Adds an entry; returns false and adds nothing if it does not sort after the last one.
    #[must_use]
    pub fn push(&mut self, entry: Entry<'_>) -> bool {
        if self.last().is_some_and(|last| last.cmp_in(entry.dir, entry.name) != Ordering::Less) {
            return false;
        }
        if self.dir != entry.dir || self.slots.len() == MAX_CHUNK {
            self.end_chunk();
            self.dir.extend_from_slice(entry.dir);
        }
        self.names.extend_from_slice(entry.name);
        let name_end = u32::try_from(self.names.len()).expect("the names in a chunk are far below 4 GiB");
        if !entry.attributes.is_none() {
            self.attributes.push((self.slots.len() as u32, entry.attributes.clone()));
        }
        self.slots.push(Slot::new(entry.node, name_end));
        self.tree.len += 1;
        true
    }

    pub fn finish(mut self) -> Tree {
        self.end_chunk();
        self.tree
    }

    fn last(&self) -> Option<Entry<'_>> {
        let Some((slot, before)) = self.slots.split_last() else {
            return self.tree.chunks.last().map(Chunk::last);
        };
        let start = before.last().map_or(0, |slot| slot.name_end as usize);
        let attributes = Attributes::none();
        Some(Entry { dir: &self.dir, name: &self.names[start..], node: slot.node(), attributes })
    }

    fn end_chunk(&mut self) {
        if !self.slots.is_empty() {
            let chunk = Chunk {
                dir: (&*self.dir).into(),
                names: (&*self.names).into(),
                slots: (&*self.slots).into(),
                attributes: std::mem::take(&mut self.attributes).into(),
            };
            self.tree.chunks.push(chunk);
        }
        self.dir.clear();
        self.names.clear();
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::entry::{FileMode, Node};
    use crate::checkpoint::path::TreePath;
    use proptest::prelude::*;

    fn entry(path: &TreePath) -> Entry<'_> {
        Entry::at(path, Node::Dir { mode: FileMode::DIR }, Attributes::none())
    }

    fn tree(paths: &[&str]) -> Tree {
        let mut builder = TreeBuilder::default();
        for path in paths {
            let path = TreePath::new(path.as_bytes()).expect("a good path");
            assert!(builder.push(entry(&path)), "{path}");
        }
        builder.finish()
    }

    #[test]
    fn a_directory_is_known_by_its_entry_or_by_what_is_in_it() {
        let tree = tree(&["a-c", "a/b", "d"]);
        assert!(tree.has_dir(b"a"));
        assert!(tree.has_dir(b"d"));
        assert!(!tree.has_dir(b"a/b/c"));
        assert!(!tree.has_dir(b"e"));
    }

    #[test]
    fn the_tree_hash_reports_apart_what_differs() {
        assert_ne!(tree(&["a"]).hash(), tree(&["b"]).hash());
        assert_ne!(tree(&["a"]).hash(), Tree::default().hash());
    }

    #[test]
    fn entries_have_to_come_in_order() {
        let path = |text: &str| TreePath::new(text.as_bytes()).expect("a good path");
        for (first, second) in [("b", "a"), ("a", "a"), ("a/b", "a-b"), ("a/b", "a"), ("a/b/c", "a/b")] {
            let mut builder = TreeBuilder::default();
            let (first, second) = (path(first), path(second));
            assert!(builder.push(entry(&first)));
            assert!(!builder.push(entry(&second)), "{first} {second}");
        }
    }

    proptest! {
        /// Names of few letters, some of which sort before and some after the slash.
        #[test]
        fn a_tree_answers_as_a_sorted_list_of_whole_paths_would(
            mut paths in proptest::collection::vec("[-.0a]{1,2}(/[-.0a]{1,2}){0,3}".prop_map(String::into_bytes), 0..60),
            asked in proptest::collection::vec("[-.0a]{1,2}(/[-.0a]{1,2}){0,3}".prop_map(String::into_bytes), 20),
        ) {
            let good = |path: &Vec<u8>| TreePath::new(&**path).is_ok();
            paths.retain(good);
            paths.sort();
            paths.dedup();
            let mut builder = TreeBuilder::default();
            for path in &paths {
                let path = TreePath::new(&**path).expect("only good ones were kept");
                let pushed = builder.push(entry(&path));
                prop_assert!(pushed);
            }
            let tree = builder.finish();
            let whole: Vec<Vec<u8>> = tree.iter().map(|entry| entry.path().as_bytes().to_vec()).collect();
            prop_assert_eq!(&whole, &paths);
            for path in asked.iter().filter(|path| good(path)).chain(&paths) {
                let below = |other: &&Vec<u8>| other.starts_with(&[&**path, b"/"].concat());
                prop_assert_eq!(
                    tree.get(&TreePath::new(&**path).expect("it is good")).is_some(),
                    paths.contains(path)
                );
                prop_assert_eq!(tree.below(path).iter().count(), paths.iter().filter(below).count());
            }
        }
    }
}
