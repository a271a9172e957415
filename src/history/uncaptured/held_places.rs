//! What is held by its place: entries that may have been renamed, and the inside of git directories.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::entries::HeldEntries;
use super::git_dirs::{HeldGitDirs, InsideReport};
use crate::checkpoint::root::Root;

pub(super) struct HeldPlaces {
    pub entries: HeldEntries,
    pub git_dirs: HeldGitDirs,
}

impl HeldPlaces {
    pub fn shared(entries: HeldEntries, git_dirs: HeldGitDirs) -> Arc<Mutex<HeldPlaces>> {
        Arc::new(Mutex::new(HeldPlaces { entries, git_dirs }))
    }

    /// Restores the inside of git directories, and those that are gone, after what was renamed is moved back.
    pub fn restore_git_dirs(&mut self, root: &Root, set_aside: &Path) -> InsideReport {
        let HeldPlaces { entries, git_dirs } = self;
        entries.clear_replaced(root, set_aside, &|dir| git_dirs.can_rebuild(dir));
        let report = git_dirs.restore(set_aside);
        entries.adopt(root, &|dir| git_dirs.was_rebuilt(dir));
        report
    }
}
