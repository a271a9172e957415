//! `manifest.json`: the tree at a point in time, the ignore rules in force, and what was left out.
//!
//! A manifest is written as a whole: one JSON object, one entry per line. The manifest of a large tree is in the store as well, in
//! parts. If the store had most of it before, the file names the parts instead of the entries, so that a run in a large tree that
//! hardly changed adds next to nothing.

mod file;
mod lines;
mod memo;
mod parts;
mod stored;
mod text;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::coverage::Coverage;
use super::git_record::GitRecord;
use super::hash::{ContentHash, Hashing};
use super::ignore::FrozenRules;
use super::path::{RepositoryPath, TreePath};
use super::store::Store;
use super::tree::Tree;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::git::state::GitDirs;

use file::ManifestJson;
pub use memo::ManifestMemo;
use stored::StoredManifest;
pub use stored::{NeededContent, PartsRead};
use text::ManifestValues;

/// The version of a manifest that has its entries.
pub const VERSION: u32 = 1;
/// The version of a manifest whose entries are in the store.
const VERSION_STORED: u32 = 2;
/// What a file begins with that has the entries.
const WHOLE: &[u8; 13] = b"{\"version\":1,";
/// A manifest with at most this many entries is always written as a whole: about 40 KiB.
const MAX_SMALL: usize = 256;

/// A checkpoint without the content of its files, which is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub tree: Tree,
    pub rules: FrozenRules,
    pub coverage: Coverage,
    /// git's own state; `None` if the project is in no repository.
    pub git: Option<GitRecord>,
    /// The same for the repositories in the tree: nested ones, submodules, linked work trees.
    pub nested_git: Vec<GitRecord>,
    /// Whether the owners and attributes of all entries are recorded. Older versions did not: then nothing is known of them.
    pub has_attributes: bool,
}

impl Manifest {
    /// Writes the file, and reads it back before it gets its name. Parts that the store lacks are durable before that.
    pub fn write(&self, path: &Path, store: &Store, memo: &ManifestMemo) -> Result<()> {
        if self.tree.len() <= MAX_SMALL {
            return write_checked(path, |out| self.write_whole(out, None));
        }
        let stored = StoredManifest::store(self, store, memo)?;
        if stored.is_mostly_new() {
            return write_checked(path, |out| self.write_whole(out, Some(&stored)));
        }
        write_checked(path, |out| stored.write(out))
    }

    /// Writes the text of the whole manifest, whatever its size.
    pub fn write_text(&self, out: &mut (impl Write + Send)) -> io::Result<()> {
        self.write_whole(out, None)
    }

    fn write_whole(&self, out: &mut (impl Write + Send), stored: Option<&StoredManifest>) -> io::Result<()> {
        write!(out, "{{\"version\":{VERSION},\"files\":{{")?;
        let (hash, written) = rayon::join(|| self.tree.hash(), || text::write_entries(&self.tree, out));
        written?;
        let values = ManifestValues::of(self);
        let check = values.check(hash);
        writeln!(out, "}},\n\"tree\":\"{hash}\",")?;
        for (key, json) in values.named() {
            writeln!(out, "\"{key}\":{json},")?;
        }
        if self.has_attributes {
            writeln!(out, "\"attributes\":true,")?;
        }
        if let Some(stored) = stored {
            writeln!(out, "\"stored\":{},", serde_json::to_string(stored)?)?;
        }
        writeln!(out, "\"check\":\"{check}\"}}")
    }

    /// git's own state in the project's repository and in those in the tree.
    pub fn git_records(&self) -> impl Iterator<Item = &GitRecord> {
        self.git.iter().chain(&self.nested_git)
    }

    /// The repositories in the tree at `root` whose state could not be read.
    pub fn unread_repositories(&self, root: &Path) -> Vec<String> {
        let is_recorded =
            |place: &TreePath| self.nested_git.iter().any(|git| git.work_tree.as_ref() == Some(place));
        let nested = self.coverage.repositories.iter().filter_map(RepositoryPath::work_tree);
        let unread = nested.filter(|place| !is_recorded(place));
        unread.filter(|place| GitDirs::is_top(&place.below(root))).map(|place| place.to_string()).collect()
    }

