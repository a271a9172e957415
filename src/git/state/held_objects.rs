//! The contents of objects, held while a program runs that may delete every name of them: open, because a deleted file can be read for as
//! long as a process has it open, and what is too much for that as copies in a file without a name.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::IoContext;
use crate::fs::atomic::AtomicFile;
use crate::fs::descriptors;
use crate::fs::spool::{Spool, SpooledContent};

/// How many objects are held open at most, and which part of the files that decree may have open.
const MAX_OPEN: usize = 10_000;
const OPEN_PARTS: usize = 8;
/// How many bytes of objects are copied.
const MAX_COPIED: u64 = 256 << 20;

/// The content of an object.
#[derive(Debug)]
pub(super) enum HeldObject {
    Open { file: File, length: u64 },
    Copied { content: SpooledContent, mode: u32 },
}

/// How many objects may be held open, and how many bytes copied.
#[derive(Clone, Copy)]
pub(super) struct ContentRoom {
    open: usize,
    copied: u64,
    /// Whether a copy failed, because the disk is full for example.
    has_failed: bool,
}

impl ContentRoom {
    pub fn of_this_process() -> ContentRoom {
        let open = MAX_OPEN.min(descriptors::raise_limit() / OPEN_PARTS);
        ContentRoom { open, copied: MAX_COPIED, has_failed: false }
    }

    /// Holds what there is room for of these objects: of each directory the names in it. The largest are open: packs are few, and would
    /// take longest to copy. Nothing is copied of a repository whose objects can all be open. The copies are in a file in `dir`.
    pub fn hold(mut self, dirs: &[(&Path, &[PathBuf])], dir: &Path) -> Vec<Vec<Option<HeldObject>>> {
        let none = |names: &[PathBuf]| -> Vec<Option<HeldObject>> { names.iter().map(|_| None).collect() };
        let mut held: Vec<Vec<Option<HeldObject>>> = dirs.iter().map(|(_, names)| none(names)).collect();
        let path = |(list, at): (usize, usize)| dirs[list].0.join(&dirs[list].1[at]);
        let places = |list: usize| (0..dirs[list].1.len()).map(move |at| (list, at));
        let mut order: Vec<(usize, usize)> = (0..dirs.len()).flat_map(places).collect();
        if order.len() > self.open {
            let size = |place: (usize, usize)| path(place).symlink_metadata().map_or(0, |found| found.len());
            order.sort_by_cached_key(|place| Reverse(size(*place)));
        }
        let mut spool = Spool::new(dir);
        for place in order {
            // One that cannot be read, or that git packs at this moment, is not held.
            held[place.0][place.1] = self.hold_one(&path(place), &mut spool).ok();
        }
        if self.has_failed {
            // The program that is about to run needs the space.
            let is_copy = |object: &HeldObject| matches!(object, HeldObject::Copied { .. });
            let copies = held.iter_mut().flatten().filter(|object| object.as_ref().is_some_and(is_copy));
            copies.for_each(|copy| *copy = None);
        }
        held
    }

    fn hold_one(&mut self, path: &Path, spool: &mut Spool) -> io::Result<HeldObject> {
        let mut file = File::open(path)?;
        let found = file.metadata()?;
        if self.open > 0 {
            self.open -= 1;
            return Ok(HeldObject::Open { file, length: found.len() });
        }
        if found.len() > self.copied || self.has_failed {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.copied -= found.len();
        let copied = spool.add(&mut file, path);
        self.has_failed = copied.is_err();
        let content = copied.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(HeldObject::Copied { content, mode: found.permissions().mode() })
    }
}

impl HeldObject {
    /// Writes an object again that has no name any more.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        match self {
            HeldObject::Open { file, length } => {
                let found = file.metadata()?;
                if found.len() != *length {
                    return Err(io::Error::other("the objects were overwritten"));
                }
                let mut file = file;
                file.rewind()?;
                write(&mut file, found.permissions(), to)
            }
            HeldObject::Copied { content, mode } => {
                write(&mut content.reader(), fs::Permissions::from_mode(*mode), to)
            }
        }
    }
}

fn write(content: &mut dyn Read, mode: fs::Permissions, to: &Path) -> io::Result<()> {
    let written = AtomicFile::create(to).and_then(|mut copy| {
        io::copy(content, &mut copy).at("write", to)?;
        copy.set_mode(mode)?;
        copy.commit()
    });
    written.map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_open_the_others_copied_and_what_is_too_much_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let (objects, spool) = (dir.path().join("objects"), dir.path().join("spool"));
        fs::create_dir_all(objects.join("ab")).unwrap();
        let names: Vec<PathBuf> = ["ab/2", "ab/9", "ab/1", "ab/4"].map(PathBuf::from).to_vec();
        for name in &names {
            let size = name.file_name().unwrap().to_str().unwrap().parse().unwrap();
            fs::write(objects.join(name), vec![b'x'; size]).unwrap();
        }
        let room = ContentRoom { open: 1, copied: 3, has_failed: false };
        let held = room.hold(&[(&objects, &names)], &spool).remove(0);
        fs::remove_dir_all(&objects).unwrap();
        fs::remove_dir_all(&spool).unwrap();
        assert!(matches!(held[1], Some(HeldObject::Open { .. })));
        assert!(matches!(held[0], Some(HeldObject::Copied { .. })));
        assert!(matches!(held[2], Some(HeldObject::Copied { .. })));
        assert!(held[3].is_none(), "{held:?}");
        for (object, size) in [(&held[0], 2), (&held[1], 9), (&held[2], 1)] {
            let to = dir.path().join("again");
            object.as_ref().unwrap().write(&to).unwrap();
            assert_eq!(fs::read(&to).unwrap(), vec![b'x'; size]);
        }
    }
}
