//! The inside of `.git` directories, as it was: small files in memory, because settings may have credentials; objects as hard links.
//!
//! A failed run or command gets its settings, its hooks and operations in progress back as they were, the lines of reflogs, what other programs
//! keep there and is gone, and everything if the repository as such is broken. Refs and the index are git's own state, which the checkpoint has. Of a kept one, only damage counts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::git_inside::{HeldInside, InsideForm, MAX_TOTAL, list_inside, set_mode};
use super::inside_kind::{HEAD, InsideKind, LOGS, MODULES, PACKED_REFS, REFS, WORK_TREES};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::error::{IoContext, Result};
use crate::fs::leads_through_link;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::git::state::{GitDirs, Head, INDEX, OBJECTS, ObjectLinks};
use crate::humanize::count;

/// Of these, files that are new are set aside.
const SETTINGS_DIRS: [&str; 2] = ["hooks", "info"];
/// The same for operations that were in progress.
const OPERATION_DIRS: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

pub(super) struct HeldGitDirs {
    pub root: PathBuf,
    pub dirs: Vec<HeldGitDir>,
    pub links: Option<ObjectLinks>,
    /// Whether objects could not be restored: then their second names stay.
    pub has_losses: Cell<bool>,
}

/// One git directory.
pub(super) struct HeldGitDir {
    pub dir: PathBuf,
    pub mode: u32,
    pub entries: Vec<HeldInside>,
    /// How many objects had a second name, if decree was killed since.
    pub linked: Option<usize>,
    /// Whether it was gone as a whole and is back.
    pub was_rebuilt: Cell<bool>,
}

/// What was restored inside of git directories, and what was not.
#[derive(Default)]
pub(super) struct InsideReport {
    pub restored: Vec<String>,
    /// Paths, each with the reason.
    pub not_restored: Vec<(String, String)>,
    /// Of the data of other programs, how many files are lost of each directory.
    lost_data: BTreeMap<String, usize>,
}

impl HeldGitDirs {
    /// Reads the git directories in the tree, and links their objects in `links`.
    pub fn hold(root: &Root, coverage: &Coverage, links: &Path) -> HeldGitDirs {
        let root = root.path().to_owned();
        let mut dirs: Vec<PathBuf> = Vec::new();
        for path in &coverage.repositories {
            add_git_dirs(&path.as_tree_path().below(&root), &mut dirs);
        }
        let own = GitDirs::find(&root);
        let is_new = |dir: &Path, dirs: &[PathBuf]| {
            dirs.iter().all(|it| it.canonicalize().ok().as_deref() != Some(dir))
        };
        let common = own.as_ref().and_then(|own| own.common_dir.canonicalize().ok());
        // The project may be below the top of its repository or in a linked work tree, and `.git` may be a link.
        if let Some(dir) = common.as_ref().filter(|dir| is_new(dir, &dirs)) {
            add_git_dirs(dir, &mut dirs);
        }
        let held = HeldGitDir::read_all(&dirs);
        let links = (!dirs.is_empty()).then(|| ObjectLinks::create(links, &dirs));
        HeldGitDirs { root, dirs: held, links, has_losses: Cell::new(false) }
    }

    /// Files that cannot be restored, for the user: settings and logs each, of the data of other programs the number.
    pub fn files_not_held(&self) -> Vec<String> {
        let mut files = Vec::new();
        for held in &self.dirs {
            let mut data: BTreeMap<PathBuf, usize> = BTreeMap::new();
            for entry in held.entries.iter().filter(|entry| matches!(entry.form, InsideForm::NotHeld(_))) {
                match entry.kind() {
                    InsideKind::Passing | InsideKind::StashLog => {}
                    InsideKind::Data => *data.entry(held.dir.join(entry.top())).or_default() += 1,
                    _ => files.push(self.shown(&held.dir.join(&entry.name))),
                }
            }
            files.extend(data.iter().map(|(dir, number)| format!("{number} of {}", self.shown(dir))));
        }
        files
    }

    /// What a kept run deleted without breaking a repository: hooks, settings, all reflogs, the data of other programs.
    pub fn gone_in_kept(&self) -> Vec<String> {
        let gone = self.dirs.iter().flat_map(|held| {
            let names = held.entries.iter().filter(|entry| {
                let is_named = match entry.kind() {
                    InsideKind::Setting => true,
                    InsideKind::Log => entry.name == Path::new(LOGS),
                    // All that is below it is gone, too.
                    InsideKind::Data => entry.name.parent().is_none_or(|parent| !held.is_gone(parent)),
                    InsideKind::Operation | InsideKind::StashLog | InsideKind::Passing => false,
                };
                is_named && held.is_gone(&entry.name)
            });
            names.map(|entry| self.shown(&held.dir.join(&entry.name)))
        });
        gone.collect()
    }

