//! The inside of `.git` directories, as it was: small files in memory, because settings may have credentials; objects as hard links.
//!
//! A failed run or command gets its settings and hooks back as they were, reflogs that are gone, and everything if the repository as
//! such is broken. Refs and the index are git's own state, which the checkpoint has. Of a kept one, only damage counts.

use std::cell::Cell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::quote;
use crate::checkpoint::root::Root;
use crate::error::{IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::git::state::{GitDirs, OBJECTS, ObjectLinks, is_connected};
use crate::project::Layout;

/// The largest file that is held, and how much is held together.
const MAX_FILE: u64 = 16 << 20;
const MAX_TOTAL: u64 = 64 << 20;
/// Without one of these, git does not take a directory for a repository, or for another one.
const ESSENTIAL: [&str; 4] = ["HEAD", "config", OBJECTS, "refs"];
/// What a user sets up, and git itself never changes on its own.
const SETTINGS: [&str; 7] =
    ["config", "config.worktree", "description", "hooks", "info", SHALLOW, ALTERNATES];
/// Which commits have no parents here, and where else objects are: without these a repository may be broken.
const SHALLOW: &str = "shallow";
const ALTERNATES: &str = "objects/info/alternates";
/// Of these, files that are new are set aside.
const SETTINGS_DIRS: [&str; 2] = ["hooks", "info"];
const LOGS: &str = "logs";
/// The repositories of submodules.
const MODULES: &str = "modules";

pub(super) struct HeldGitDirs {
    root: PathBuf,
    dirs: Vec<HeldGitDir>,
    links: Option<ObjectLinks>,
    /// Whether objects could not be restored: then their second names stay.
    has_losses: Cell<bool>,
}

/// One git directory.
struct HeldGitDir {
    dir: PathBuf,
    mode: u32,
    entries: Vec<HeldInside>,
    /// Whether everything was gone and is back.
    was_rebuilt: Cell<bool>,
}

struct HeldInside {
    /// Relative to the git directory.
    name: PathBuf,
    form: InsideForm,
}

enum InsideForm {
    Dir {
        mode: u32,
    },
    File {
        mode: u32,
        bytes: Vec<u8>,
    },
    Link(PathBuf),
    /// Too large to be held, or not readable.
    NotHeld,
}

/// What was restored inside of git directories, and what was not.
#[derive(Default)]
pub(super) struct InsideReport {
    pub restored: Vec<String>,
    /// Paths, each with the reason.
    pub not_restored: Vec<(String, String)>,
}

impl HeldGitDirs {
    /// Reads the git directories in the tree, and links their objects in `links`.
    pub fn hold(root: &Root, coverage: &Coverage, links: &Path) -> HeldGitDirs {
        let root = root.path().to_owned();
        let mut dirs: Vec<PathBuf> = Vec::new();
        for path in &coverage.repositories {
            add_git_dirs(&path.as_tree_path().below(&root), &mut dirs);
        }
        let mut room = MAX_TOTAL;
        let held = dirs.iter().map(|dir| HeldGitDir::read(dir, &mut room)).collect();
        // In a linked work tree, the objects are those of another directory.
        dirs.extend(GitDirs::find(&root).map(|found| found.common_dir).filter(|dir| !dirs.contains(dir)));
        dirs.dedup_by_key(|dir| dir.canonicalize().ok());
        let links = (!dirs.is_empty()).then(|| ObjectLinks::create(links, &dirs));
        HeldGitDirs { root, dirs: held, links, has_losses: Cell::new(false) }
    }

    /// What is known after decree was killed. The next command that takes the lock has restored the objects.
    pub fn nothing() -> HeldGitDirs {
        HeldGitDirs { root: PathBuf::new(), dirs: Vec::new(), links: None, has_losses: Cell::new(false) }
    }

    /// What a run has broken: each git directory with what is gone.
    pub fn broken(&self) -> Vec<(String, String)> {
        let broken = |held: &HeldGitDir| {
            let gone = held.gone_essentials();
            if !gone.is_empty() {
                return Some((self.shown(&held.dir), format!("lost its {}", gone.join(", "))));
            }
            let pruned = self.links.as_ref().is_some_and(|links| links.any_gone(&held.dir));
            let is_other = [SHALLOW, ALTERNATES].iter().any(|name| held.is_other(Path::new(name)));
            ((pruned || is_other) && is_connected(&held.dir) == Some(false))
                .then(|| (self.shown(&held.dir), "lost objects that it needs".to_owned()))
        };
        self.dirs.iter().filter(|held| is_dir(&held.dir)).filter_map(broken).collect()
    }

    /// What a kept run deleted without breaking a repository: hooks, settings, all reflogs.
    pub fn gone_in_kept(&self) -> Vec<String> {
        let gone = self.dirs.iter().flat_map(|held| {
            let names = held.entries.iter().filter(|entry| {
                let is_log = entry.name == Path::new(LOGS);
                (is_log || entry.is_in(&SETTINGS)) && held.is_gone(&entry.name)
            });
            names.map(|entry| self.shown(&held.dir.join(&entry.name)))
        });
        gone.collect()
    }

    /// Restores what a failed run changed. What is in the way moves to `set_aside`.
    pub fn restore(&self, set_aside: &Path) -> InsideReport {
        let mut report = InsideReport::default();
        for held in &self.dirs {
            if !is_dir(&held.dir) && !self.can_rebuild(&held.dir) {
                // It is missing as a whole.
                continue;
            }
            if let Err(error) = held.restore(set_aside, self, &mut report) {
                report.lose(self.shown(&held.dir), error.to_string());
            }
        }
        let Some(links) = &self.links else { return report };
        let objects = links.restore();
        self.has_losses.set(!objects.lost.is_empty());
        if objects.restored > 0 {
            report.restored.push(format!("{} git objects", objects.restored));
        }
        for (dir, count, why) in objects.lost {
            let git_dir = dir.parent().unwrap_or(&dir);
            self.dirs.iter().filter(|held| held.dir == git_dir).for_each(|held| held.was_rebuilt.set(false));
            if is_connected(git_dir) != Some(true) {
                report.lose(self.shown(&dir), format!("{count} objects are gone; {why}"));
            }
        }
        report
    }

    /// Whether this git directory was deleted and is back, with all that was in it.
    pub fn was_rebuilt(&self, dir: &Path) -> bool {
        self.dirs.iter().any(|held| held.dir == dir && held.was_rebuilt.get())
    }

    /// Whether a git directory that is gone can be made again, with its objects.
    pub fn can_rebuild(&self, dir: &Path) -> bool {
        self.dirs.iter().any(|held| held.dir == dir)
            && self.links.as_ref().is_some_and(|links| links.has_all(dir))
    }

    /// The run is over.
    pub fn release(&mut self) {
        if let Some(links) = self.links.take() {
            // The next command that takes the lock removes what is left.
            let _ = if self.has_losses.get() { links.keep().map(drop) } else { links.remove() };
        }
    }

    fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        quote::in_json(path.as_os_str().as_encoded_bytes()).into_owned()
    }
}

