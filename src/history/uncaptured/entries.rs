//! The `.git` of repositories and the ignored entries in the root, held open: the kernel knows the present name of an open directory, so
//! one that was renamed is found and moved back, with everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::held_file::{HeldTreeFile, PresentState, move_aside};
use super::held_record::EntryIdentity;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::path::{GIT_DIR, TreePath};
use crate::checkpoint::quote;
use crate::checkpoint::root::{PathKind, Root};
use crate::fs::is_at;

/// How many entries are held open. Of further ones, only the names are known.
const MAX_OPEN: usize = 128;
/// The largest `.git` file, which only names a directory.
const MAX_GIT_FILE: u64 = 64 << 10;

pub(super) struct HeldEntries(Vec<HeldEntry>);

struct HeldEntry {
    path: TreePath,
    kind: EntryKind,
    form: EntryForm,
}

/// Why no checkpoint holds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Repository,
    Ignored,
    /// A socket, FIFO or device.
    Special,
}

impl EntryKind {
    pub fn words(self) -> &'static str {
        match self {
            EntryKind::Repository => "a repository",
            EntryKind::Ignored => "ignored",
            EntryKind::Special => "a socket, FIFO or device",
        }
    }
}

enum EntryForm {
    Dir(Option<File>),
    /// The `.git` of a work tree or submodule.
    GitFile(HeldTreeFile),
    File(Option<File>),
    /// Only its name is known.
    Named,
    /// The same after decree was killed.
    NamedAfterKill,
}

/// A repository that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRepository {
    pub path: String,
    /// What became of it: `was renamed to .git.bak`.
    pub what: String,
}

impl LostRepository {
    /// Why a run that did this is not kept.
    pub fn violation(&self) -> String {
        format!("{} {}; a repository must stay where it is", self.path, self.what)
    }
}

/// What was moved back.
#[derive(Default)]
pub(super) struct MovedBack {
    pub moved: Vec<String>,
    /// The `.git` files that were restored.
    pub git_files: Vec<String>,
    /// What was in the place of an entry, and where it is now.
    displaced: Vec<(TreePath, PathBuf)>,
}

impl MovedBack {
    /// Where each thing is now that was in the place of an entry, for people.
    pub fn displaced_names(&self, root: &Root) -> Vec<String> {
        self.left(root).map(|(_, to)| to).collect()
    }

    /// A sentence for each.
    pub fn notes(&self, root: &Root) -> Vec<String> {
        let note = |(path, to): (&TreePath, String)| {
            format!("{path} had been renamed; what was in its place is now {to}")
        };
        self.left(root).map(note).collect()
    }

    /// What is still there: another entry that was in the place of one is moved back from there.
    fn left(&self, root: &Root) -> impl Iterator<Item = (&TreePath, String)> {
        let left = self.displaced.iter().filter(|(_, to)| to.symlink_metadata().is_ok());
        left.map(|(path, to)| {
            let below = to.strip_prefix(root.path()).unwrap_or(to);
            (path, quote::for_people(below.as_os_str().as_encoded_bytes()).into_owned())
        })
    }
}

/// An entry that is missing after everything was moved back.
pub(super) struct MissingEntry {
    pub path: TreePath,
    pub kind: EntryKind,
    pub why: String,
}

impl HeldEntries {
    /// Opens what the limit allows, repositories first.
    pub fn hold(root: &Root, coverage: &Coverage) -> HeldEntries {
        let mut open = 0;
        let mut hold = |path: &TreePath, kind: EntryKind| {
            let found = root.find(path).ok().flatten()?.kind;
            let mut held = || {
                open += 1;
                (open <= MAX_OPEN).then(|| root.hold(path).ok()).flatten()
            };
            let form = match found {
                PathKind::Dir => EntryForm::Dir(held()),
                PathKind::File | PathKind::Symlink if kind == EntryKind::Repository => {
                    EntryForm::GitFile(HeldTreeFile::read(root, path, MAX_GIT_FILE))
                }
                _ => EntryForm::File(held()),
            };
            Some(HeldEntry { path: path.clone(), kind, form })
        };
        let all = repositories(coverage).chain(ignored_in_root(coverage));
        let mut held: Vec<HeldEntry> = all.filter_map(|(path, kind)| hold(path, kind)).collect();
        held.extend(named(below_root(coverage), || EntryForm::Named));
        HeldEntries(held)
    }

