//! Likely secrets, held in memory: no checkpoint has them, and they are never on decree's disk.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::dir_modes::{DirModes, RestoredModes};
use super::held_file::{HOLDER_ENDED, HeldTreeFile, PresentState, move_aside};
use super::held_record::{HeldRecord, RecordKey};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::unlocked_dirs::UnlockedDirs;
use crate::error::{IoContext, Result};
use crate::fs::reserve::ReservedRoom;

/// The largest likely secret that is held.
const MAX_FILE: u64 = 256 << 10;
/// The most bytes of likely secrets that are held together.
const MAX_TOTAL: u64 = 4 << 20;

/// What became of a likely secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFate {
    Changed,
    Deleted,
    Made,
}

impl SecretFate {
    pub fn word(self) -> &'static str {
        match self {
            SecretFate::Changed => "changed",
            SecretFate::Deleted => "deleted",
            SecretFate::Made => "made",
        }
    }
}

/// One likely secret that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretChange {
    /// The path, spelled as in a manifest.
    pub path: String,
    pub change: SecretFate,
    /// Whether it is as it was before.
    pub restored: bool,
    /// Where the version of the routine or command is now, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
    /// Why it could not be restored, or what of it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the checkpoint holds it, because it was no secret then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_ordinary: bool,
}

impl SecretChange {
    fn new(path: &TreePath, change: SecretFate) -> SecretChange {
        let path = quote::in_json(path.as_bytes()).into_owned();
        SecretChange { path, change, restored: false, set_aside: None, why: None, was_ordinary: false }
    }

    pub fn tree_path(&self) -> Option<TreePath> {
        TreePath::new(&*quote::from_json(&self.path)?).ok()
    }
}

#[derive(Default)]
pub(super) struct HeldSecrets {
    /// Sorted by path.
    list: Vec<HeldTreeFile>,
    /// Of the directories above them, too.
    modes: DirModes,
    /// Directories that had nothing in them but held secrets.
    dirs_of_secrets: Vec<TreePath>,
    /// What it takes to write them back: a full disk must not lose them.
    room: Mutex<Vec<ReservedRoom>>,
    /// Held while they are restored: two threads at once would each take the other's file for one that is in the way.
    restoring: Mutex<()>,
}

impl HeldSecrets {
    /// Reads what fits into memory.
    pub fn hold(root: &Root, coverage: &Coverage) -> HeldSecrets {
        let (mut list, mut total) = (Vec::new(), 0);
        for path in &coverage.sensitive {
            let file = HeldTreeFile::read(root, path, MAX_FILE.min(MAX_TOTAL - total));
            total += file.bytes();
            list.push(file);
        }
        let modes = DirModes::hold(root, coverage);
        let mut held = HeldSecrets { list, modes, ..HeldSecrets::default() };
        let above: BTreeSet<TreePath> = coverage.sensitive.iter().flat_map(TreePath::ancestors).collect();
        let ignored = coverage.ignored_dirs.iter().filter(|path| above.contains(path));
        held.dirs_of_secrets = ignored.filter(|dir| held.holds_all_of(root, dir)).cloned().collect();
        held.reserve(root);
        held
    }

