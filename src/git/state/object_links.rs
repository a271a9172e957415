//! The objects of repositories as hard links in a directory of decree's, while a routine or a guarded command runs: git never changes
//! an object file, so a second name is a copy that costs no space. Objects that are gone afterwards, by `rm` or by `git gc
//! --prune=now`, get their first name back. This only adds objects, so it can be repeated at any time.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::dirs::GitDirs;
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::fs::quarantine::{move_to_free_name, numbered};

/// The directory of objects in a git directory.
pub const OBJECTS: &str = "objects";
/// How many objects are linked. A repository with more should be packed.
const MAX_LINKS: usize = 200_000;
/// How deep a renamed git directory is searched for.
const MAX_SEARCH_DEPTH: usize = 6;
/// Names the directory of objects whose links are beside it, and which directory was its git directory: `<device> <inode> <path>`.
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
    /// Device and inode of the git directory.
    id: Option<(u64, u64)>,
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
            let id = id_of(git_dir);
            let mut store = LinkedStore { objects, links, names: Vec::new(), id, failure: None };
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
            let (id, objects) = parse_place(&fs::read(links.join(PLACE)).ok()?)?;
            // A routine may have written that file.
            let inside =
                objects.starts_with(&root) && !objects.components().any(|part| part.as_os_str() == "..");
            let is_known = inside && objects.ends_with(OBJECTS) || Some(&objects) == common.as_ref();
            let names = object_names(&links).ok()?;
            is_known.then_some(LinkedStore { objects, links, names, id: Some(id), failure: None })
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

    /// The git directories in their places, and those that were renamed below `root` moved back. Returns the latter.
    pub fn move_back(&self, root: &Path) -> Vec<PathBuf> {
        let missing = self.stores.iter().filter_map(|store| {
            let git_dir = store.objects.parent()?;
            (git_dir.symlink_metadata().is_err() && git_dir.starts_with(root)).then_some((git_dir, store.id?))
        });
        let moved = missing.filter(|(git_dir, id)| {
            let near = git_dir.parent().and_then(|parent| find_dir(parent, *id, 1));
            let found = near.or_else(|| find_dir(root, *id, MAX_SEARCH_DEPTH));
            found.is_some_and(|found| fs::rename(found, git_dir).is_ok())
        });
        moved.map(|(git_dir, _)| git_dir.to_owned()).collect()
    }

    /// Removes the links.
    pub fn remove(self) -> Result<()> {
        remove(&self.dir)
    }

    /// Moves the links to a free name beside them, because they may be the only copy of objects that could not be restored.
    pub fn keep(self) -> Result<Option<PathBuf>> {
        move_to_free_name(&self.dir, |number| numbered(&self.dir, "-", number + 1))
    }
}

impl LinkedStore {
    fn link(&self) -> Result<()> {
        fs::create_dir_all(&self.links).at("create", &self.links)?;
        let place = self.objects.canonicalize().at("read", &self.objects)?;
        let (device, inode) = self.id.unwrap_or_default();
        let text = [format!("{device} {inode} ").as_bytes(), place.as_os_str().as_bytes()].concat();
        atomic::write(&self.links.join(PLACE), &text)?;
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
        // Objects alone are no repository.
        if !self.objects.parent().is_some_and(is_dir) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its git directory is gone"));
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

/// Device and inode of a directory.
fn id_of(dir: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(dir).ok().filter(fs::Metadata::is_dir)?;
    Some((found.dev(), found.ino()))
}

fn parse_place(text: &[u8]) -> Option<((u64, u64), PathBuf)> {
    let mut words = text.splitn(3, |byte| *byte == b' ');
    let mut number = || str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let id = (number()?, number()?);
    Some((id, PathBuf::from(OsStr::from_bytes(words.next()?))))
}

/// Finds a directory by device and inode, at most `depth` levels below another one.
fn find_dir(dir: &Path, id: (u64, u64), depth: usize) -> Option<PathBuf> {
    let dirs: Vec<PathBuf> =
        fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).filter(|path| is_dir(path)).collect();
    let found = dirs.iter().find(|path| id_of(path) == Some(id)).cloned();
    found.or_else(|| (depth > 1).then(|| dirs.iter().find_map(|dir| find_dir(dir, id, depth - 1)))?)
}

fn remove(dir: &Path) -> Result<()> {
    let removed = match dir.symlink_metadata() {
        Ok(found) if !found.is_dir() => fs::remove_file(dir),
        _ => fs::remove_dir_all(dir),
    };
    removed.if_exists().at("remove", dir).map(drop)
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