    /// Writes the places of linked work trees back that a kept run changed, although the work tree is where it was: decree has moved the
    /// directory of the project back. Returns what was written, or why it could not be.
    pub fn restore_places(&self) -> Vec<String> {
        let restore = |held: &HeldGitDir, entry: &HeldInside| {
            let path = held.dir.join(&entry.name);
            let is_wanted = !entry.is_same(&path) && entry.is_place_of_work_tree(&held.dir);
            let written = is_wanted.then(|| entry.write(&path))?;
            Some(written.map_or_else(|error| error.to_string(), |()| self.shown(&path)))
        };
        let all = self.dirs.iter().flat_map(|held| held.entries.iter().map(move |entry| (held, entry)));
        all.filter_map(|(held, entry)| restore(held, entry)).collect()
    }

    /// Restores what a failed run changed. What is in the way moves to `set_aside`.
    pub fn restore(&self, set_aside: &Path) -> InsideReport {
        let mut report = InsideReport::default();
        for held in &self.dirs {
            // What is in memory is written back also if objects are lost. After a kill nothing is, and it is missing as a whole.
            let is_free = || held.linked.is_none() && held.dir.symlink_metadata().is_err();
            if !is_dir(&held.dir) && !self.can_rebuild(&held.dir) && !is_free() {
                continue;
            }
            if let Err(error) = held.restore(set_aside, self, &mut report) {
                report.lose(self.shown(&held.dir), error.to_string());
            }
        }
        report.name_lost_data();
        self.restore_objects(&mut report);
        self.name_disconnected(&mut report);
        report
    }

    /// Whether this git directory was deleted and is back. What is lost of it is reported.
    pub fn was_rebuilt(&self, dir: &Path) -> bool {
        self.dirs.iter().any(|held| held.dir == dir && held.was_rebuilt.get())
    }

    /// Whether a git directory that is gone can be made again, with its objects.
    pub fn can_rebuild(&self, dir: &Path) -> bool {
        let is_whole = |held: &HeldGitDir| {
            !held.entries.iter().any(|entry| matches!(entry.form, InsideForm::Recorded(_)))
        };
        self.dirs.iter().any(|held| held.dir == dir && is_whole(held))
            && self.links.as_ref().is_some_and(|links| links.has_all(dir))
    }

    /// The run is over.
    pub fn release(&mut self) {
        if let Some(links) = self.links.take() {
            // The next command that takes the lock removes what is left.
            let _ = if self.has_losses.get() { links.keep().map(drop) } else { links.remove() };
        }
    }

    pub fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        quote::in_json(path.as_os_str().as_encoded_bytes()).into_owned()
    }
}

impl InsideReport {
    fn lose_data(&mut self, dir: String) {
        *self.lost_data.entry(dir).or_default() += 1;
    }

    fn name_lost_data(&mut self) {
        for (dir, number) in std::mem::take(&mut self.lost_data) {
            self.lose(dir, format!("{} gone, and too large to be held", count(number, "file")));
        }
    }

    pub fn lose(&mut self, path: String, why: String) {
        self.not_restored.push((path, format!("a repository: {why}")));
    }
}

impl HeldGitDir {
    /// Reads these directories: settings of all of them first, as there is only so much room.
    fn read_all(dirs: &[PathBuf]) -> Vec<HeldGitDir> {
        let list = |dir: &PathBuf| {
            let mut entries = Vec::new();
            list_inside(dir, Path::new(""), &mut entries);
            let mode = mode_of(dir).unwrap_or(0o755);
            HeldGitDir { dir: dir.clone(), mode, entries, linked: None, was_rebuilt: Cell::new(false) }
        };
        let mut all: Vec<HeldGitDir> = dirs.iter().map(list).collect();
        let mut files: Vec<(&Path, &mut HeldInside)> = Vec::new();
        for HeldGitDir { dir, entries, .. } in &mut all {
            files.extend(entries.iter_mut().map(|entry| (&**dir, entry)));
        }
        files.sort_by_key(|(_, entry)| entry.kind());
        let mut room = MAX_TOTAL;
        files.into_iter().for_each(|(dir, entry)| entry.read_content(dir, &mut room));
        all
    }

    pub fn is_gone(&self, name: &Path) -> bool {
        self.dir.join(name).symlink_metadata().is_err()
    }

    /// Whether a file that was held is gone or changed.
    pub fn is_other(&self, name: &Path) -> bool {
        self.entries.iter().any(|entry| entry.name == name && !entry.is_same(&self.dir.join(name)))
    }