    /// What is known after decree was killed: the names.
    pub fn by_name(coverage: &Coverage) -> HeldEntries {
        let all = repositories(coverage).chain(ignored_in_root(coverage)).chain(below_root(coverage));
        HeldEntries(named(all, || EntryForm::NamedAfterKill).collect())
    }

    /// What is open, and `.git` files, by path, for the decree after one that is killed.
    pub fn to_record(&self, root: &Root) -> BTreeMap<String, EntryIdentity> {
        let identity = |entry: &HeldEntry| {
            let found = match &entry.form {
                EntryForm::GitFile(_) => entry.path.below(root.path()).symlink_metadata().ok()?,
                _ => entry.held()?.metadata().ok()?,
            };
            // A file with several names is not renamed if one of them goes.
            let identity = EntryIdentity::of(&found).filter(|_| found.is_dir() || found.nlink() == 1)?;
            Some((quote::in_json(entry.path.as_bytes()).into_owned(), identity))
        };
        self.0.iter().filter_map(identity).collect()
    }

    /// Entries that a killed decree had held, opened where they are now.
    pub fn found_again(found: BTreeMap<TreePath, File>) -> HeldEntries {
        let entry = |(path, open): (TreePath, File)| {
            let is_dir = open.metadata().is_ok_and(|found| found.is_dir());
            let is_git = path.split().1 == GIT_DIR;
            let kind = if is_git { EntryKind::Repository } else { EntryKind::Ignored };
            let form = if is_dir { EntryForm::Dir(Some(open)) } else { EntryForm::File(Some(open)) };
            HeldEntry { path, kind, form }
        };
        HeldEntries(found.into_iter().map(entry).collect())
    }

    /// Repositories whose history a kept run would have removed.
    pub fn lost_repositories(&self, root: &Root) -> Vec<LostRepository> {
        let lost = |entry: &HeldEntry| {
            let what = entry.loss(root)?;
            Some(LostRepository { path: entry.path.to_string(), what })
        };
        self.0.iter().filter(|entry| entry.is_repository()).filter_map(lost).collect()
    }

    /// The entries of a kind that are gone, for a run that is kept.
    pub fn gone(&self, root: &Root, kind: EntryKind) -> Vec<String> {
        let gone = |entry: &&HeldEntry| matches!(root.find(&entry.path), Ok(None));
        self.0.iter().filter(|entry| entry.kind == kind).filter(gone).map(|it| it.path.to_string()).collect()
    }

    /// Moves what was renamed back to its place, and restores `.git` files. What cannot be moved yet, because a file is
    /// in the place of its directory, is moved by a later call; what cannot be moved at all is reported by [`Self::missing`].
    pub fn move_back(&self, root: &Root, set_aside: &Path, covers: &dyn Fn(&TreePath) -> bool) -> MovedBack {
        let mut back = MovedBack::default();
        let wanted = self.0.iter().filter(|entry| entry.is_repository() || covers(&entry.path));
        for entry in wanted {
            let Ok(Some(displaced)) = entry.move_back(root, set_aside) else { continue };
            let moved = if matches!(entry.form, EntryForm::GitFile(_)) {
                &mut back.git_files
            } else {
                &mut back.moved
            };
            moved.push(entry.path.to_string());
            back.displaced.extend(displaced.map(|to| (entry.path.clone(), to)));
        }
        back
    }

    /// Sets aside what is in the place of a git directory that was deleted and can be rebuilt.
    pub fn clear_replaced(&self, root: &Root, set_aside: &Path, can_rebuild: &dyn Fn(&Path) -> bool) {
        for entry in self.0.iter().filter(|entry| entry.is_repository() && entry.held().is_some()) {
            let is_there = matches!(root.find(&entry.path), Ok(Some(_)));
            if is_there
                && !entry.is_in_place(root)
                && entry.place_now().is_none()
                && can_rebuild(&entry.path.below(root.path()))
            {
                // If that fails, it is reported as missing.
                let _ = move_aside(root, &entry.path, &entry.path, set_aside);
            }
        }
    }

