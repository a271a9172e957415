//! Repositories and ignored entries in the root in `held.json`: by inode and birth time, the decree after a killed one finds those that
//! were renamed within the project, and moves them back before it compares the tree. Otherwise their files would be new ones.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::entries::HeldEntries;
use super::held_record::{EntryIdentity, HeldRecord};
use crate::checkpoint::path::{RepositoryPath, TreePath};
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::project::Layout;

/// How many names are looked at.
const MAX_SEARCHED: usize = 2_000_000;

/// Moves entries back that were renamed before decree was killed, as far as `covers` accepts them. `id` is that of the run or checkpoint, and
/// what is in their place moves to `set_aside`. Returns what to report. The caller holds the project's lock.
pub fn move_left_entries(
    layout: &Layout,
    id: &str,
    set_aside: &Path,
    covers: &dyn Fn(&TreePath) -> bool,
) -> Vec<String> {
    let Some((record, _)) = HeldRecord::read(layout, id) else { return Vec::new() };
    let Ok(root) = Root::open(layout.root()) else { return Vec::new() };
    let missing = missing(&root, &record.entries);
    if missing.is_empty() {
        return Vec::new();
    }
    let mut search = Search { wanted: missing, found: BTreeMap::new(), seen: 0 };
    // decree's own directory comes last, because of its many files.
    search.look_in(root.path(), Some(&layout.decree()));
    search.look_in(&layout.decree(), None);
    let entries = HeldEntries::found_again(search.found);
    let back = entries.move_back(&root, set_aside, covers);
    let text = |path: &String| format!("decree was killed; {path} had been renamed, and is moved back");
    back.moved.iter().map(text).chain(back.notes(&root)).collect()
}

/// Whether entries that were recorded are not in their places, so that [`move_left_entries`] would search for them.
pub fn has_missing_entries(layout: &Layout, id: &str) -> bool {
    let record = HeldRecord::read(layout, id);
    let root = Root::open(layout.root());
    record.zip(root.ok()).is_some_and(|((record, _), root)| !missing(&root, &record.entries).is_empty())
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
    // A renamed `.git` directory is found by its objects.
    let git_file = |path: &[u8], identity: &EntryIdentity| {
        let path = RepositoryPath::parse(path).filter(|_| !identity.is_dir)?;
        Some(path.as_tree_path().clone())
    };
    for (path, identity) in recorded {
        let path = quote::from_json(path)
            .and_then(|path| TreePath::new(&*path).ok().or_else(|| git_file(&path, identity)));
        if let Some(path) = path.filter(|path| !is_there(path, identity)) {
            missing.insert(identity.inode, (path, *identity));
        }
    }
    missing
}

struct Search {
    wanted: HashMap<u64, (TreePath, EntryIdentity)>,
    found: BTreeMap<TreePath, File>,
    seen: usize,
}

impl Search {
    /// Looks in a directory and below, without following links, and not in `except`.
    fn look_in(&mut self, dir: &Path, except: Option<&Path>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            self.seen += 1;
            if self.found.len() == self.wanted.len() || self.seen > MAX_SEARCHED {
                return;
            }
            let path = entry.path();
            self.take(entry.ino(), &path);
            // Another one may be in it.
            if except != Some(&*path) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.look_in(&path, except);
            }
        }
    }

    /// Opens the file or directory if it is wanted. It may be in `.git` or `.decree`, where no path of the tree is.
    fn take(&mut self, inode: u64, path: &Path) {
        let Some((place, identity)) = self.wanted.get(&inode) else { return };
        let open = || {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
            let is_same = EntryIdentity::of(&open.metadata().ok()?).as_ref() == Some(identity);
            is_same.then_some(open)
        };
        if let Some(open) = open() {
            self.found.insert(place.clone(), open);
        }
    }
}
