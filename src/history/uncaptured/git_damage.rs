//! What is broken in a git directory: without it git does not take the directory for a repository, or does not work in it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git_dirs::{HeldGitDir, HeldGitDirs, is_dir, read_names};
use super::git_inside::InsideForm;
use super::inside_kind::{ALTERNATES, HEAD, PACKED_REFS, REFS, REFTABLE, SHALLOW};
use crate::git::state::{Head, INDEX, OBJECTS, is_connected};
use crate::humanize::count;

/// Without one of these, git does not take a directory for a repository, or for another one.
pub(super) const ESSENTIAL: [&str; 5] = [HEAD, "config", OBJECTS, REFS, REFTABLE];

impl HeldGitDirs {
    /// What a run has broken: each git directory with what is gone.
    pub fn broken(&self) -> Vec<(String, String)> {
        let broken = |held: &HeldGitDir| {
            if !is_dir(&held.dir) {
                return Some((self.shown(&held.dir), "is gone".to_owned()));
            }
            let gone = held.lost_essentials();
            if !gone.is_empty() {
                return Some((self.shown(&held.dir), format!("lost its {}", gone.join(", "))));
            }
            let damaged = self.links.as_ref().map_or(0, |links| links.count_damaged(&held.dir));
            if damaged > 0 {
                return Some((
                    self.shown(&held.dir),
                    format!("has {} overwritten", count(damaged, "object")),
                ));
            }
            let pruned = self.links.as_ref().is_some_and(|links| links.any_gone(&held.dir));
            let is_other = [SHALLOW, ALTERNATES].iter().any(|name| held.is_other(Path::new(name)));
            ((pruned || is_other) && is_connected(&held.dir) == Some(false))
                .then(|| (self.shown(&held.dir), "lost objects that it needs".to_owned()))
        };
        // One in the tree that is gone is an entry that is gone.
        let is_entry = |held: &&HeldGitDir| held.dir.starts_with(&self.root) && !is_dir(&held.dir);
        self.dirs.iter().filter(|held| !is_entry(held)).filter_map(broken).collect()
    }
}

impl HeldGitDir {
    pub fn gone_essentials(&self) -> Vec<&'static str> {
        let was_there = |name: &&str| self.entries.iter().any(|entry| entry.name == Path::new(name));
        ESSENTIAL.into_iter().filter(was_there).filter(|name| self.is_gone(Path::new(name))).collect()
    }

    /// The same, with a HEAD that git does not take for one, and an index or packed refs that cannot be read any more, as a directory in their
    /// place.
    fn lost_essentials(&self) -> Vec<&'static str> {
        let mut lost = self.gone_essentials();
        let head = Path::new(HEAD);
        let is_no_head = self.is_other(head) && !Head::is_in(&self.dir.join(head));
        lost.extend((is_no_head && !lost.contains(&HEAD)).then_some(HEAD));
        lost.extend([INDEX, PACKED_REFS].into_iter().filter(|name| self.is_unreadable_now(Path::new(name))));
        lost
    }

    fn is_unreadable_now(&self, name: &Path) -> bool {
        let path = self.dir.join(name);
        let is_denied =
            || fs::File::open(&path).is_err_and(|why| why.kind() == io::ErrorKind::PermissionDenied);
        match self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.form) {
            Some(InsideForm::File { .. }) => is_dir(&path) || is_denied(),
            Some(InsideForm::Dir { .. }) => false,
            _ => is_dir(&path),
        }
    }

    /// Files among the refs that are new and no refs: git does not work as long as one is there. One that cannot be read may be a ref.
    pub fn junk_refs(&self) -> Vec<PathBuf> {
        let mut names = Vec::new();
        read_names(&self.dir, Path::new(REFS), &mut names);
        let is_lock = |name: &Path| name.extension().is_some_and(|end| end == "lock");
        let known: BTreeSet<&Path> = self.entries.iter().map(|entry| &*entry.name).collect();
        names.retain(|name| !is_lock(name) && !known.contains(&**name));
        names.retain(|name| fs::read(self.dir.join(name)).is_ok() && !Head::is_in(&self.dir.join(name)));
        names
    }
}