    /// Takes rebuilt git directories for those that were held.
    pub fn adopt(&mut self, root: &Root, is_rebuilt: &dyn Fn(&Path) -> bool) {
        for entry in self.0.iter_mut().filter(|entry| entry.is_repository()) {
            if is_rebuilt(&entry.path.below(root.path())) && !entry.is_in_place(root) {
                entry.form = EntryForm::Dir(root.hold(&entry.path).ok());
            }
        }
    }

    /// Ignored directories that were deleted and made again: what was in them is gone.
    pub fn replaced(&self, root: &Root, covers: &dyn Fn(&TreePath) -> bool) -> Vec<String> {
        let is_replaced = |entry: &&HeldEntry| {
            let is_dir = entry.kind == EntryKind::Ignored && matches!(entry.form, EntryForm::Dir(Some(_)));
            let is_there = || matches!(root.find(&entry.path), Ok(Some(_)));
            is_dir && !entry.is_in_place(root) && entry.place_now().is_none() && is_there()
        };
        let covered = self.0.iter().filter(|entry| covers(&entry.path));
        covered.filter(is_replaced).map(|entry| entry.path.to_string()).collect()
    }

    pub fn missing(&self, root: &Root, covers: &dyn Fn(&TreePath) -> bool) -> Vec<MissingEntry> {
        let wanted = self.0.iter().filter(|entry| entry.is_repository() || covers(&entry.path));
        let missing = |entry: &HeldEntry| {
            let why = entry.missing(root)?;
            Some(MissingEntry { path: entry.path.clone(), kind: entry.kind, why })
        };
        let mut all: Vec<MissingEntry> = wanted.filter_map(missing).collect();
        // A directory stands for what was in it.
        let gone: BTreeSet<TreePath> = all.iter().map(|entry| entry.path.clone()).collect();
        all.retain(|entry| !entry.path.ancestors().any(|dir| gone.contains(&dir)));
        all
    }
}

/// Repositories come first: what is held open is limited.
fn repositories(coverage: &Coverage) -> impl Iterator<Item = (&TreePath, EntryKind)> {
    coverage.repositories.iter().map(|path| (path.as_tree_path(), EntryKind::Repository))
}

fn ignored_in_root(coverage: &Coverage) -> impl Iterator<Item = (&TreePath, EntryKind)> {
    coverage.ignored_in_root.iter().map(|path| (path, EntryKind::Ignored))
}

/// The entries of which only the existence is checked: ignored ones below the root, and what is neither file, directory nor link.
fn below_root(coverage: &Coverage) -> impl Iterator<Item = (&TreePath, EntryKind)> {
    let dirs = coverage.ignored_dirs.iter().filter(|path| !path.split().0.is_empty());
    let ignored = dirs.chain(&coverage.ignored_below).map(|path| (path, EntryKind::Ignored));
    ignored.chain(coverage.special_files().map(|path| (path, EntryKind::Special)))
}

fn named<'n>(
    entries: impl Iterator<Item = (&'n TreePath, EntryKind)>,
    form: impl Fn() -> EntryForm,
) -> impl Iterator<Item = HeldEntry> {
    entries.map(move |(path, kind)| HeldEntry { path: path.clone(), kind, form: form() })
}

impl HeldEntry {
    fn is_repository(&self) -> bool {
        self.kind == EntryKind::Repository
    }

    fn held(&self) -> Option<&File> {
        match &self.form {
            EntryForm::Dir(open) | EntryForm::File(open) => open.as_ref(),
            EntryForm::GitFile(_) | EntryForm::Named | EntryForm::NamedAfterKill => None,
        }
    }

    /// Whether the held entry itself is in its place.
    fn is_in_place(&self, root: &Root) -> bool {
        let Some(held) = self.held() else { return matches!(root.find(&self.path), Ok(Some(_))) };
        let id = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        root.hold(&self.path).is_ok_and(|found| id(&found).is_some() && id(&found) == id(held))
    }

    /// Where it is now, if it is not in its place and was not deleted.
    fn place_now(&self) -> Option<PathBuf> {
        let held = self.held()?;
        let now = std::fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()?;
        is_at(held, &now).then_some(now)
    }

