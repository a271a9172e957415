//! One small file or link of the tree, held in memory as it was.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::held_record::{FileFingerprint, RecordKey};
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::root_write::NewEntry;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::take_free_name;
use crate::fs::xattr::{self, XattrValues};

/// Why something that is known by its name or fingerprint is not restored.
pub(super) const HOLDER_ENDED: &str = "the decree that held its content has ended";

pub(super) struct HeldTreeFile {
    pub path: TreePath,
    form: HeldForm,
}

enum HeldForm {
    File {
        mode: FileMode,
        owner: (u32, u32),
        size: u64,
        hash: ContentHash,
        attributes: XattrValues,
        /// `None` if it is too large to be held.
        bytes: Option<Vec<u8>>,
    },
    Link(Vec<u8>),
    /// It is known to exist, and could not be read for this reason.
    Unread(String),
    /// What is known after decree was killed.
    Recorded(FileFingerprint, RecordKey),
}

/// What is at the path of a held file now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PresentState {
    Same,
    /// The content is the same; mode, owner or attributes are not.
    OtherMode,
    Changed,
    Deleted,
}

impl HeldTreeFile {
    /// Reads a file of at most `limit` bytes into memory; of a larger one, only the hash.
    pub fn read(root: &Root, path: &TreePath, limit: u64) -> HeldTreeFile {
        let form = read(root, path, limit).unwrap_or_else(|error| HeldForm::Unread(error.to_string()));
        HeldTreeFile { path: path.clone(), form }
    }

    /// A file of which nothing is known but that it was there.
    pub fn by_name(path: &TreePath, why: &str) -> HeldTreeFile {
        HeldTreeFile { path: path.clone(), form: HeldForm::Unread(why.to_owned()) }
    }

    /// A file of which only the fingerprint is known, after decree was killed.
    pub fn recorded(path: &TreePath, before: FileFingerprint, key: RecordKey) -> HeldTreeFile {
        HeldTreeFile { path: path.clone(), form: HeldForm::Recorded(before, key) }
    }

    /// What to record of it; `None` if it cannot be read.
    pub fn fingerprint(&self, root: &Root, key: RecordKey) -> Option<FileFingerprint> {
        fingerprint(root, &self.path, key).ok().flatten()
    }

    /// Whether only its name is known, so that nobody can say whether it was changed.
    pub fn is_unread(&self) -> bool {
        matches!(self.form, HeldForm::Unread(_))
    }

