//! The user's tree: the only way to read or change a [`TreePath`] on disk.
//!
//! No symbolic link is followed, not even one that another process places at the last moment, so nothing
//! decree does to a path happens outside the tree. See [`crate::fs::beneath`] for how.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{AtFlags, CWD, FileType, Mode as RawMode, OFlags};
use rustix::io::Errno;

use super::attributes::{Attributes, Owner};
use super::entry::FileMode;
use super::path::TreePath;
use crate::fs::beneath::{DIRECTORY, InodeHandle, Resolver};
use crate::fs::transfer;

/// A FIFO does not block. Whether it is a regular file is for the caller to check.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The directory of a project, held open.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Replaced only by [`Root::follow_path`].
    fd: RwLock<OwnedFd>,
    resolver: Resolver,
    owner: Owner,
}

/// The part of an `lstat` result that decree uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStat {
    pub kind: PathKind,
    pub mode: FileMode,
    pub size: u64,
    pub owner: Owner,
    pub links: u64,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    File,
    Dir,
    Symlink,
    /// A socket, FIFO or device.
    Special,
}

impl PathKind {
    pub fn of(raw_mode: u32) -> Self {
        match FileType::from_raw_mode(raw_mode) {
            FileType::RegularFile => PathKind::File,
            FileType::Directory => PathKind::Dir,
            FileType::Symlink => PathKind::Symlink,
            _ => PathKind::Special,
        }
    }
}