/// Moves git directories back that were renamed, and restores objects that are gone, from what a killed decree left. Returns what to report.
pub fn restore_left_objects(layout: &Layout) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let Some(links) = ObjectLinks::left_by_killed(&layout.git_objects(), layout.root()) else {
        return Ok(texts);
    };
    let root = layout.root().canonicalize().unwrap_or_else(|_| layout.root().to_owned());
    for dir in links.move_back(&root) {
        let shown = dir.strip_prefix(&root).unwrap_or(&dir).display().to_string();
        texts.push(format!("decree was killed; {shown} had been renamed, and is moved back"));
    }
    let objects = links.restore();
    if objects.restored > 0 {
        let restored = objects.restored;
        texts.push(format!("decree was killed; {restored} git objects that were gone are restored"));
    }
    if objects.lost.is_empty() {
        links.remove()?;
    } else if let Some(kept) = links.keep()? {
        let kept = layout.shown(&kept);
        texts.push(format!("git objects that could not be restored are kept in {kept}"));
    }
    Ok(texts)
}

impl InsideReport {
    fn lose(&mut self, path: String, why: String) {
        self.not_restored.push((path, format!("a repository: {why}")));
    }
}

impl HeldGitDir {
    fn read(dir: &Path, room: &mut u64) -> HeldGitDir {
        let mut entries = Vec::new();
        read_inside(dir, Path::new(""), room, &mut entries);
        let alternates = dir.join(ALTERNATES);
        if let (Some(mode), Some(bytes)) = (mode_of(&alternates), read_file(&alternates, room)) {
            entries.push(HeldInside { name: ALTERNATES.into(), form: InsideForm::File { mode, bytes } });
        }
        let mode = mode_of(dir).unwrap_or(0o755);
        HeldGitDir { dir: dir.to_owned(), mode, entries, was_rebuilt: Cell::new(false) }
    }

    fn is_gone(&self, name: &Path) -> bool {
        self.dir.join(name).symlink_metadata().is_err()
    }

    /// Whether a file that was held is gone or changed.
    fn is_other(&self, name: &Path) -> bool {
        self.entries.iter().any(|entry| entry.name == name && !entry.is_same(&self.dir.join(name)))
    }

