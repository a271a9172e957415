//! The names in a directory and their `stat` results, with as few system calls and allocations as possible.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir};

use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::stat_cache::{Stat, path_order};

/// The names in a directory, which is still open.
pub struct Listing {
    dir: OwnedFd,
    names: Vec<u8>,
    entries: Vec<ListedName>,
}

/// A name in a listing.
#[derive(Clone, Copy)]
pub struct ListedName {
    start: u32,
    length: u16,
    /// The type that the directory itself reports.
    pub kind: PathKind,
}

impl Listing {
    /// Lists a directory (empty: the root), sorted like whole paths.
    pub fn read(root: &Root, path: &[u8]) -> io::Result<Listing> {
        let mut listing = Listing { dir: root.open_dir(path)?, names: Vec::new(), entries: Vec::new() };
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
            let start = u32::try_from(listing.names.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
            listing.names.extend_from_slice(name);
            listing.entries.push(ListedName { start, length: name.len() as u16, kind });
        }
        let Listing { names, entries, .. } = &mut listing;
        entries.sort_unstable_by(|a, b| {
            path_order(
                (name_in(names, a), a.kind == PathKind::Dir),
                (name_in(names, b), b.kind == PathKind::Dir),
            )
        });
        Ok(listing)
    }

    /// The entries, sorted by path.
    pub fn entries(&self) -> &[ListedName] {
        &self.entries
    }

    pub fn name(&self, entry: &ListedName) -> &[u8] {
        name_in(&self.names, entry)
    }

    pub fn stat(&self, entry: &ListedName) -> io::Result<Stat> {
        let name = OsStr::from_bytes(self.name(entry));
        Ok(Stat::of(&rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    pub fn read_link(&self, entry: &ListedName) -> io::Result<Box<[u8]>> {
        let name = OsStr::from_bytes(self.name(entry));
        Ok(rustix::fs::readlinkat(&self.dir, name, Vec::new())?.into_bytes().into_boxed_slice())
    }
}

fn name_in<'n>(names: &'n [u8], entry: &ListedName) -> &'n [u8] {
    &names[entry.start as usize..][..usize::from(entry.length)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_behind_a_link_is_not_listed() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(outside.path().join("sub")).unwrap();
        fs::create_dir_all(inside.path().join("real/sub")).unwrap();
        symlink(outside.path(), inside.path().join("door")).unwrap();
        let root = Root::open(inside.path()).unwrap();
        assert!(Listing::read(&root, b"real/sub").is_ok());
        assert!(Listing::read(&root, b"door").is_err());
        assert!(Listing::read(&root, b"door/sub").is_err());
    }
}