impl Root {
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let fd = open_root(&path)?;
        let resolver = Resolver::detect(fd.as_fd());
        let stat = rustix::fs::statat(&fd, "", AtFlags::EMPTY_PATH)?;
        Ok(Root { path, fd: RwLock::new(fd), resolver, owner: (stat.st_uid, stat.st_gid) })
    }

    /// Opens the directory again if another one is at its path: a program deleted it, and nothing can be created in a deleted directory.
    /// The caller has moved a renamed one back.
    pub fn follow_path(&self) -> io::Result<()> {
        let now = open_root(&self.path)?;
        let id = |fd: &OwnedFd| {
            rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).map(|found| (found.st_dev, found.st_ino))
        };
        if id(&self.fd())? != id(&now)? {
            *self.fd.write().unwrap_or_else(PoisonError::into_inner) = now;
        }
        Ok(())
    }

    fn fd(&self) -> RwLockReadGuard<'_, OwnedFd> {
        self.fd.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of the directory when it was opened: that of every path whose own owner is not recorded.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory that holds `path`. Fails with `NotADirectory` or `FilesystemLoop` if a link or a
    /// file is in the way, with `NotFound` if a directory is missing.
    pub(super) fn parent<'p>(&self, path: &'p TreePath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (dir, name) = path.split();
        Ok((self.dir(dir)?.0, OsStr::from_bytes(name)))
    }

    /// Opens a directory of the tree (empty: the root) to look up names in it.
    pub fn dir(&self, path: &[u8]) -> io::Result<Dir> {
        Ok(Dir(if path.is_empty() { self.fd().try_clone()? } else { self.open_path(path, DIRECTORY)? }))
    }

    /// Opens a directory of the tree (empty: the root) to list it.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<OwnedFd> {
        self.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    pub(super) fn open_path(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        self.resolver.open(self.fd().as_fd(), path, flags)
    }

    /// What is at `path`; `None` if nothing is there, or a directory above it is missing or not a directory.
    pub fn find(&self, path: &TreePath) -> io::Result<Option<PathStat>> {
        let stat = self
            .parent(path)
            .and_then(|(dir, name)| Ok(rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
        match stat {
            Ok(stat) => Ok(Some(PathStat {
                kind: PathKind::of(stat.st_mode),
                mode: FileMode::from_bits(stat.st_mode),
                size: stat.st_size.unsigned_abs(),
                owner: (stat.st_uid, stat.st_gid),
                links: links(&stat),
            })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The outermost ancestor of `path` that exists but is not a directory: a link, or a file.
    pub fn blocker(&self, path: &TreePath) -> io::Result<Option<TreePath>> {
        for dir in path.ancestors() {
            match self.find(&dir)? {
                None => return Ok(None),
                Some(found) if found.kind == PathKind::Dir => {}
                Some(_) => return Ok(Some(dir)),
            }
        }
        Ok(None)
    }

    pub fn is_empty_dir(&self, path: &TreePath) -> io::Result<bool> {
        self.list(path).map(|names| names.is_empty())
    }

    /// The paths of everything in a directory.
    pub fn list(&self, path: &TreePath) -> io::Result<Vec<TreePath>> {
        let mut paths = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.open_dir(path.as_bytes())?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                paths.push(TreePath::joined(path.as_bytes(), name));
            }
        }
        Ok(paths)
    }

    /// Opens a regular file for reading. Never blocks on a FIFO.
    pub fn open_file(&self, path: &TreePath) -> io::Result<File> {
        regular(File::from(self.open_path(path.as_bytes(), READ)?))
    }

    /// Opens a regular file for reading, even if its mode forbids that, as long as this user owns it.
    pub fn open_file_forced(&self, path: &TreePath) -> io::Result<File> {
        regular(File::from(self.open_forced(path)?))
    }

    /// The attributes of a file or directory; of a link, which has none of its own, its owner is not kept.
    pub fn attributes(&self, path: &TreePath) -> io::Result<Attributes> {
        let Some(found) = self.find(path)? else { return Ok(Attributes::default()) };
        match found.kind {
            PathKind::File | PathKind::Dir => {
                Attributes::read(self.open_forced(path)?, found.owner, self.owner)
            }
            PathKind::Symlink | PathKind::Special => Ok(Attributes::default()),
        }
    }

    /// Opens a file or directory to read or set its attributes, even if its mode forbids that, as long as this user owns it.
    pub fn open_forced(&self, path: &TreePath) -> io::Result<OwnedFd> {
        let open = || self.open_path(path.as_bytes(), READ);
        match open() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => return result,
        }
        let (dir, name) = self.parent(path)?;
        let inode = InodeHandle::open(dir.as_fd(), name)?;
        let mode = inode.stat()?.st_mode;
        inode.set_mode(mode | 0o400)?;
        let file = open();
        inode.set_mode(mode)?;
        file
    }

    pub fn read_link(&self, path: &TreePath) -> io::Result<Vec<u8>> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes())
    }

    /// Moves `path` out of the tree to `to`, where nothing may exist.
    pub fn move_out(&self, path: &TreePath, to: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let rename = || transfer::move_new((dir.as_fd(), name), (CWD, to.as_os_str()));
        match rename() {
            // A directory can only move if it is writable: its `..` changes. Something at `to` is a whole copy on another file system,
            // whose original could not be removed.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied && to.symlink_metadata().is_err() =>
            {
                let inode = InodeHandle::open(dir.as_fd(), name)?;
                let mode = inode.stat()?.st_mode;
                if PathKind::of(mode) != PathKind::Dir {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                inode.set_mode(mode | 0o700)?;
                let moved = rename();
                inode.set_mode(mode)?;
                moved
            }
            result => result,
        }
    }

    /// Moves `from` into the tree, to `path`, where nothing may exist.
    pub fn move_in(&self, from: &Path, path: &TreePath) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        transfer::move_new((CWD, from.as_os_str()), (dir.as_fd(), name))
    }

    /// Creates a directory; an existing one is fine.
    pub fn make_dir(&self, path: &TreePath) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        match rustix::fs::mkdirat(&dir, name, RawMode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => {
                let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                match PathKind::of(stat.st_mode) {
                    PathKind::Dir => Ok(()),
                    _ => Err(io::ErrorKind::AlreadyExists.into()),
                }
            }
            result => {
                result?;
                self.give_to_owner_of(&dir, name)
            }
        }
    }

    /// What root creates in another user's tree belongs to that user.
    fn give_to_owner_of(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let stat = rustix::fs::statat(dir, "", AtFlags::EMPTY_PATH)?;
        let (owner, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        Ok(rustix::fs::chownat(dir, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Removes a directory if it is empty; returns whether it no longer exists.
    pub fn remove_dir(&self, path: &TreePath) -> io::Result<bool> {
        let removed = self
            .parent(path)
            .and_then(|(dir, name)| Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?));
        match removed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            // The user mounted something there on purpose.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Sets the permissions of a file or directory.
    pub fn set_mode(&self, path: &TreePath, mode: FileMode) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        InodeHandle::open(dir.as_fd(), name)?.set_mode(mode.bits())
    }

    /// Makes all changes on the tree's file system durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.open_dir(b"")?)?)
    }
}

/// An open directory of the tree, for reading several files in it.
pub struct Dir(OwnedFd);

impl Dir {
    /// Opens a file for reading. Never blocks on a FIFO; the caller checks that it is a regular file.
    pub fn open(&self, name: &[u8]) -> io::Result<File> {
        Ok(File::from(rustix::fs::openat(&self.0, OsStr::from_bytes(name), READ, RawMode::empty())?))
    }
}

fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, RawMode::empty())?)
}