    /// Reserves the room that it takes to write them back, on each file system that has one of them, unless it is reserved.
    pub fn reserve(&self, root: &Root) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if !room.is_empty() {
            return;
        }
        // By device, with a directory on it.
        let mut places: BTreeMap<u64, (PathBuf, Vec<u64>)> = BTreeMap::new();
        for file in self.list.iter().filter(|file| file.not_held().is_none()) {
            let path = file.path.below(root.path());
            let dir = path.parent().unwrap_or(root.path());
            if let Ok(found) = dir.symlink_metadata() {
                let place = places.entry(found.dev()).or_insert_with(|| (dir.to_owned(), Vec::new()));
                place.1.push(file.bytes());
            }
        }
        let reserve = |(dir, sizes): (PathBuf, Vec<u64>)| ReservedRoom::for_files(&dir, sizes.into_iter());
        *room = places.into_values().filter_map(reserve).collect();
    }

    /// Frees the room that was reserved.
    pub fn release(&self) {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn holds_all_of(&self, root: &Root, dir: &TreePath) -> bool {
        let is_held = |path: &TreePath| {
            let at = self.list.binary_search_by(|file| file.path.cmp(path));
            at.map_or_else(|_| self.holds_all_of(root, path), |at| self.list[at].not_held().is_none())
        };
        // Something that is no directory cannot be listed.
        root.list(dir).is_ok_and(|paths| !paths.is_empty() && paths.iter().all(is_held))
    }

    /// Adds what the decree after a killed one needs to know.
    pub fn add_to(&self, record: &mut HeldRecord, root: &Root, key: RecordKey) {
        let spelled = |path: &TreePath| quote::in_json(path.as_bytes()).into_owned();
        let fingerprint = |file: &HeldTreeFile| Some((spelled(&file.path), file.fingerprint(root, key)?));
        record.secrets = self.list.iter().filter_map(fingerprint).collect();
        record.dir_modes = self.modes.to_record();
    }

    /// What is known after decree was killed: the names, and what was recorded.
    pub fn after_kill(paths: &[TreePath], record: Option<(&HeldRecord, RecordKey)>) -> HeldSecrets {
        let file = |path: &TreePath| {
            let spelled = quote::in_json(path.as_bytes());
            let found = record.and_then(|(record, key)| Some((record.secrets.get(&*spelled)?.clone(), key)));
            match found {
                Some((before, key)) => HeldTreeFile::recorded(path, before, key),
                None => HeldTreeFile::by_name(path, HOLDER_ENDED),
            }
        };
        let modes = record.map(|(record, _)| DirModes::from_record(&record.dir_modes)).unwrap_or_default();
        HeldSecrets { list: paths.iter().map(file).collect(), modes, ..HeldSecrets::default() }
    }

    /// The hash and the size of each content that could be read.
    pub fn contents(&self) -> impl Iterator<Item = (ContentHash, u64)> {
        self.list.iter().filter_map(HeldTreeFile::content)
    }

    /// The paths of those of which nothing is known but the name, spelled as in a manifest.
    pub fn unread(&self) -> Vec<String> {
        let unread = self.list.iter().filter(|file| file.is_unread());
        unread.map(|file| quote::in_json(file.path.as_bytes()).into_owned()).collect()
    }

    /// The paths, and why each cannot be restored.
    pub fn not_held(&self) -> Vec<(String, String)> {
        self.list.iter().filter_map(|file| Some((file.path.to_string(), file.not_held()?))).collect()
    }

    /// Whether a directory had nothing in it but held secrets, and all of them are there.
    pub fn is_all_of(&self, root: &Root, dir: &TreePath) -> bool {
        let in_dir = |file: &&HeldTreeFile| file.path.is_in(dir);
        let is_same = |file: &HeldTreeFile| matches!(file.state(root), Ok(PresentState::Same));
        self.dirs_of_secrets.contains(dir) && self.list.iter().filter(in_dir).all(is_same)
    }

    /// What is not as it was. `now` are the likely secrets that are in the tree.
    pub fn changes(&self, root: &Root, now: &[TreePath]) -> Vec<SecretChange> {
        let _unlocked = UnlockedDirs::above(root, self.list.iter().map(|file| &file.path));
        let mut changes: Vec<SecretChange> = Vec::new();
        for file in &self.list {
            let (fate, why) = match file.state(root) {
                Ok(PresentState::Same) => continue,
                Ok(PresentState::Deleted) => (SecretFate::Deleted, None),
                Ok(PresentState::Changed | PresentState::OtherMode) => (SecretFate::Changed, None),
                Err(error) => (SecretFate::Changed, Some(error.to_string())),
            };
            changes.push(SecretChange { why, ..SecretChange::new(&file.path, fate) });
        }
        changes.extend(self.made(now).map(|path| SecretChange::new(path, SecretFate::Made)));
        changes
    }

    fn made<'n>(&'n self, now: &'n [TreePath]) -> impl Iterator<Item = &'n TreePath> {
        now.iter().filter(|path| self.list.binary_search_by(|file| file.path.cmp(path)).is_err())
    }

    /// Restores those that were changed or deleted and that `covers` accepts, in the room that was reserved for them.
    pub fn restore(
        &self,
        root: &Root,
        set_aside: &Path,
        covers: &dyn Fn(&TreePath) -> bool,
    ) -> Vec<SecretChange> {
        let _restoring = self.restoring.lock().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<&HeldTreeFile> = self.list.iter().filter(|file| covers(&file.path)).collect();
        let unlocked = UnlockedDirs::above(root, files.iter().map(|file| &file.path));
        let mut changes = Vec::new();
        for file in files {
            let state = match file.state(root) {
                Ok(PresentState::Same) => continue,
                Ok(state) => state,
                // The attempt to restore it says why it cannot be read.
                Err(_) => PresentState::Changed,
            };
            let fate = if state == PresentState::Deleted { SecretFate::Deleted } else { SecretFate::Changed };
            let mut change = SecretChange::new(&file.path, fate);
            self.release();
            match self.restore_one(root, file, state, set_aside) {
                Ok(moved) => {
                    change.restored = true;
                    change.set_aside = moved;
                    change.why =
                        file.is_recorded().then(|| "only its mode was, which is restored".to_owned());
                }
                Err(why) => change.why = Some(why),
            }
            changes.push(change);
        }
        drop(unlocked);
        changes
    }

    /// Restores the modes of directories. A caller restores the secrets before, for which directories may have to be made.
    pub fn restore_modes(&self, root: &Root, covers: &dyn Fn(&TreePath) -> bool) -> RestoredModes {
        self.modes.restore(root, covers)
    }

    /// Returns where what was in its place is now.
    fn restore_one(
        &self,
        root: &Root,
        file: &HeldTreeFile,
        state: PresentState,
        set_aside: &Path,
    ) -> Result<Option<String>, String> {
        let words = |error: crate::error::Error| error.to_string();
        if state == PresentState::OtherMode {
            return file.restore_mode(root, set_aside).map(|()| None).map_err(words);
        }
        if let Some(why) = file.not_held() {
            return Err(why);
        }
        self.restore_dirs(root, &file.path, set_aside).map_err(words)?;
        let moved = file.restore(root, set_aside).map_err(words)?;
        match file.state(root) {
            Ok(PresentState::Same) => Ok(moved.map(|path| path.to_string_lossy().into_owned())),
            Ok(_) => Err("another process changed it again".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes the directories above a path that are gone. What is in their place moves to the quarantine.
    fn restore_dirs(&self, root: &Root, path: &TreePath, set_aside: &Path) -> Result<()> {
        if let Some(blocker) = root.blocker(path).at("read", path)? {
            move_aside(root, &blocker, &blocker, set_aside)?;
        }
        let mut made = Vec::new();
        for dir in path.ancestors() {
            let found = root.find(&dir).at("read", &dir)?;
            if found.is_none_or(|found| found.kind != PathKind::Dir) {
                root.make_dir(&dir).at("create", &dir)?;
                made.push(dir);
            }
        }
        for dir in made.iter().rev() {
            if let Some(mode) = self.modes.get(dir) {
                root.set_mode(dir, mode).at("change the mode of", dir)?;
            }
        }
        Ok(())
    }
}
