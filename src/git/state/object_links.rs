//! The objects of repositories as hard links in a directory of decree's, while a routine or a guarded command runs: git never changes
//! an object file, so a second name is a copy that costs no space. Objects that are gone afterwards, by `rm` or by `git gc
//! --prune=now`, get their first name back. This only adds objects, so it can be repeated at any time. As a routine can delete both names,
//! the contents are held as well.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::dirs::GitDirs;
use super::held_objects::ContentRoom;
use super::linked_store::{LinkedStore, ObjectState, PLACE, fixed_in, is_dir, object_names, stamp_of};
use super::object_check::ObjectStamp;
use crate::error::{IoContext, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};

/// The directory of objects in a git directory.
pub const OBJECTS: &str = "objects";
/// How many objects are linked. A repository with more should be packed.
const MAX_LINKS: usize = 200_000;
/// How deep a renamed git directory is searched for.
const MAX_SEARCH_DEPTH: usize = 6;

/// The links, in numbered directories: one per directory of objects.
#[derive(Debug)]
pub struct ObjectLinks {
    dir: PathBuf,
    stores: Vec<LinkedStore>,
    /// Directories of objects whose links a killed process left, and that do not belong to the project, or not any more.
    foreign: Vec<PathBuf>,
}

/// Objects that were there before.
#[derive(Debug, Default)]
pub struct LostObjects {
    /// How many were gone and are back.
    pub restored: usize,
    /// How many are gone, each directory with the reason.
    pub lost: Vec<(PathBuf, usize, String)>,
    /// Those of each directory that were overwritten in place, so that their second names are no better.
    pub overwritten: Vec<(PathBuf, Vec<PathBuf>)>,
}

impl ObjectLinks {
    /// Links all objects of these git directories. What an earlier process left in `dir` is removed.
    pub fn create(dir: &Path, git_dirs: &[PathBuf]) -> ObjectLinks {
        let removed = remove(dir);
        let mut room = MAX_LINKS;
        let (mut stores, mut wanted) = (Vec::new(), Vec::new());
        for (number, git_dir) in git_dirs.iter().enumerate() {
            let (objects, links) = (git_dir.join(OBJECTS), dir.join(number.to_string()));
            if !is_dir(&objects) {
                continue;
            }
            let (id, fixed) = (id_of(git_dir), fixed_in(&objects));
            let mut store = LinkedStore {
                objects,
                links,
                names: Vec::new(),
                stamps: Vec::new(),
                held: Vec::new(),
                fixed,
                id,
                not_linked: 0,
                failure: None,
            };
            let listed = object_names(&store.objects).map(|names| store.names = names);
            store.stamps = store.names.iter().map(|name| stamp_of(&store.objects.join(name))).collect();
            store.not_linked = store.names.len();
            if let Some(error) = [&removed, &listed].into_iter().find_map(|result| result.as_ref().err()) {
                store.failure = Some(format!("they could not be held: {error}"));
            } else if store.names.len() > room {
                store.failure = Some("too many objects to be held".to_owned());
            } else if let Err(error) = store.link() {
                store.failure = Some(format!("they could not be held: {error}"));
            }
            wanted.push(store.names.len() <= room);
            room -= store.names.len().min(room);
            stores.push(store);
        }
        hold_contents(&mut stores, &wanted, dir);
        ObjectLinks { dir: dir.to_owned(), stores, foreign: Vec::new() }
    }

    /// The links that a killed process left for the project at `root`.
    pub fn left_by_killed(dir: &Path, root: &Path) -> Option<ObjectLinks> {
        let root = root.canonicalize().ok()?;
        let common = GitDirs::find(&root).and_then(|dirs| dirs.common_dir.canonicalize().ok());
        let common = common.map(|common| common.join(OBJECTS));
        let entries = fs::read_dir(dir).ok()?;
        let mut foreign = Vec::new();
        let stores = entries.flatten().filter_map(|entry| {
            let links = entry.path();
            let names = object_names(&links).ok()?;
            let place = fs::read(links.join(PLACE)).ok().and_then(|text| parse_place(&text));
            let Some((id, objects)) = place else {
                foreign.extend((!names.is_empty()).then_some(links));
                return None;
            };
            // A routine may have written that file.
            let inside =
                objects.starts_with(&root) && !objects.components().any(|part| part.as_os_str() == "..");
            let is_known = inside && objects.ends_with(OBJECTS) || Some(&objects) == common.as_ref();
            if !is_known {
                foreign.extend((!names.is_empty()).then_some(objects));
                return None;
            }
            let (held, fixed) = (Vec::new(), fixed_in(&links));
            let (id, not_linked, failure) = (Some(id), 0, None);
            // The file was written before anything ran.
            let older = fs::symlink_metadata(links.join(PLACE)).ok()?;
            let stamps = vec![ObjectStamp::older_than(&older); names.len()];
            Some(LinkedStore { objects, links, names, stamps, held, fixed, id, not_linked, failure })
        });
        let mut stores: Vec<LinkedStore> = stores.collect();
        // A repository is moved back before those of its submodules, which are in it.
        stores.sort_by(|a, b| a.objects.parent().cmp(&b.objects.parent()));
        Some(ObjectLinks { dir: dir.to_owned(), stores, foreign })
    }