    fn restore(&self, set_aside: &Path, all: &HeldGitDirs, report: &mut InsideReport) -> Result<()> {
        let was_gone = self.dir.symlink_metadata().is_err();
        if was_gone {
            fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        }
        if mode_of(&self.dir) != Some(self.mode) {
            set_mode(&self.dir, self.mode)?;
            report.restored.push(all.shown(&self.dir));
        }
        let is_broken = !self.gone_essentials().is_empty();
        let gone_work_trees = self.gone_work_trees();
        for entry in &self.entries {
            let path = self.dir.join(&entry.name);
            if let Some(mode) = entry.other_mode(&path) {
                set_mode(&path, mode)?;
                report.restored.push(all.shown(&path));
            }
            let log = entry.repaired_log(&path);
            let is_of_lost = || is_broken || gone_work_trees.iter().any(|gone| entry.name.starts_with(gone));
            if log.is_none() && !self.is_wanted(entry, is_of_lost) {
                continue;
            }
            let entry = log.as_ref().unwrap_or(entry);
            if entry.name.parent().is_some_and(|above| leads_through_link(&self.dir, above)) {
                report.lose(all.shown(&path), "a link is in the place of its directory".to_owned());
                continue;
            }
            if let Some(why) = entry.not_held(&path) {
                match (entry.kind(), &entry.form) {
                    (InsideKind::Data, InsideForm::NotHeld(_)) => {
                        report.lose_data(all.shown(&self.dir.join(entry.top())));
                    }
                    _ => report.lose(all.shown(&path), why),
                }
                continue;
            }
            self.move_aside(&entry.name, set_aside, all)?;
            entry.write(&path)?;
            if !matches!(entry.form, InsideForm::Dir { .. }) || is_broken {
                report.restored.push(all.shown(&path));
            }
        }
        for name in self.new_settings().into_iter().chain(self.junk_refs()) {
            self.move_aside(&name, set_aside, all)?;
            report.restored.push(all.shown(&self.dir.join(name)));
        }
        if is_broken {
            // One line is enough for all of it.
            let inside = format!("{}/", all.shown(&self.dir));
            report.restored.retain(|name| !name.starts_with(&inside));
            report.restored.push(all.shown(&self.dir));
        }
        self.was_rebuilt.set(self.was_rebuilt.get() || was_gone);
        Ok(())
    }

    /// Whether an entry is to be written, given whether all that was beside it is lost.
    fn is_wanted(&self, entry: &HeldInside, is_of_lost: impl Fn() -> bool) -> bool {
        let path = self.dir.join(&entry.name);
        if self.is_gone(&entry.name) {
            return entry.kind().is_kept() || is_of_lost();
        }
        if matches!(entry.form, InsideForm::Dir { .. }) && is_dir(&path) {
            return false;
        }
        if [INDEX, PACKED_REFS].iter().any(|name| entry.name == Path::new(name)) && is_dir(&path) {
            return !matches!(entry.form, InsideForm::Dir { .. });
        }
        let is_ref = entry.name.starts_with(REFS) && path.is_file();
        let is_damaged = || (is_ref || entry.name == Path::new(HEAD)) && !Head::is_in(&path);
        let is_wanted =
            || entry.kind().is_kept_as_it_was() || is_damaged() || entry.is_place_of_work_tree(&self.dir);
        entry.is_cut_log(&path) || !entry.is_same(&path) && is_wanted()
    }

    /// Linked work trees that the repository no longer knows.
    fn gone_work_trees(&self) -> Vec<PathBuf> {
        let names = self.entries.iter().map(|entry| &entry.name);
        let work_trees = names.filter(|name| name.parent() == Some(Path::new(WORK_TREES)));
        work_trees.filter(|name| self.is_gone(name)).cloned().collect()
    }

    /// Files among hooks and the like, and in an operation that was in progress, that were not there before.
    fn new_settings(&self) -> Vec<PathBuf> {
        let mut now = Vec::new();
        let was_there = |name: &&str| self.entries.iter().any(|entry| entry.name == Path::new(name));
        for name in SETTINGS_DIRS.into_iter().chain(OPERATION_DIRS.into_iter().filter(was_there)) {
            read_names(&self.dir, Path::new(name), &mut now);
        }
        now.retain(|name| self.entries.iter().all(|entry| entry.name != *name));
        now
    }

    fn move_aside(&self, name: &Path, set_aside: &Path, all: &HeldGitDirs) -> Result<()> {
        let from = self.dir.join(name);
        let outside = || Path::new(self.dir.file_name().unwrap_or_default()).join(name);
        let to = set_aside.join(from.strip_prefix(&all.root).map_or_else(|_| outside(), Path::to_owned));
        if let Some(parent) = to.parent().filter(|_| from.symlink_metadata().is_ok()) {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        move_to_free_name(&from, |number| numbered(&to, ".", number)).map(drop)
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|found| found.permissions().mode() & 0o7777)
}

/// Adds a git directory, and those of the submodules in it.
fn add_git_dirs(dir: &Path, dirs: &mut Vec<PathBuf>) {
    if !is_dir(dir) {
        return;
    }
    if dir.join(HEAD).symlink_metadata().is_ok() && is_dir(&dir.join(OBJECTS)) {
        dirs.push(dir.to_owned());
        return add_git_dirs(&dir.join(MODULES), dirs);
    }
    // A submodule's name may have slashes.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        add_git_dirs(&entry.path(), dirs);
    }
}

/// The files in a directory and below.
pub(super) fn read_names(dir: &Path, name: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir.join(name)).into_iter().flatten().flatten() {
        let name = name.join(entry.file_name());
        if is_dir(&entry.path()) { read_names(dir, &name, out) } else { out.push(name) }
    }
}

pub(super) fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}
