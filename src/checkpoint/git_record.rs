//! git's own state in a manifest: what is needed to restore HEAD, its branch and the index, and to name what else changed. The texts
//! and the index are content in the store, so that an unchanged repository costs nothing.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::hash::ContentHash;
use super::path::{RepositoryPath, TreePath};
use super::quote;
use super::store::{FrameWriter, PackWriter, Store};
use crate::error::{Error, IoContext, Result};
use crate::git::state::{GitDirs, GitSnapshot, Head, IndexFile, IndexSource, RefTexts};

/// The key `git` of a manifest, and an entry of `nested_git`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRecord {
    /// The work tree; `None` for the one that contains the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_tree: Option<TreePath>,
    /// git's directory, relative to the project if it is below it.
    pub dir: String,
    /// As in the file `HEAD`; `None` if it could not be read.
    pub head: Option<String>,
    /// The commit that was checked out; `None` before the first one.
    pub commit: Option<String>,
    /// Loose refs, as `<value> <name>` lines.
    refs: ContentHash,
    packed_refs: ContentHash,
    /// The log of `refs/stash`.
    pub stash: ContentHash,
    /// The size of HEAD's log: what is after that was added since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_log: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    pub index: Option<IndexRecord>,
}

/// The index of a [`GitRecord`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRecord {
    pub sha256: ContentHash,
    /// Nanoseconds since 1970.
    pub modified: i64,
    pub mode: u32,
}

impl GitRecord {
    /// Reads the state of the repository that contains `root`, and adds its content to a pack. `None` if there is no repository.
    pub(super) fn capture(root: &Path, writer: &PackWriter<'_>) -> Result<Option<GitRecord>> {
        let found = match GitRecord::read_whole(root, None) {
            // A repository that this user may neither read nor write is one that a routine of this user cannot change.
            Err(error) if error.io_kind() == Some(io::ErrorKind::PermissionDenied) && !may_write(root) => {
                None
            }
            found => found?,
        };
        found.map(|(record, snapshot)| record.store(snapshot, writer)).transpose()
    }

    /// The same for the repositories in the tree. Those that cannot be read are left out, and must not prevent a checkpoint.
    pub(super) fn capture_nested(
        root: &Path,
        repositories: &[RepositoryPath],
        writer: &PackWriter<'_>,
    ) -> Result<Vec<GitRecord>> {
        let work_trees = repositories.iter().filter_map(RepositoryPath::work_tree);
        let found =
            work_trees.filter_map(|work_tree| GitRecord::read_whole(root, Some(&work_tree)).ok().flatten());
        found.map(|(record, snapshot)| record.store(snapshot, writer)).collect()
    }

    /// Adds the content of a state to a pack.
    fn store(self, mut snapshot: GitSnapshot, writer: &PackWriter<'_>) -> Result<GitRecord> {
        let mut frames = writer.frame_writer()?;
        let texts = [&snapshot.refs.loose, &snapshot.refs.packed, &snapshot.stash];
        for (hash, text) in [self.refs, self.packed_refs, self.stash].into_iter().zip(texts) {
            add_text(&mut frames, &hash, text)?;
        }
        if let (Some(known), Some(index)) = (&self.index, &mut snapshot.index) {
            add_index(&mut frames, known, index)?;
        }
        frames.flush()?;
        Ok(self)
    }

    /// The same as [`GitRecord::read`], for a checkpoint, which has to hold all of it.
    fn read_whole(root: &Path, work_tree: Option<&TreePath>) -> Result<Option<(GitRecord, GitSnapshot)>> {
        let Some((record, mut snapshot)) = GitRecord::read(root, work_tree)? else { return Ok(None) };
        match snapshot.index_error.take().or(snapshot.stash_error.take()) {
            Some(error) => Err(error),
            None => Ok(Some((record, snapshot))),
        }
    }

    /// Reads the state of the repository of a work tree, or of the one that contains the project at `root`, without storing anything. An
    /// index or a stash list that cannot be read is missing in the record, and the snapshot has the reason.
    pub fn read(root: &Path, work_tree: Option<&TreePath>) -> Result<Option<(GitRecord, GitSnapshot)>> {
        let top = work_tree.map_or_else(|| root.to_owned(), |work_tree| work_tree.below(root));
        // A directory without a repository of its own is part of the one around it.
        if work_tree.is_some() && !GitDirs::is_top(&top) {
            return Ok(None);
        }
        let Some(mut snapshot) = GitSnapshot::read(&top)? else { return Ok(None) };
        let record = GitRecord::of(root, work_tree, &mut snapshot);
        Ok(Some((record, snapshot)))
    }