    /// Directories of objects that the links may be the only copy of, and that are not restored.
    pub fn foreign(&self) -> &[PathBuf] {
        &self.foreign
    }

    /// Whether any object is not where it was: pruned, packed or deleted.
    pub fn any_gone(&self, git_dir: &Path) -> bool {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.is_some_and(|store| store.all_in(ObjectState::Gone).next().is_some())
    }

    /// How many objects are there and are not what they were.
    pub fn count_damaged(&self, git_dir: &Path) -> usize {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.map_or(0, |store| store.all_in(ObjectState::Damaged).count())
    }

    /// The objects of which neither a second name nor the content is held: how many of each directory, and why.
    pub fn not_held(&self) -> impl Iterator<Item = (&Path, usize, &str)> {
        let stores = self.stores.iter().filter(|store| !store.has_all());
        stores.filter_map(|store| {
            Some((&*store.objects, store.not_linked.min(store.without_content()), store.failure.as_deref()?))
        })
    }

    /// The objects that have a second name, and whose content is too large to be held: how many of each directory.
    pub fn only_linked(&self) -> impl Iterator<Item = (&Path, usize)> {
        let linked = self.stores.iter().filter(|store| store.failure.is_none());
        linked.map(|store| (&*store.objects, store.without_content())).filter(|(_, count)| *count > 0)
    }

    /// Whether all objects of a git directory are held.
    pub fn has_all(&self, git_dir: &Path) -> bool {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.is_some_and(LinkedStore::has_all)
    }

    /// How many objects of a git directory have a second name.
    pub fn count(&self, git_dir: &Path) -> usize {
        let objects = git_dir.join(OBJECTS);
        let store = self.stores.iter().find(|store| store.objects == objects);
        store.map_or(0, |store| store.names.len() - store.not_linked)
    }

    /// Restores the objects that are gone or damaged.
    pub fn restore(&self) -> LostObjects {
        let mut result = LostObjects::default();
        for store in &self.stores {
            let states: Vec<ObjectState> = (0..store.names.len()).map(|at| store.state(at)).collect();
            let (mut lost, mut why, mut overwritten) = (0, String::new(), Vec::new());
            for (at, state) in states.into_iter().enumerate() {
                if state == ObjectState::Damaged {
                    match store.replace(at) {
                        Ok(()) => result.restored += 1,
                        Err(_) => overwritten.push(store.names[at].clone()),
                    }
                }
                if state != ObjectState::Gone {
                    continue;
                }
                match store.restore(at) {
                    Ok(()) => result.restored += 1,
                    Err(error) => {
                        why = store.failure.clone().unwrap_or_else(|| error.to_string());
                        lost += 1;
                    }
                }
            }
            store.restore_fixed();
            if !overwritten.is_empty() {
                result.overwritten.push((store.objects.clone(), overwritten));
            }
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
            found.is_some_and(|found| {
                make_work_tree(root, git_dir).is_ok() && fs::rename(found, git_dir).is_ok()
            })
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

/// Holds the contents of the objects of the `wanted` ones.
fn hold_contents(stores: &mut [LinkedStore], wanted: &[bool], dir: &Path) {
    let names = |store: &'_ LinkedStore, is_wanted: bool| if is_wanted { store.names.len() } else { 0 };
    let lists = stores.iter().zip(wanted);
    let lists: Vec<(&Path, &[PathBuf])> =
        lists.map(|(store, is_wanted)| (&*store.objects, &store.names[..names(store, *is_wanted)])).collect();
    let held = ContentRoom::of_this_process().hold(&lists, dir);
    stores.iter_mut().zip(held).for_each(|(store, held)| store.held = held);
}

/// Makes the directories again in which a `.git` was, below `root`. A link among them would lead elsewhere.
fn make_work_tree(root: &Path, git_dir: &Path) -> io::Result<()> {
    let Some(work_tree) = git_dir.parent() else { return Ok(()) };
    let below = work_tree.strip_prefix(root).map_err(io::Error::other)?;
    let mut dir = root.to_owned();
    for part in below.components() {
        dir.push(part);
        match dir.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            // What is in a git directory is moved with it.
            Err(_) if git_dir.file_name() != Some(OsStr::new(".git")) => {
                return Err(io::ErrorKind::NotFound.into());
            }
            Err(_) => fs::create_dir(&dir)?,
        }
    }
    Ok(())
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