    fn gone_essentials(&self) -> Vec<&'static str> {
        let was_there = |name: &&str| self.entries.iter().any(|entry| entry.name == Path::new(name));
        ESSENTIAL.into_iter().filter(was_there).filter(|name| self.is_gone(Path::new(name))).collect()
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
        let mut is_whole = true;
        for entry in &self.entries {
            let path = self.dir.join(&entry.name);
            let is_wanted = if self.is_gone(&entry.name) {
                is_broken || entry.is_in(&SETTINGS) || entry.name.starts_with(LOGS)
            } else if let InsideForm::Dir { mode } = entry.form
                && is_dir(&path)
            {
                if mode_of(&path) != Some(mode) {
                    set_mode(&path, mode)?;
                    report.restored.push(all.shown(&path));
                }
                false
            } else {
                entry.is_in(&SETTINGS) && !entry.is_same(&path)
            };
            if !is_wanted {
                continue;
            }
            if matches!(entry.form, InsideForm::NotHeld) {
                report.lose(all.shown(&path), "it is gone or changed, and was not held".to_owned());
                is_whole = false;
                continue;
            }
            self.move_aside(&entry.name, set_aside, all)?;
            entry.write(&path)?;
            if !matches!(entry.form, InsideForm::Dir { .. }) || is_broken {
                report.restored.push(all.shown(&path));
            }
        }
        for name in self.new_settings() {
            self.move_aside(&name, set_aside, all)?;
            report.restored.push(all.shown(&self.dir.join(name)));
        }
        if is_broken {
            // One line is enough for all of it.
            let inside = format!("{}/", all.shown(&self.dir));
            report.restored.retain(|name| !name.starts_with(&inside));
            report.restored.push(all.shown(&self.dir));
        }
        self.was_rebuilt.set(self.was_rebuilt.get() || was_gone && is_whole);
        Ok(())
    }

    /// Files among hooks and the like that were not there before.
    fn new_settings(&self) -> Vec<PathBuf> {
        let mut now = Vec::new();
        for name in SETTINGS_DIRS {
            read_names(&self.dir, Path::new(name), &mut now);
        }
        now.retain(|name| self.entries.iter().all(|entry| entry.name != *name));
        now
    }

    fn move_aside(&self, name: &Path, set_aside: &Path, all: &HeldGitDirs) -> Result<()> {
        let from = self.dir.join(name);
        let to = set_aside.join(from.strip_prefix(&all.root).unwrap_or(name));
        if let Some(parent) = to.parent().filter(|_| from.symlink_metadata().is_ok()) {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        move_to_free_name(&from, |number| numbered(&to, ".", number)).map(drop)
    }
}

impl HeldInside {
    fn is_in(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.starts_with(name))
    }

    /// Whether it is as it was. What was not held counts as that.
    fn is_same(&self, path: &Path) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        match &self.form {
            InsideForm::Dir { .. } => found.is_dir(),
            InsideForm::NotHeld => true,
            InsideForm::Link(target) => fs::read_link(path).is_ok_and(|now| now == *target),
            InsideForm::File { mode, bytes } => {
                found.is_file()
                    && found.len() == bytes.len() as u64
                    && found.permissions().mode() & 0o7777 == *mode
                    && fs::read(path).is_ok_and(|now| now == *bytes)
            }
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        match &self.form {
            InsideForm::Dir { mode } => {
                fs::create_dir_all(path).at("create", path)?;
                set_mode(path, *mode)
            }
            InsideForm::Link(target) => symlink(target, path).at("create", path),
            InsideForm::File { mode, bytes } => {
                let mut file = AtomicFile::create(path)?;
                file.set_mode(fs::Permissions::from_mode(*mode))?;
                std::io::Write::write_all(&mut file, bytes).at("write", path)?;
                file.commit()
            }
            InsideForm::NotHeld => Ok(()),
        }
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|found| found.permissions().mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("set the mode of", path)
}

/// Adds a git directory, and those of the submodules in it.
fn add_git_dirs(dir: &Path, dirs: &mut Vec<PathBuf>) {
    if !is_dir(dir) {
        return;
    }
    if dir.join("HEAD").symlink_metadata().is_ok() && is_dir(&dir.join(OBJECTS)) {
        dirs.push(dir.to_owned());
        return add_git_dirs(&dir.join(MODULES), dirs);
    }
    // A submodule's name may have slashes.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        add_git_dirs(&entry.path(), dirs);
    }
}

/// Reads everything in a git directory but objects and the repositories of submodules.
fn read_inside(dir: &Path, name: &Path, room: &mut u64, out: &mut Vec<HeldInside>) {
    for entry in fs::read_dir(dir.join(name)).into_iter().flatten().flatten() {
        let (name, path) = (name.join(entry.file_name()), entry.path());
        let Ok(found) = path.symlink_metadata() else { continue };
        let mode = found.permissions().mode() & 0o7777;
        let is_dir = found.is_dir();
        let form = if is_dir {
            InsideForm::Dir { mode }
        } else if found.is_symlink() {
            fs::read_link(&path).map_or(InsideForm::NotHeld, InsideForm::Link)
        } else if found.is_file() {
            read_file(&path, room).map_or(InsideForm::NotHeld, |bytes| InsideForm::File { mode, bytes })
        } else {
            continue;
        };
        let is_apart = [OBJECTS, MODULES].iter().any(|apart| name == Path::new(apart));
        out.push(HeldInside { name: name.clone(), form });
        if is_dir && !is_apart {
            read_inside(dir, &name, room, out);
        }
    }
}

fn read_file(path: &Path, room: &mut u64) -> Option<Vec<u8>> {
    let limit = MAX_FILE.min(*room);
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    let size = bytes.len() as u64;
    (size <= limit).then(|| {
        *room -= size;
        bytes
    })
}

/// The files in a directory and below.
fn read_names(dir: &Path, name: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir.join(name)).into_iter().flatten().flatten() {
        let name = name.join(entry.file_name());
        if is_dir(&entry.path()) { read_names(dir, &name, out) } else { out.push(name) }
    }
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}