    fn of(root: &Path, work_tree: Option<&TreePath>, snapshot: &mut GitSnapshot) -> GitRecord {
        let dir = snapshot.dirs.name_from(root);
        let index = snapshot.index.as_mut().map(|index| {
            let mut buffer = vec![0; 1 << 16];
            let (sha256, _) = ContentHash::of_reader(&mut index.file, &mut buffer)?;
            index.rewind()?;
            Ok::<_, io::Error>(IndexRecord { sha256, modified: index.modified, mode: index.mode })
        });
        let index = index.transpose().at("read the index in", &snapshot.dirs.git_dir);
        let index = index.unwrap_or_else(|error| {
            (snapshot.index, snapshot.index_error) = (None, Some(error));
            None
        });
        GitRecord {
            work_tree: work_tree.cloned(),
            dir: quote::in_json(dir.as_os_str().as_encoded_bytes()).into_owned(),
            head: snapshot.head.as_ref().map(Head::to_text),
            commit: snapshot.commit.clone(),
            refs: ContentHash::of(&snapshot.refs.loose),
            packed_refs: ContentHash::of(&snapshot.refs.packed),
            stash: ContentHash::of(&snapshot.stash),
            head_log: snapshot.head_log,
            operations: snapshot.operations.clone(),
            index,
        }
    }

    /// git's directory, relative to the project if it is below it.
    pub fn dir_path(&self) -> PathBuf {
        let dir = quote::from_json(&self.dir).unwrap_or(Cow::Borrowed(self.dir.as_bytes()));
        PathBuf::from(OsStr::from_bytes(&dir))
    }

    /// What HEAD was; `None` if it could not be read.
    pub fn parsed_head(&self) -> Option<Head> {
        self.head.as_deref().and_then(Head::parse)
    }

    /// Whether the refs of another state of the same repository may differ.
    pub fn has_other_refs(&self, other: &GitRecord) -> bool {
        (self.refs, self.packed_refs) != (other.refs, other.packed_refs)
    }

    /// Takes over the refs of another state, from which they do not differ but in the way in which they are stored.
    pub fn take_refs(&mut self, other: &GitRecord) {
        (self.refs, self.packed_refs) = (other.refs, other.packed_refs);
    }

    /// Reads the refs back.
    pub fn ref_texts(&self, store: &Store) -> Result<RefTexts> {
        let text = |hash: &ContentHash| if is_empty(hash) { Ok(Vec::new()) } else { store.read(hash) };
        Ok(RefTexts { loose: text(&self.refs)?, packed: text(&self.packed_refs)? })
    }

    /// Reads the stash list back.
    pub fn stash_list(&self, store: &Store) -> Result<Vec<u8>> {
        if is_empty(&self.stash) { Ok(Vec::new()) } else { store.read(&self.stash) }
    }

    /// Reads the index back.
    pub fn index_source<'s>(&self, store: &'s Store) -> Result<Option<IndexSource<'s>>> {
        let Some(index) = &self.index else { return Ok(None) };
        let content = Box::new(store.reader(&index.sha256)?);
        Ok(Some(IndexSource { content, modified: index.modified, mode: index.mode }))
    }

    /// Why the index cannot be read back; `None` if it can. What [`Self::index_source`] yields is checked only at its end.
    pub fn why_index_is_lost(&self, store: &Store) -> Option<String> {
        self.index.as_ref().and_then(|index| store.why_unreadable(&index.sha256))
    }

    /// The same for the refs.
    pub fn why_refs_are_lost(&self, store: &Store) -> Option<String> {
        let stored = [self.refs, self.packed_refs].into_iter().filter(|hash| !is_empty(hash));
        stored.filter_map(|hash| store.why_unreadable(&hash)).next()
    }

    /// Stands for an index that is not there.
    pub fn no_index() -> ContentHash {
        ContentHash::of(b"")
    }

    /// Stands for an index that could not be read.
    pub fn unreadable_index() -> ContentHash {
        ContentHash::of(b"an index that could not be read")
    }

    /// All content in the store that the record names.
    pub fn contents(&self) -> impl Iterator<Item = ContentHash> {
        let texts = [self.refs, self.packed_refs, self.stash].into_iter().filter(|hash| !is_empty(hash));
        texts.chain(self.index.iter().map(|index| index.sha256))
    }
}

/// Whether this user may create files in the git directory, and so move HEAD.
fn may_write(root: &Path) -> bool {
    GitDirs::find(root).is_some_and(|dirs| access(&dirs.git_dir, Access::WRITE_OK).is_ok())
}

/// An empty text is not stored.
fn is_empty(hash: &ContentHash) -> bool {
    *hash == ContentHash::of(b"")
}

fn add_text(frames: &mut FrameWriter<'_, '_>, hash: &ContentHash, text: &[u8]) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    match frames.writer.claim(hash)? {
        Some(claim) => frames.add(claim, text),
        None => Ok(()),
    }
}

fn add_index(frames: &mut FrameWriter<'_, '_>, known: &IndexRecord, index: &mut IndexFile) -> Result<()> {
    let Some(claim) = frames.writer.claim(&known.sha256)? else { return Ok(()) };
    let found = frames.add_stream(claim, &mut index.file)?;
    if found == known.sha256 { Ok(()) } else { Err(Error::failed("git's index changed while it was read")) }
}