    /// The content in the store that git's own state needs.
    pub fn git_contents(&self) -> impl Iterator<Item = ContentHash> {
        self.git_records().flat_map(GitRecord::contents)
    }

    /// Reads the file. A manifest whose hashes do not match is damaged.
    pub fn read(path: &Path, store: &Store) -> Result<Self> {
        Self::from_json(ManifestJson::read(path)?, path, store)
    }

    fn from_json(raw: ManifestJson, path: &Path, store: &Store) -> Result<Self> {
        let (tree, check) = (raw.tree.clone(), raw.check.clone());
        let manifest = match raw.version {
            VERSION => raw.into_manifest().map_err(|why| Error::damaged(path, why))?,
            _ => {
                let read = raw.into_stored(path)?.read(store);
                let unproven = "without it nothing can be verified, so nothing was touched";
                read.map_err(|error| in_store(path, error).detail(unproven))?
            }
        };
        let hash = manifest.tree.hash();
        if tree != hash.to_string() || check != ManifestValues::of(&manifest).check(hash).to_string() {
            return Err(Error::damaged(path, "its hashes do not match"));
        }
        Ok(manifest)
    }

    /// Finds out which parts of a manifest are damaged, so that the next capture stores them again.
    pub fn probe(path: &Path, store: &Store) {
        if let Ok(raw) = ManifestJson::read(path)
            && let Some(stored) = &raw.stored
        {
            stored.probe(store);
        }
    }

    /// Whether a file that decree wrote has the entries itself, and not in the store.
    pub fn has_entries(path: &Path) -> bool {
        let mut start = [0; WHOLE.len()];
        File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *WHOLE
    }

    /// Calls `each` for every content that the manifest at `path` needs, and returns the hash of its tree. Of the parts in `seen`, which
    /// other manifests have named, nothing is read again.
    pub fn visit_contents(
        path: &Path,
        store: &Store,
        seen: &mut PartsRead,
        each: &mut dyn FnMut(NeededContent),
    ) -> Result<String> {
        let mut raw = ManifestJson::read(path)?;
        let tree = raw.tree.clone();
        if raw.version == VERSION {
            let stored = raw.stored.take();
            let manifest = Manifest::from_json(raw, path, store)?;
            let entries = manifest.tree.iter().filter_map(|entry| entry.node.content());
            entries.for_each(|(hash, size)| each(NeededContent::of_entry(hash, size)));
            manifest.git_contents().for_each(|hash| each(NeededContent::of_git(hash)));
            if let Some(stored) = stored {
                // Later manifests share its parts. It has the entries itself, so a part that is missing is no error.
                let mut again = |content| each(NeededContent { is_entry: false, ..content });
                let _ = stored.visit(store, seen, &mut again);
            }
        } else {
            let stored = raw.into_stored(path)?;
            stored.visit(store, seen, each).map_err(|error| in_store(path, error))?;
        }
        Ok(tree)
    }
}

/// An error of a manifest whose parts cannot be read.
fn in_store(path: &Path, error: Error) -> Error {
    error.into_kind(crate::error::ErrorKind::Integrity).detail(format!("manifest: {}", path.display()))
}

/// Writes a file, and reads it back before it gets its name.
fn write_checked(path: &Path, write: impl FnOnce(&mut Hashing<AtomicFile>) -> io::Result<()>) -> Result<()> {
    let mut file = Hashing::new(AtomicFile::create(path)?);
    write(&mut file).at("write", path)?;
    let Hashing { out: mut file, hasher } = file;
    let (found, _) =
        ContentHash::of_reader(&mut file.read_back()?, &mut vec![0; 1 << 16]).at("read", path)?;
    if found != hasher.finish().0 {
        return Err(Error::damaged(path, "what was written cannot be read back"));
    }
    file.commit()
}
