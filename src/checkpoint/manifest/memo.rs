//! How the last manifest was stored, so that a tree that is the same need not be encoded and hashed again: that takes as long as a quarter
//! of the walk.
//!
//! Trees are the same if their fingerprints are: a hash over what they are in memory, which is made faster than that over their text.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::parts::PartRef;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::seen_file::SeenFile;
use crate::checkpoint::store::Store;
use crate::checkpoint::tree::Tree;
use crate::error::Result;
use crate::fs::atomic;

const VERSION: u32 = 1;
/// The manifest of a smaller tree is made in no time.
const MIN_ENTRIES: usize = 4096;
/// More than the parts of ten million entries take.
const MAX_BYTES: u64 = 64 << 20;

/// The file that has it.
pub struct ManifestMemo {
    file: SeenFile,
}

#[derive(Serialize, Deserialize)]
struct Memo {
    version: u32,
    fingerprint: ContentHash,
    entries: StoredEntries,
}

/// How the entries of a tree are stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredEntries {
    /// The tree's hash.
    pub tree: ContentHash,
    /// The parts, or those that list them, and so on.
    pub list: Vec<PartRef>,
    pub depth: u32,
    /// All parts, those that list parts included.
    pub parts: Vec<PartRef>,
}

impl ManifestMemo {
    /// `scratch`: a directory for temporary files on the same file system.
    pub fn new(path: &Path, scratch: &Path) -> Self {
        ManifestMemo { file: SeenFile::new(path, scratch) }
    }

    /// From now on only what is there now counts: a routine comes next, and may write it.
    pub fn note_present(&self) {
        self.file.note_present();
    }

    /// How the entries of this tree are stored, if the last manifest had the same ones and the store has all parts. Otherwise its
    /// fingerprint, for [`Self::remember`].
    pub fn find(&self, tree: &Tree, store: &Store) -> Result<Found> {
        if tree.len() < MIN_ENTRIES {
            return Ok(Found::TooSmall);
        }
        let fingerprint = tree.fingerprint();
        let Some(memo) = self.read().filter(|memo| memo.fingerprint == fingerprint) else {
            return Ok(Found::Other(fingerprint));
        };
        let stored = store.snapshot()?;
        let is_stored = memo.entries.parts.iter().all(|part| stored.contains(&part.hash));
        Ok(if is_stored { Found::Same(memo.entries) } else { Found::Other(fingerprint) })
    }

    fn read(&self) -> Option<Memo> {
        let (file, stamp) = self.file.open()?;
        self.file.note(Some(stamp));
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let memo: Memo = serde_json::from_slice(&text).ok()?;
        (memo.version == VERSION).then_some(memo)
    }

    /// Remembers how a tree with this fingerprint is stored. Only saves time later: if it fails, as on a full disk, nothing is remembered.
    pub fn remember(&self, fingerprint: ContentHash, entries: StoredEntries) {
        let memo = Memo { version: VERSION, fingerprint, entries };
        let text = serde_json::to_vec(&memo).expect("plain data serializes");
        let written = atomic::write(self.file.path(), &text).and_then(|()| self.file.note_written());
        if written.is_err() {
            self.forget();
        }
    }

    /// Removes a file that another program may have written.
    pub fn forget(&self) {
        self.file.forget();
    }
}

/// What is known of a tree.
pub enum Found {
    /// It is too small for it to matter.
    TooSmall,
    /// Nothing but its fingerprint.
    Other(ContentHash),
    Same(StoredEntries),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::attributes::Attributes;
    use crate::checkpoint::entry::{FileMode, Node};
    use crate::checkpoint::manifest::Manifest;
    use crate::checkpoint::path::TreePath;
    use crate::checkpoint::tree::{Entry, TreeBuilder};
    use std::fs;

    /// A tree of many files, of which `odd` has another node or other attributes.
    fn tree(odd: Option<(&str, Node, &Attributes)>) -> Tree {
        let plain = |n: usize| Node::File {
            hash: ContentHash::of(&n.to_le_bytes()),
            size: 8,
            mode: FileMode::from_bits(0o644),
        };
        let mut paths: Vec<String> = (0..5000).map(|n| format!("dir-{}/file-{n}", n % 50)).collect();
        paths.sort();
        let mut builder = TreeBuilder::default();
        for (n, path) in paths.iter().enumerate() {
            let tree_path = TreePath::new(path.as_bytes()).unwrap();
            let odd = odd.filter(|(of, ..)| of == path).map(|(_, node, attributes)| (node, attributes));
            let (node, attributes) = odd.unwrap_or((plain(n), Attributes::none()));
            assert!(builder.push(Entry::at(&tree_path, node, attributes)));
        }
        builder.finish()
    }

    #[test]
    fn the_same_tree_is_recognized_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (store, memo) = (Store::at(dir.path()), ManifestMemo::new(&dir.path().join("memo"), dir.path()));
        let write = |tree: Tree, name: &str| {
            let manifest = Manifest { tree, ..Manifest::default() };
            manifest.write(&dir.path().join(name), &store, &memo).unwrap();
            fs::read(dir.path().join(name)).unwrap()
        };
        let is_same = |tree: &Tree| matches!(memo.find(tree, &store).unwrap(), Found::Same(_));
        assert!(!is_same(&tree(None)));
        write(tree(None), "first");
        assert!(is_same(&tree(None)));
        let again = write(tree(None), "again");
        fs::remove_file(dir.path().join("memo")).unwrap();
        assert!(!is_same(&tree(None)));
        assert_eq!(write(tree(None), "without"), again);

        let hash = ContentHash::of(b"other");
        let file = |size, mode| Node::File { hash, size, mode: FileMode::from_bits(mode) };
        let (none, user) = (Attributes::none(), Attributes::parse("user.x:YQ==").unwrap());
        let odd: Vec<Tree> = [
            (file(8, 0o644), none),
            (file(9, 0o644), none),
            (file(8, 0o755), none),
            (file(8, 0o644), &user),
            (Node::Symlink { hash, size: 8 }, none),
        ]
        .into_iter()
        .map(|(node, attributes)| tree(Some(("dir-7/file-57", node, attributes))))
        .collect();
        for tree in &odd {
            assert!(!is_same(tree));
            assert_eq!(odd.iter().filter(|other| other.fingerprint() == tree.fingerprint()).count(), 1);
        }
    }

    #[test]
    fn a_tree_is_stored_again_if_a_part_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let (store, memo) = (Store::at(dir.path()), ManifestMemo::new(&dir.path().join("memo"), dir.path()));
        let manifest = Manifest { tree: tree(None), ..Manifest::default() };
        let path = dir.path().join("manifest");
        manifest.write(&path, &store, &memo).unwrap();
        let packs = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        packs.filter(|path| path.extension().is_some()).for_each(|pack| fs::remove_file(pack).unwrap());
        let store = Store::at(dir.path());
        assert!(!matches!(memo.find(&manifest.tree, &store).unwrap(), Found::Same(_)));
        manifest.write(&path, &store, &memo).unwrap();
        manifest.write(&path, &store, &memo).unwrap();
        assert_eq!(Manifest::read(&path, &store).unwrap(), manifest);
    }
}
