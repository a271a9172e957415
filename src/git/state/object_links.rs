//! The objects of repositories as hard links in a directory of decree's, while a routine or a guarded command runs: git never changes
//! an object file, so a second name is a copy that costs no space. Objects that are gone afterwards, by `rm` or by `git gc
//! --prune=now`, get their first name back. This only adds objects, so it can be repeated at any time.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::dirs::GitDirs;
use crate::error::{IoContext, Result};
use crate::fs::atomic;

/// The directory of objects in a git directory.
pub const OBJECTS: &str = "objects";
/// How many objects are linked. A repository with more should be packed.
const MAX_LINKS: usize = 200_000;
/// Names the directory of objects whose links are beside it.
const PLACE: &str = "place";
/// The directories that every directory of objects has, also if they are empty.
const FIXED: [&str; 2] = ["info", "pack"];

/// The links, in numbered directories: one per directory of objects.
#[derive(Debug)]
pub struct ObjectLinks {
    dir: PathBuf,
    stores: Vec<LinkedStore>,
}

/// The links of one directory of objects.
#[derive(Debug)]
struct LinkedStore {
    objects: PathBuf,
    links: PathBuf,
    /// The objects that were there, as `ab/cdef…` or `pack/pack-….pack`.
    names: Vec<PathBuf>,
    /// Why not all of them are linked.
    failure: Option<String>,
}

/// Objects that were there before.
#[derive(Debug, Default)]
pub struct LostObjects {
    /// How many were gone and are back.
    pub restored: usize,
    /// How many are gone, each directory with the reason.
    pub lost: Vec<(PathBuf, usize, String)>,
}

impl ObjectLinks {
    /// Links all objects of these git directories. What an earlier process left in `dir` is removed.
    pub fn create(dir: &Path, git_dirs: &[PathBuf]) -> ObjectLinks {
        let removed = remove(dir);
        let mut room = MAX_LINKS;
        let mut stores = Vec::new();
        for (number, git_dir) in git_dirs.iter().enumerate() {
            let (objects, links) = (git_dir.join(OBJECTS), dir.join(number.to_string()));
            if !is_dir(&objects) {
                continue;
            }
            let mut store = LinkedStore { objects, links, names: Vec::new(), failure: None };
            let listed = object_names(&store.objects).map(|names| store.names = names);
            if let Some(error) = [&removed, &listed].into_iter().find_map(|result| result.as_ref().err()) {
                store.failure = Some(format!("they could not be held: {error}"));
            } else if store.names.len() > room {
                store.failure = Some("too many objects to be held".to_owned());
            } else if let Err(error) = store.link() {
                store.failure = Some(format!("they could not be held: {error}"));
            }
            room -= store.names.len().min(room);
            stores.push(store);
        }
        ObjectLinks { dir: dir.to_owned(), stores }
    }

    /// The links that a killed process left for the project at `root`.
    pub fn left_by_killed(dir: &Path, root: &Path) -> Option<ObjectLinks> {
        let root = root.canonicalize().ok()?;
        let common = GitDirs::find(&root).map(|dirs| dirs.common_dir.join(OBJECTS));
        let entries = fs::read_dir(dir).ok()?;
        let stores = entries.flatten().filter_map(|entry| {
            let links = entry.path();
            let objects = PathBuf::from(OsStr::from_bytes(&fs::read(links.join(PLACE)).ok()?));
            // A routine may have written that file.
            let inside =
                objects.starts_with(&root) && !objects.components().any(|part| part.as_os_str() == "..");
            let is_known = inside && objects.ends_with(OBJECTS) || Some(&objects) == common.as_ref();
            let names = object_names(&links).ok()?;
            is_known.then_some(LinkedStore { objects, links, names, failure: None })
        });
        Some(ObjectLinks { dir: dir.to_owned(), stores: stores.collect() })
    }

