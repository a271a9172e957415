//! Likely secrets directly in a directory that the walk does not enter, because an ignore rule hides it.
//!
//! One level and no more: `config/local/.env` below an ignored `config/local/` is what a project has; `node_modules/` is not searched.

use std::io;
use std::mem::MaybeUninit;

use rustix::fs::{FileType, RawDir};

use super::inspect::WalkInput;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::sensitive::{Suspicion, holds_private_key};

/// How many names of a directory are looked at: a cache may have millions.
const MAX_NAMES: usize = 10_000;
/// How many files of a directory are opened because their name may be that of a key.
const MAX_PROBED: usize = 256;

impl WalkInput<'_> {
    /// The likely secrets in `dir`. A directory that cannot be listed has none: ignored paths need not be readable.
    pub(super) fn secrets_in_pruned(&self, dir: &TreePath) -> Vec<TreePath> {
        let mut secrets = Vec::new();
        // What could be read before an error counts.
        let _ = self.collect_secrets(dir, &mut secrets);
        secrets
    }

    fn collect_secrets(&self, dir: &TreePath, secrets: &mut Vec<TreePath>) -> io::Result<()> {
        let open = self.root.open_dir(dir.as_bytes())?;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut names = RawDir::new(&open, &mut buffer);
        let mut path = [dir.as_bytes(), b"/"].concat();
        let (start, mut seen, mut probed) = (path.len(), 0, 0);
        while let Some(entry) = names.next() {
            let entry = entry?;
            seen += 1;
            if seen > MAX_NAMES {
                break;
            }
            let kind = entry.file_type();
            if matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Unknown) {
                path.truncate(start);
                path.extend_from_slice(entry.file_name().to_bytes());
                let found = match self.sensitive.suspect(&path) {
                    Suspicion::None => false,
                    Suspicion::Secret => true,
                    Suspicion::MaybeKey if kind == FileType::Symlink || probed == MAX_PROBED => false,
                    Suspicion::MaybeKey => {
                        probed += 1;
                        self.may_hold_key(&path)
                    }
                };
                if found {
                    secrets.extend(TreePath::new(&*path).ok());
                }
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