    pub fn is_recorded(&self) -> bool {
        matches!(self.form, HeldForm::Recorded(..))
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> u64 {
        match &self.form {
            HeldForm::File { bytes: Some(bytes), .. } => bytes.len() as u64,
            HeldForm::Link(target) => target.len() as u64,
            HeldForm::File { .. } | HeldForm::Unread(_) | HeldForm::Recorded(..) => 0,
        }
    }

    /// The hash and the size of its content, if it is a file that could be read.
    pub fn content(&self) -> Option<(ContentHash, u64)> {
        match &self.form {
            HeldForm::File { hash, size, .. } => Some((*hash, *size)),
            HeldForm::Link(_) | HeldForm::Unread(_) | HeldForm::Recorded(..) => None,
        }
    }

    /// Why it cannot be restored, if it cannot.
    pub fn not_held(&self) -> Option<String> {
        match &self.form {
            HeldForm::File { bytes: None, .. } => Some("too large to be held in memory".to_owned()),
            HeldForm::Unread(why) => Some(why.clone()),
            HeldForm::Recorded(..) => Some(HOLDER_ENDED.to_owned()),
            HeldForm::File { .. } | HeldForm::Link(_) => None,
        }
    }

    pub fn state(&self, root: &Root) -> io::Result<PresentState> {
        let Some(found) = root.find(&self.path)? else { return Ok(PresentState::Deleted) };
        let is_same = match &self.form {
            HeldForm::Unread(_) => true,
            HeldForm::Recorded(before, key) => {
                let now = fingerprint(root, &self.path, *key)?;
                now.is_some_and(|now| before.has_same_content(&now))
            }
            HeldForm::Link(target) => {
                found.kind == PathKind::Symlink && root.read_link(&self.path)? == *target
            }
            HeldForm::File { size, hash, .. } => {
                found.kind == PathKind::File
                    && found.size == *size
                    && hash_of(&mut root.open_file_forced(&self.path)?)? == *hash
            }
        };
        Ok(match &self.form {
            _ if !is_same => PresentState::Changed,
            HeldForm::File { mode, owner, .. } if (*mode, *owner) != (found.mode, found.owner) => {
                PresentState::OtherMode
            }
            HeldForm::Recorded(before, _) if FileMode::from_bits(before.mode) != found.mode => {
                PresentState::OtherMode
            }
            HeldForm::File { attributes, .. }
                if *attributes != xattr::read_all(root.open_file_forced(&self.path)?)? =>
            {
                PresentState::OtherMode
            }
            _ => PresentState::Same,
        })
    }

    /// Restores it. Returns where what was in its place is now, if anything was.
    pub fn restore(&self, root: &Root, set_aside: &Path) -> Result<Option<PathBuf>> {
        let new = match &self.form {
            HeldForm::File { mode, owner, attributes, bytes: Some(bytes), .. } => {
                NewEntry::File { bytes, mode: *mode, owner: *owner, attributes }
            }
            HeldForm::Link(target) => NewEntry::Link(target),
            HeldForm::File { .. } | HeldForm::Unread(_) | HeldForm::Recorded(..) => return Ok(None),
        };
        let _writable = root.unlock_parent(&self.path).at("write", &self.path)?;
        let beside = root.replace(&self.path, &new).at("write", &self.path)?;
        // It is back in its place. What was there stays beside it if it cannot be moved, as on a full disk.
        let place = |beside: TreePath| {
            move_aside(root, &beside, &self.path, set_aside).unwrap_or_else(|_| beside.below(root.path()))
        };
        Ok(beside.map(place))
    }

    /// Restores the mode and the attributes of a file whose content is the same; its owner, too, if decree runs as root.
    pub fn restore_mode(&self, root: &Root, set_aside: &Path) -> Result<()> {
        if let HeldForm::Recorded(before, _) = &self.form {
            let mode = FileMode::from_bits(before.mode);
            return root.set_mode(&self.path, mode).at("change the mode of", &self.path);
        }
        let HeldForm::File { mode, owner, attributes, .. } = &self.form else { return Ok(()) };
        let found = root.find(&self.path).at("read", &self.path)?;
        let now = root.open_file_forced(&self.path).and_then(xattr::read_all).at("read", &self.path)?;
        let is_other = found.is_some_and(|found| found.owner != *owner) || now != *attributes;
        if is_other && self.not_held().is_none() {
            let beside = self.restore(root, set_aside)?;
            // The same bytes are back in their place.
            return beside.map_or(Ok(()), |beside| std::fs::remove_file(&beside).at("remove", &beside));
        }
        root.set_mode(&self.path, *mode).at("change the mode of", &self.path)
    }
}

/// Moves what is at `from` to the quarantine, under the name of `path`, or `~2/<path>` and so on if that is taken.
pub(super) fn move_aside(root: &Root, from: &TreePath, path: &TreePath, set_aside: &Path) -> Result<PathBuf> {
    take_place_aside(path, set_aside, |to| root.move_out(from, to).unless_exists().at("move", from))
}

/// Writes these bytes to the quarantine, under the same names. Only the user may read them.
pub(super) fn write_aside(path: &TreePath, bytes: &[u8], set_aside: &Path) -> Result<PathBuf> {
    take_place_aside(path, set_aside, |to| atomic::write_new(to, bytes))
}

fn take_place_aside(
    path: &TreePath,
    set_aside: &Path,
    mut take: impl FnMut(&Path) -> Result<bool>,
) -> Result<PathBuf> {
    let place = |number: u64| match number {
        1 => path.below(set_aside),
        _ => path.below(&set_aside.join(format!("~{number}"))),
    };
    take_free_name(place, |to| {
        let parent = to.parent().unwrap_or(set_aside);
        match std::fs::create_dir_all(parent) {
            // A file that was set aside earlier has the name of a directory above it.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            result => result.at("create", parent)?,
        }
        take(to)
    })
}

fn read(root: &Root, path: &TreePath, limit: u64) -> io::Result<HeldForm> {
    let found = root.find(path)?.ok_or(io::ErrorKind::NotFound)?;
    match found.kind {
        PathKind::Symlink => Ok(HeldForm::Link(root.read_link(path)?)),
        PathKind::File => {
            let mut file = root.open_file(path)?;
            let mut bytes = Vec::new();
            (&mut file).take(limit + 1).read_to_end(&mut bytes)?;
            let (mode, owner, attributes) = (found.mode, found.owner, xattr::read_all(&file)?);
            if bytes.len() as u64 > limit {
                let (hash, size) = (hash_of(&mut root.open_file(path)?)?, found.size);
                return Ok(HeldForm::File { mode, owner, size, hash, attributes, bytes: None });
            }
            let (hash, size) = (ContentHash::of(&bytes), bytes.len() as u64);
            Ok(HeldForm::File { mode, owner, size, hash, attributes, bytes: Some(bytes) })
        }
        PathKind::Dir | PathKind::Special => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }
}

/// What is known of a file or link without its content; `None` if there is something else, or nothing.
fn fingerprint(root: &Root, path: &TreePath, key: RecordKey) -> io::Result<Option<FileFingerprint>> {
    let (hash, attributes) = match root.find(path)?.map(|found| found.kind) {
        Some(PathKind::Symlink) => (ContentHash::of(&root.read_link(path)?), XattrValues::new()),
        Some(PathKind::File) => {
            let mut file = root.open_file_forced(path)?;
            (hash_of(&mut file)?, xattr::read_all(&file)?)
        }
        Some(PathKind::Dir | PathKind::Special) | None => return Ok(None),
    };
    Ok(Some(FileFingerprint::new(&root.hold(path)?.metadata()?, hash, &attributes, key)))
}

fn hash_of(file: &mut impl Read) -> io::Result<ContentHash> {
    ContentHash::of_reader(file, &mut vec![0; 1 << 16]).map(|(hash, _)| hash)
}