    /// Whether any object is not where it was: pruned, packed or deleted.
    pub fn any_gone(&self, git_dir: &Path) -> bool {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.is_some_and(|store| store.names.iter().any(|name| store.is_gone(name)))
    }

    /// Whether all objects of a git directory are linked.
    pub fn has_all(&self, git_dir: &Path) -> bool {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.is_some_and(|store| store.failure.is_none() && is_dir(&store.links))
    }

    /// Restores the objects that are gone.
    pub fn restore(&self) -> LostObjects {
        let mut result = LostObjects::default();
        for store in &self.stores {
            let gone: Vec<&PathBuf> = store.names.iter().filter(|name| store.is_gone(name)).collect();
            let (mut lost, mut why) = (0, String::new());
            for name in gone {
                match store.restore(name) {
                    Ok(()) => result.restored += 1,
                    Err(error) => {
                        why = store.failure.clone().unwrap_or_else(|| error.to_string());
                        lost += 1;
                    }
                }
            }
            store.restore_fixed();
            if lost > 0 {
                result.lost.push((store.objects.clone(), lost, why));
            }
        }
        result
    }

    /// Removes the links.
    pub fn remove(self) -> Result<()> {
        remove(&self.dir)
    }
}

impl LinkedStore {
    fn link(&self) -> Result<()> {
        fs::create_dir_all(&self.links).at("create", &self.links)?;
        let place = self.objects.canonicalize().at("read", &self.objects)?;
        atomic::write(&self.links.join(PLACE), place.as_os_str().as_bytes())?;
        for name in FIXED.iter().filter(|name| is_dir(&self.objects.join(name))) {
            let dir = self.links.join(name);
            fs::create_dir_all(&dir).at("create", &dir)?;
        }
        let mut last = PathBuf::new();
        for name in &self.names {
            let (from, to) = (self.objects.join(name), self.links.join(name));
            let parent = to.parent().unwrap_or(&self.links);
            if parent != last {
                fs::create_dir_all(parent).at("create", parent)?;
                parent.clone_into(&mut last);
            }
            // One that git packs or prunes at this moment is not needed.
            fs::hard_link(&from, &to).if_exists().at("link", &from)?;
        }
        Ok(())
    }

    fn is_gone(&self, name: &Path) -> bool {
        self.objects.join(name).symlink_metadata().is_err()
    }

    /// git works without them, and the directory is to be what it was.
    fn restore_fixed(&self) {
        for name in FIXED.iter().filter(|name| is_dir(&self.links.join(name)) && is_dir(&self.objects)) {
            let _ = fs::create_dir(self.objects.join(name));
        }
    }

    fn restore(&self, name: &Path) -> io::Result<()> {
        let (from, to) = (self.links.join(name), self.objects.join(name));
        let parent = to.parent().unwrap_or(&self.objects);
        if fs::symlink_metadata(&self.objects).is_ok_and(|found| !found.is_dir()) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !is_dir(parent) {
            // The directories above are those of the repository, with their modes.
            let mode = fs::symlink_metadata(&self.objects).map_or(0o755, |found| found.permissions().mode());
            fs::create_dir_all(parent)?;
            fs::set_permissions(parent, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        fs::hard_link(from, to)
    }
}

fn remove(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).if_exists().at("remove", dir).map(drop)
}

fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The files in the directories of a directory of objects. Temporary files of git begin with `tmp_`.
fn object_names(objects: &Path) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for dir in fs::read_dir(objects).at("read", objects)? {
        let dir = dir.at("read", objects)?;
        if !is_dir(&dir.path()) {
            continue;
        }
        let Some(files) = fs::read_dir(dir.path()).if_exists().at("read", dir.path())? else { continue };
        for file in files.flatten().filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())) {
            if !file.file_name().as_bytes().starts_with(b"tmp_") {
                names.push(Path::new(&dir.file_name()).join(file.file_name()));
            }
        }
    }
    names.sort();
    Ok(names)
}
