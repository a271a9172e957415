//! The objects of one directory: their second names, and what became of each.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::held_objects::HeldObject;
use super::object_check::ObjectStamp;
use crate::error::{IoContext, Result};
use crate::fs::atomic;

/// Names the directory of objects whose links are beside it, and which directory was its git directory: `<device> <inode> <path>`.
pub(super) const PLACE: &str = "place";
/// The directories that every directory of objects has, also if they are empty.
const FIXED: [&str; 2] = ["info", "pack"];

/// The links of one directory of objects.
#[derive(Debug)]
pub(super) struct LinkedStore {
    pub objects: PathBuf,
    pub links: PathBuf,
    /// The objects that were there, as `ab/cdef…` or `pack/pack-….pack`.
    pub names: Vec<PathBuf>,
    /// What each of them was.
    pub stamps: Vec<ObjectStamp>,
    /// The content of each, as far as there is room; empty if there are too many of them.
    pub held: Vec<Option<HeldObject>>,
    /// Which of [`FIXED`] were there.
    pub fixed: Vec<&'static str>,
    /// Device and inode of the git directory.
    pub id: Option<(u64, u64)>,
    /// How many of them are not linked.
    pub not_linked: usize,
    /// Why not all of them are linked.
    pub failure: Option<String>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectState {
    Whole,
    Gone,
    Damaged,
}

impl LinkedStore {
    /// Links what can be linked. A user may not link files of another one; the error is the first reason.
    pub fn link(&mut self) -> Result<()> {
        fs::create_dir_all(&self.links).at("create", &self.links)?;
        let place = self.objects.canonicalize().at("read", &self.objects)?;
        let (device, inode) = self.id.unwrap_or_default();
        let text = [format!("{device} {inode} ").as_bytes(), place.as_os_str().as_bytes()].concat();
        atomic::write(&self.links.join(PLACE), &text)?;
        for name in &self.fixed {
            let dir = self.links.join(name);
            fs::create_dir_all(&dir).at("create", &dir)?;
        }
        let (mut last, mut linked, mut result) = (PathBuf::new(), 0, Ok(()));
        for name in &self.names {
            let (from, to) = (self.objects.join(name), self.links.join(name));
            let parent = to.parent().unwrap_or(&self.links);
            if parent != last {
                fs::create_dir_all(parent).at("create", parent)?;
                parent.clone_into(&mut last);
            }
            // One that git packs or prunes at this moment is not needed.
            match fs::hard_link(&from, &to).if_exists().at("link", &from) {
                Ok(_) => linked += 1,
                Err(error) => result = result.and(Err(error)),
            }
        }
        self.not_linked = self.names.len() - linked;
        result
    }

    /// Of how many objects the content is not held.
    pub fn without_content(&self) -> usize {
        self.names.len() - self.held.iter().flatten().count()
    }

    pub fn has_all(&self) -> bool {
        let is_linked = self.failure.is_none() && is_dir(&self.links);
        // A list that could not be read is empty, too.
        let is_listed = self.failure.is_none() || !self.names.is_empty();
        is_linked || is_listed && self.without_content() == 0
    }

    pub fn state(&self, at: usize) -> ObjectState {
        let (name, path) = (&self.names[at], self.objects.join(&self.names[at]));
        match path.symlink_metadata() {
            Err(_) => ObjectState::Gone,
            Ok(found) if self.stamps[at].is_damaged(&path, name, &found) => ObjectState::Damaged,
            Ok(_) => ObjectState::Whole,
        }
    }

    pub fn all_in(&self, state: ObjectState) -> impl Iterator<Item = usize> {
        (0..self.names.len()).filter(move |at| self.state(*at) == state)
    }

    /// Restores an object that another file took the place of. One that was overwritten in place is the same file by its second name.
    pub fn replace(&self, at: usize) -> io::Result<()> {
        let name = &self.names[at];
        let (held, to) = (self.links.join(name), self.objects.join(name));
        let found = held.symlink_metadata()?;
        if self.stamps[at].is_damaged(&held, name, &found) {
            return Err(io::Error::other("it was overwritten"));
        }
        // git removes files with such names that are left.
        let temporary = to.with_file_name("tmp_obj_decree");
        let _ = fs::remove_file(&temporary);
        fs::hard_link(held, &temporary)?;
        fs::rename(temporary, to)
    }

    /// git works without them, and the directory is to be what it was.
    pub fn restore_fixed(&self) {
        for name in self.fixed.iter().filter(|_| is_dir(&self.objects)) {
            let _ = fs::create_dir(self.objects.join(name));
        }
    }

    /// Restores the object at this place in the list.
    pub fn restore(&self, at: usize) -> io::Result<()> {
        let name = &self.names[at];
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
        match (fs::hard_link(from, &to), self.held.get(at).and_then(Option::as_ref)) {
            (Err(error), Some(held)) if error.kind() == io::ErrorKind::NotFound => held.write(&to),
            (Err(error), None) if error.kind() == io::ErrorKind::NotFound => Err(io::Error::new(
                error.kind(),
                "both of their names were deleted, and they are too large to be copied",
            )),
            (linked, _) => linked,
        }
    }
}

/// Which of [`FIXED`] are in a directory.
pub(super) fn fixed_in(dir: &Path) -> Vec<&'static str> {
    FIXED.into_iter().filter(|name| is_dir(&dir.join(name))).collect()
}

/// One that is gone already is not known, and not damaged.
pub(super) fn stamp_of(object: &Path) -> ObjectStamp {
    object.symlink_metadata().map_or(ObjectStamp::Before(i128::MAX), |found| ObjectStamp::of(&found))
}

pub(super) fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The files in the directories of a directory of objects. Temporary files of git begin with `tmp_`.
pub(super) fn object_names(objects: &Path) -> Result<Vec<PathBuf>> {
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
