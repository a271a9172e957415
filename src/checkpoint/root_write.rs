//! Files that [`Root`] writes itself: likely secrets, which are never staged on decree's disk.
//!
//! A file whose place is free is written without a name, and gets its name in one step: a process that is killed before leaves nothing.
//! Where something is in the place, or the file system knows no such files, it is written beside its place, under a name that is a likely
//! secret by itself ([`TEMPORARY_IN_TREE`]), and then takes its place in one step. A process that is killed before that step leaves a file
//! that no checkpoint, diff or artifact holds, and that the next decree moves to the quarantine.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode as RawMode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::entry::FileMode;
use super::path::TreePath;
use super::root::Root;
use crate::fs::beneath::InodeHandle;
use crate::fs::random_hex;
use crate::fs::transfer::{TEMPORARY_IN_TREE, rename_new};
use crate::fs::xattr::{self, XattrValues};

/// A file or link to be written.
pub enum NewEntry<'n> {
    File { bytes: &'n [u8], mode: FileMode, owner: (u32, u32), attributes: &'n XattrValues },
    Link(&'n [u8]),
}

impl Root {
    /// Holds what is at `path`, also a link, by a descriptor that needs no right to read it.
    pub fn hold(&self, path: &TreePath) -> io::Result<File> {
        Ok(File::from(self.open_path(path.as_bytes(), OFlags::PATH)?))
    }

    /// Makes the directory of `path` writable for a while, if its mode forbids that and this user owns it.
    pub fn unlock_parent(&self, path: &TreePath) -> io::Result<WritableDir> {
        WritableDir::of(self.parent(path)?.0)
    }

    /// Puts a file or link at `path`, in one step. Returns the path beside it at which what was there is now, for the caller to move.
    pub fn replace(&self, path: &TreePath, new: &NewEntry<'_>) -> io::Result<Option<TreePath>> {
        let (dir, name) = self.parent(path)?;
        let temporary = format!("{TEMPORARY_IN_TREE}{}", random_hex());
        let staged = OsStr::new(&temporary);
        if new.link_unnamed(&dir, name)? {
            sync(&dir);
            return Ok(None);
        }
        let placed = new.create(&dir, staged).and_then(|()| take_place(dir.as_fd(), staged, name));
        match placed {
            Ok(was_free) => {
                sync(&dir);
                Ok((!was_free).then(|| TreePath::joined(path.split().0, temporary.as_bytes())))
            }
            Err(error) => {
                let _ = rustix::fs::unlinkat(&dir, staged, AtFlags::empty());
                Err(error)
            }
        }
    }
}

/// Renames `staged` to `name`, or exchanges the two if something has that name. Returns whether it was free.
fn take_place(dir: BorrowedFd<'_>, staged: &OsStr, name: &OsStr) -> io::Result<bool> {
    match rename_new((dir, staged), (dir, name)) {
        Err(Errno::EXIST) => {}
        result => return Ok(result.map(|()| true)?),
    }
    match rustix::fs::renameat_with(dir, staged, dir, name, RenameFlags::EXCHANGE) {
        // Not every file system can exchange. Then there is a moment without a file at `name`.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let other = format!("{TEMPORARY_IN_TREE}{}", random_hex());
            rustix::fs::renameat(dir, name, dir, &*other)?;
            rustix::fs::renameat(dir, staged, dir, name)?;
            rustix::fs::renameat(dir, &*other, dir, staged)?;
        }
        result => result?,
    }
    Ok(false)
}

impl NewEntry<'_> {
    /// Writes a file without a name, and gives it one. `false` if the name is taken, or if there are no such files here.
    fn link_unnamed(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
        let NewEntry::File { .. } = self else { return Ok(false) };
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let Ok(open) = rustix::fs::openat(dir, ".", flags, RawMode::from_raw_mode(0o600)) else {
            return Ok(false);
        };
        let file = File::from(open);
        self.fill(&file)?;
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, unnamed, dir, name, AtFlags::SYMLINK_FOLLOW).is_ok())
    }

    fn fill(&self, mut file: &File) -> io::Result<()> {
        let NewEntry::File { bytes, mode, owner, attributes } = self else { return Ok(()) };
        file.write_all(bytes)?;
        if rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            rustix::fs::fchown(file, Some(user), Some(group))?;
        }
        rustix::fs::fchmod(file, RawMode::from_raw_mode(mode.bits()))?;
        for (name, value) in attributes.iter() {
            // One that this user or this file system does not allow is left out.
            xattr::set(file, name, value)?;
        }
        file.sync_all()
    }

    fn create(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        match self {
            NewEntry::Link(target) => {
                use std::os::unix::ffi::OsStrExt;
                Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), dir, name)?)
            }
            NewEntry::File { .. } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // Private until it is complete.
                let open = rustix::fs::openat(dir, name, flags, RawMode::from_raw_mode(0o600))?;
                self.fill(&File::from(open))
            }
        }
    }
}

/// A directory that is made writable for its owner for a while; dropping it restores its mode.
pub struct WritableDir {
    dir: OwnedFd,
    /// The mode to restore.
    mode: Option<u32>,
}

impl WritableDir {
    const NEEDED: u32 = 0o300;

    fn of(dir: OwnedFd) -> io::Result<Self> {
        let handle = InodeHandle::open(dir.as_fd(), OsStr::new("."))?;
        let mode = handle.stat()?.st_mode & 0o7777;
        let is_writable = rustix::process::geteuid().is_root() || mode & Self::NEEDED == Self::NEEDED;
        // Another user's directory: the write says whether that matters.
        let was_changed = !is_writable && handle.set_mode(mode | Self::NEEDED).is_ok();
        drop(handle);
        Ok(WritableDir { dir, mode: was_changed.then_some(mode) })
    }
}

impl Drop for WritableDir {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            let _ = InodeHandle::open(self.dir.as_fd(), OsStr::new(".")).and_then(|dir| dir.set_mode(mode));
        }
    }
}

/// Makes the entries of a directory durable, if it can be read.
fn sync(dir: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(open) = rustix::fs::openat(dir, ".", flags, RawMode::empty()) {
        let _ = rustix::fs::fsync(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn path(text: &str) -> TreePath {
        TreePath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_takes_its_place_and_what_was_there_stays_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let found = fs::metadata(dir.path()).unwrap();
        let owner = (found.uid(), found.gid());
        let (mode, attributes) = (FileMode::from_bits(0o640), &XattrValues::new());
        let new = NewEntry::File { bytes: b"KEY=1", mode, owner, attributes };
        assert_eq!(root.replace(&path(".env"), &new).unwrap(), None);
        fs::remove_file(dir.path().join(".env")).unwrap();
        fs::create_dir(dir.path().join(".env")).unwrap();
        let beside = root.replace(&path(".env"), &new).unwrap().unwrap();
        assert_eq!(fs::read(dir.path().join(".env")).unwrap(), b"KEY=1");
        let mode = fs::metadata(dir.path().join(".env")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert!(beside.below(dir.path()).is_dir());
        assert!(beside.name().starts_with(TEMPORARY_IN_TREE.as_bytes()));
        let suspicion = crate::checkpoint::sensitive::Sensitive::default().suspect(beside.as_bytes());
        assert_eq!(suspicion, crate::checkpoint::sensitive::Suspicion::Secret);
    }
}
