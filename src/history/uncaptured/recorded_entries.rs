//! Repositories and ignored entries in the root in `held.json`: by inode and birth time, the decree after a killed one finds those that
//! were renamed within the project, and moves them back before it compares the tree. Otherwise their files would be new ones.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::entries::HeldEntries;
use super::held_record::HeldRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::history::RunDir;
use crate::message::MessageId;
use crate::project::Layout;

/// How many names are looked at.
const MAX_SEARCHED: usize = 2_000_000;

/// Which file or directory it was. The birth time tells it from a later one with the same inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryIdentity {
    inode: u64,
    /// Seconds and nanoseconds since 1970.
    born: (u64, u32),
    is_dir: bool,
}

impl EntryIdentity {
    /// `None` on a file system without birth times.
    pub fn of(found: &Metadata) -> Option<EntryIdentity> {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let born = found.created().ok().and_then(since)?;
        let born = (born.as_secs(), born.subsec_nanos());
        Some(EntryIdentity { inode: found.ino(), born, is_dir: found.is_dir() })
    }
}

/// Moves entries back that were renamed before decree was killed. Returns what to report.
pub fn move_left_entries(layout: &Layout) -> Vec<String> {
    let unsettled = [layout.running(), layout.guarding(), layout.guard_failed()];
    if unsettled.iter().all(|record| record.symlink_metadata().is_err()) {
        return Vec::new();
    }
    let Some(record) = HeldRecord::read_any(layout) else { return Vec::new() };
    let Ok(root) = Root::open(layout.root()) else { return Vec::new() };
    let missing = missing(&root, &record.entries);
    if missing.is_empty() {
        return Vec::new();
    }
    let mut search = Search { root: &root, wanted: missing, found: BTreeMap::new(), seen: 0 };
    search.look_in(root.path(), &layout.decree());
    let entries = HeldEntries::found_again(search.found);
    let (moved, _) = entries.move_back(&root, &set_aside_of(layout, record.id()), &|_| true);
    let text = |path: String| format!("decree was killed; {path} had been renamed, and is moved back");
    moved.into_iter().map(text).collect()
}

/// The entries that are not in their places, by inode.
fn missing(
    root: &Root,
    recorded: &BTreeMap<String, EntryIdentity>,
) -> HashMap<u64, (TreePath, EntryIdentity)> {
    let is_there = |path: &TreePath, identity: &EntryIdentity| {
        let found = path.below(root.path()).symlink_metadata().ok();
        found.and_then(|found| EntryIdentity::of(&found)).as_ref() == Some(identity)
    };
    let mut missing = HashMap::new();
    for (path, identity) in recorded {
        let path = quote::from_json(path).and_then(|path| TreePath::new(&*path).ok());
        if let Some(path) = path.filter(|path| !is_there(path, identity)) {
            missing.insert(identity.inode, (path, *identity));
        }
    }
    missing
}

/// Where the run or the guarded command of the record moves things.
fn set_aside_of(layout: &Layout, id: &str) -> PathBuf {
    match MessageId::parse(id) {
        Some(id) => RunDir::of(layout, &id).checkpoint().quarantine_dir(),
        None => CheckpointDir::new(id, layout.checkpoints().join(id)).quarantine_dir(),
    }
}

struct Search<'s> {
    root: &'s Root,
    wanted: HashMap<u64, (TreePath, EntryIdentity)>,
    found: BTreeMap<TreePath, File>,
    seen: usize,
}

impl Search<'_> {
    /// Looks in a directory and below, without following links, and not in `except`.
    fn look_in(&mut self, dir: &Path, except: &Path) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            self.seen += 1;
            if self.found.len() == self.wanted.len() || self.seen > MAX_SEARCHED {
                return;
            }
            let path = entry.path();
            if self.take(entry.ino(), &path) {
                continue;
            }
            if path != except && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.look_in(&path, except);
            }
        }
    }

    /// Opens the file or directory if it is wanted; returns whether it is.
    fn take(&mut self, inode: u64, path: &Path) -> bool {
        let Some((place, identity)) = self.wanted.get(&inode) else { return false };
        let open = || {
            let below = path.strip_prefix(self.root.path()).ok()?;
            let open = self.root.hold(&TreePath::new(below.as_os_str().as_bytes()).ok()?).ok()?;
            let is_same = EntryIdentity::of(&open.metadata().ok()?).as_ref() == Some(identity);
            is_same.then_some(open)
        };
        let Some(open) = open() else { return false };
        self.found.insert(place.clone(), open);
        true
    }
}
