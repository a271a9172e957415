//! Likely secrets in a directory that the walk does not enter, because an ignore rule hides it.
//!
//! `config/local/keys/.env` below an ignored `config/local/` is what a project has. So a small ignored directory is searched as a whole; of
//! one with many names, such as `node_modules/`, only the files directly in it.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;

use rustix::fs::{FileType, RawDir};

use super::inspect::WalkInput;
use crate::checkpoint::path::{GIT_DIR, TreePath};
use crate::checkpoint::sensitive::{Suspicion, holds_private_key};

/// How many names directly in an ignored directory are looked at: a cache may have millions.
const MAX_NAMES: usize = 10_000;
/// How many names an ignored directory has in all if the directories below it are searched, too.
const MAX_NAMES_BELOW: usize = 2_000;
/// How many files of an ignored directory are opened because their name may be that of a key.
const MAX_PROBED: usize = 256;

/// A search through one ignored directory.
#[derive(Default)]
struct PrunedSearch {
    secrets: Vec<TreePath>,
    /// The directories still to be searched.
    dirs: VecDeque<TreePath>,
    seen: usize,
    probed: usize,
}

impl WalkInput<'_> {
    /// The likely secrets in `dir`. A directory that cannot be listed has none: ignored paths need not be readable.
    pub(super) fn secrets_in_pruned(&self, dir: &TreePath) -> Vec<TreePath> {
        let mut search = PrunedSearch::default();
        // What could be read before an error counts.
        let _ = self.search(dir, MAX_NAMES, &mut search);
        let directly = search.secrets.len();
        while let Some(below) = search.dirs.pop_front() {
            if search.seen <= MAX_NAMES_BELOW {
                let _ = self.search(&below, MAX_NAMES_BELOW, &mut search);
            }
            if search.seen > MAX_NAMES_BELOW {
                // Which of them were found depends on the order of the names, which changes.
                search.secrets.truncate(directly);
                break;
            }
        }
        search.secrets
    }

    /// Looks at the names in one directory, until `limit` names were seen in all.
    fn search(&self, dir: &TreePath, limit: usize, search: &mut PrunedSearch) -> io::Result<()> {
        let open = self.root.open_dir(dir.as_bytes())?;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut names = RawDir::new(&open, &mut buffer);
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if [&b"."[..], b"..", GIT_DIR].contains(&name) {
                continue;
            }
            search.seen += 1;
            if search.seen > limit {
                break;
            }
            let path = TreePath::joined(dir.as_bytes(), name);
            match entry.file_type() {
                FileType::Directory => search.dirs.push_back(path),
                kind @ (FileType::RegularFile | FileType::Symlink | FileType::Unknown) => {
                    let found = match self.sensitive.suspect(path.as_bytes()) {
                        Suspicion::None => false,
                        Suspicion::Secret => true,
                        Suspicion::MaybeKey if kind == FileType::Symlink || search.probed == MAX_PROBED => {
                            false
                        }
                        Suspicion::MaybeKey => {
                            search.probed += 1;
                            self.may_hold_key(path.as_bytes())
                        }
                    };
                    if found {
                        search.secrets.push(path);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether an ignored file holds a private key. One that cannot be read is taken for one: it is named, and not read.
    pub(super) fn may_hold_key(&self, path: &[u8]) -> bool {
        let Ok(path) = TreePath::new(path) else { return false };
        match self.root.open_file(&path).and_then(|mut file| holds_private_key(&mut file)) {
            Ok(found) => found,
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}
