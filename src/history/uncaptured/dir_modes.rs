//! The modes of ignored directories, and of the directories above likely secrets: no checkpoint holds those.

use std::collections::BTreeMap;

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::{PathKind, Root};

#[derive(Default)]
pub(super) struct DirModes(BTreeMap<TreePath, FileMode>);

/// What became of modes that had been changed. Paths are spelled as in a manifest.
#[derive(Default)]
pub(super) struct RestoredModes {
    pub restored: Vec<String>,
    /// Those that could not be set, each with the reason.
    pub lost: Vec<(String, String)>,
}

impl DirModes {
    pub fn hold(root: &Root, coverage: &Coverage) -> DirModes {
        let above = coverage.sensitive.iter().flat_map(TreePath::ancestors);
        let mut modes = BTreeMap::new();
        for dir in above.chain(coverage.ignored_dirs.iter().cloned()) {
            if !modes.contains_key(&dir)
                && let Ok(Some(found)) = root.find(&dir)
                && found.kind == PathKind::Dir
            {
                modes.insert(dir, found.mode);
            }
        }
        DirModes(modes)
    }

    /// For the decree after one that is killed.
    pub fn to_record(&self) -> BTreeMap<String, u32> {
        self.0.iter().map(|(dir, mode)| (spelled(dir), mode.bits())).collect()
    }

    pub fn from_record(record: &BTreeMap<String, u32>) -> DirModes {
        let dir = |(dir, mode): (&String, &u32)| {
            Some((TreePath::new(&*quote::from_json(dir)?).ok()?, FileMode::from_bits(*mode)))
        };
        DirModes(record.iter().filter_map(dir).collect())
    }

    pub fn get(&self, dir: &TreePath) -> Option<FileMode> {
        self.0.get(dir).copied()
    }

    /// Restores those that `covers` accepts, of directories that are there.
    pub fn restore(&self, root: &Root, covers: &dyn Fn(&TreePath) -> bool) -> RestoredModes {
        let mut done = RestoredModes::default();
        for (dir, mode) in self.0.iter().filter(|(dir, _)| covers(dir)) {
            let Ok(Some(found)) = root.find(dir) else { continue };
            if found.kind != PathKind::Dir || found.mode == *mode {
                continue;
            }
            match root.set_mode(dir, *mode) {
                Ok(()) => done.restored.push(spelled(dir)),
                Err(error) => {
                    let why = format!("its mode was changed from {mode} to {}: {error}", found.mode);
                    done.lost.push((spelled(dir), why));
                }
            }
        }
        done
    }
}

fn spelled(dir: &TreePath) -> String {
    quote::in_json(dir.as_bytes()).into_owned()
}
