//! The names in a directory and their `stat` results, with as few system calls and allocations as possible.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir};

use super::result::Name;
use crate::checkpoint::attributes::{Attributes, Owner};
use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::stat_cache::{CachedDir, Stat, path_order};

/// The names in a directory, which is still open.
pub struct Listing {
    dir: OwnedFd,
    names: NameList,
}

#[derive(Default)]
struct NameList {
    /// The names, concatenated.
    text: Vec<u8>,
    list: Vec<ListedName>,
}

impl NameList {
    fn push(&mut self, name: &[u8], kind: PathKind, cached: Option<u32>) -> io::Result<()> {
        let start = u32::try_from(self.text.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.text.extend_from_slice(name);
        self.list.push(ListedName { name: Name { start, length: name.len() as u16 }, cached, kind });
        Ok(())
    }
}

/// A name in a listing.
#[derive(Clone, Copy)]
pub struct ListedName {
    name: Name,
    /// Its place in the cached directory that the listing was taken from.
    pub cached: Option<u32>,
    /// The type that the directory itself reports.
    pub kind: PathKind,
}

impl Listing {
    /// A directory (not the root) that has the names that the cache has for it.
    pub fn cached(root: &Root, path: &[u8], known: &CachedDir) -> io::Result<Listing> {
        let text = Vec::with_capacity(known.names_len());
        let mut names = NameList { text, list: Vec::with_capacity(known.len()) };
        for ((name, kind), place) in known.names().zip(0..) {
            names.push(name, kind, Some(place))?;
        }
        Ok(Listing { dir: root.open_dir(path)?, names })
    }

    /// Lists a directory (empty: the root), sorted like whole paths.
    pub fn read(root: &Root, path: &[u8]) -> io::Result<Listing> {
        let mut listing = Listing { dir: root.open_dir(path)?, names: NameList::default() };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut raw = RawDir::new(&listing.dir, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Not every file system reports it.
                FileType::Unknown => {
                    match rustix::fs::statat(&listing.dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => PathKind::of(stat.st_mode),
                        Err(rustix::io::Errno::NOENT) => continue,
                        Err(error) => return Err(error.into()),
                    }
                }
                known => PathKind::of(known.as_raw_mode()),
            };
            listing.names.push(name, kind, None)?;
        }
        let NameList { text, list } = &mut listing.names;
        list.sort_unstable_by(|a, b| {
            let key = |entry: &ListedName| (entry.name.of(text), entry.kind == PathKind::Dir);
            path_order(key(a), key(b))
        });
        Ok(listing)
    }

    pub fn name(&self, entry: &ListedName) -> &[u8] {
        entry.name.of(&self.names.text)
    }

    /// The length of all names together.
    pub fn names_len(&self) -> usize {
        self.names.text.len()
    }

    /// Sorted by path.
    pub fn entries(&self) -> &[ListedName] {
        &self.names.list
    }

    /// Also whether the file has other names.
    pub fn stat(&self, entry: &ListedName) -> io::Result<(Stat, Owner, bool)> {
        let name = OsStr::from_bytes(self.name(entry));
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((Stat::of(&stat), (stat.st_uid, stat.st_gid), stat.st_nlink > 1))
    }

    /// The attributes of the directory itself.
    pub fn attributes(&self, owner: Owner, of_project: Owner) -> io::Result<Attributes> {
        Attributes::read(&self.dir, owner, of_project)
    }

    pub fn read_link(&self, entry: &ListedName) -> io::Result<Box<[u8]>> {
        let name = OsStr::from_bytes(self.name(entry));
        Ok(rustix::fs::readlinkat(&self.dir, name, Vec::new())?.into_bytes().into_boxed_slice())
    }
}