fn regular(file: File) -> io::Result<File> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

// The field has another type on other architectures.
#[allow(clippy::unnecessary_cast)]
fn links(stat: &rustix::fs::Stat) -> u64 {
    stat.st_nlink as u64
}

/// Whether this error means that nothing exists at a path: no such name, or no directory to hold it.
pub fn is_absent(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|errno| number == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn path(text: &str) -> TreePath {
        TreePath::new(text.as_bytes()).unwrap()
    }

    /// The root twice: as the kernel allows, and as on a kernel without `openat2`.
    fn roots(dir: &Path) -> [Root; 2] {
        let root = Root::open(dir).unwrap();
        let stepwise = Root { resolver: Resolver::Stepwise, ..Root::open(dir).unwrap() };
        [root, stepwise]
    }

    #[test]
    fn nothing_is_reached_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        fs::create_dir(outside.path().join("sub")).unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("door")).unwrap();
        symlink(outside.path().join("secret"), inside.path().join("last")).unwrap();
        let staged = inside.path().join("staged");
        fs::write(&staged, "evil").unwrap();
        let mode = || fs::metadata(outside.path().join("secret")).unwrap().permissions();
        let mode_before = mode();
        for root in roots(inside.path()) {
            assert_eq!(root.find(&path("door/secret")).unwrap(), None);
            assert!(root.open_file(&path("door/secret")).is_err());
            assert!(root.open_file(&path("last")).is_err());
            assert!(root.open_file_forced(&path("last")).is_err());
            assert!(root.open_dir(b"door").is_err());
            assert!(root.open_dir(b"door/sub").is_err());
            assert!(root.list(&path("door/sub")).is_err());
            assert!(root.dir(b"door/sub").is_err());
            assert!(root.set_mode(&path("door/secret"), FileMode::from_bits(0o606)).is_err());
            assert!(root.set_mode(&path("last"), FileMode::from_bits(0o606)).is_err());
            assert!(root.move_in(&staged, &path("door/planted")).is_err());
            assert!(root.make_dir(&path("door/dir")).is_err());
            assert!(root.move_out(&path("door/secret"), &staged).is_err());
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
        assert_eq!(mode(), mode_before);
    }

    #[test]
    fn no_move_replaces_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "mine").unwrap();
        fs::write(dir.path().join("staged"), "theirs").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let staged = dir.path().join("staged");
        let error = root.move_in(&staged, &path("mine")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let error = root.move_out(&path("mine"), &staged).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("mine")).unwrap(), b"mine");
        assert_eq!(fs::read(staged).unwrap(), b"theirs");
    }
}