    /// What became of a repository that is not where it was, unless it moved with its work tree or its `.git` became a file that names
    /// the directory, as `git init --separate-git-dir` does it.
    fn loss(&self, root: &Root) -> Option<String> {
        if self.is_in_place(root) {
            return None;
        }
        let found = root.find(&self.path).ok().flatten();
        let Some(now) = self.place_now() else {
            return Some(if found.is_some() { "was replaced" } else { "is gone" }.to_owned());
        };
        let is_file = found.is_some_and(|found| found.kind == PathKind::File);
        let name = now.file_name().map(|name| name.as_encoded_bytes());
        let inside = real(root.path()).and_then(|root| now.strip_prefix(root).ok().map(Path::to_owned));
        let moved_along = inside.is_some() && name == Some(GIT_DIR) && found.is_none();
        if is_file || moved_along {
            return None;
        }
        Some(format!("was renamed to {}", inside.unwrap_or(now).display()))
    }

    /// Returns `None` if it did not have to be moved, or cannot be; otherwise where what was in its place is now.
    fn move_back(&self, root: &Root, set_aside: &Path) -> io::Result<Option<Option<PathBuf>>> {
        if let EntryForm::GitFile(file) = &self.form {
            let state = file.state(root)?;
            let is_wanted = matches!(state, PresentState::Deleted | PresentState::Changed);
            let is_back = is_wanted && file.not_held().is_none() && file.restore(root, set_aside).is_ok();
            return Ok(is_back.then_some(None));
        }
        if self.held().is_none() || self.is_in_place(root) {
            return Ok(None);
        }
        let Some(now) = self.place_now() else { return Ok(None) };
        // The directories above a repository are in the checkpoint, and get their files and modes when the tree is reverted.
        self.path.ancestors().try_for_each(|dir| root.make_dir(&dir))?;
        let found = root.find(&self.path)?;
        // A file that has a new version in its place, such as a log that was rotated, stays where it is.
        if found.is_some() && !matches!(self.form, EntryForm::Dir(_)) {
            return Ok(None);
        }
        let mut displaced = None;
        if found.is_some() {
            let moved = move_aside(root, &self.path, &self.path, set_aside);
            displaced = Some(moved.map_err(|error| io::Error::other(error.to_string()))?);
        }
        if let Err(error) = self.move_in(root, &now) {
            // If this fails, too, it is in `set-aside/`, and the entry is reported as missing.
            displaced.iter().for_each(|to| drop(root.move_in(to, &self.path)));
            return Err(error);
        }
        Ok(self.is_in_place(root).then_some(displaced))
    }

    /// A directory can only move if it is writable, as its `..` changes, and only out of one that is.
    fn move_in(&self, root: &Root, now: &Path) -> io::Result<()> {
        match root.move_in(now, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let above = now.parent().map(UnlockedPath::new).transpose()?;
                let own = UnlockedPath::new(now)?;
                let moved = root.move_in(now, &self.path);
                if moved.is_ok() {
                    root.set_mode(&self.path, FileMode::from_bits(own.keep()))?;
                }
                drop(above);
                moved
            }
            result => result,
        }
    }

    /// Why it counts as missing. An ignored entry that was made anew counts as there; a repository does not.
    fn missing(&self, root: &Root) -> Option<String> {
        let found = root.find(&self.path).ok().flatten();
        if found.is_some() && (!self.is_repository() || self.held().is_none() || self.is_in_place(root)) {
            return None;
        }
        Some(match self.place_now() {
            Some(now) => format!("it is at {}, and is not moved back", now.display()),
            None if found.is_some() => "it was deleted, and another one is in its place".to_owned(),
            None if matches!(self.form, EntryForm::NamedAfterKill) => {
                "it is gone; the decree that held it has ended".to_owned()
            }
            None => "it was deleted".to_owned(),
        })
    }
}

/// A path that its owner may write to, until this is dropped.
struct UnlockedPath {
    path: PathBuf,
    /// As it was; `None` if that is not to be restored.
    mode: Option<u32>,
}

impl UnlockedPath {
    fn new(path: &Path) -> io::Result<UnlockedPath> {
        let found = path.symlink_metadata()?;
        let mode = found.permissions().mode();
        if !found.is_symlink() {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o700))?;
        }
        Ok(UnlockedPath { path: path.to_owned(), mode: (!found.is_symlink()).then_some(mode) })
    }

    /// Leaves the mode, which is returned, to the caller.
    fn keep(mut self) -> u32 {
        self.mode.take().unwrap_or(0o777)
    }
}

impl Drop for UnlockedPath {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            let _ = std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode));
        }
    }
}

/// The project's directory without links, as the kernel names it.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}
