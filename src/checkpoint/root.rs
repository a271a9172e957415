//! The project tree as a place to act in.
//!
//! Every step from the root to a path opens one directory without following symbolic links, so
//! nothing decree does to a [`TreePath`] can happen outside the tree, not even if a link is put
//! in the way at the last moment.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode as RawMode, OFlags};
use rustix::io::Errno;

use super::entry::FileMode;
use super::path::TreePath;
use crate::fs::transfer;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open project directory.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    fd: OwnedFd,
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What `lstat` says of a path, as far as decree asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStat {
    /// File, directory, link or something else.
    pub kind: PathKind,
    /// Permissions.
    pub mode: FileMode,
    /// In bytes.
    pub size: u64,
    /// The user and group it belongs to.
    pub owner: (u32, u32),
}

/// The kinds of things in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A socket, FIFO or device.
    Special,
}

impl PathKind {
    /// From `st_mode`.
    pub fn of(raw_mode: u32) -> Self {
        match rustix::fs::FileType::from_raw_mode(raw_mode) {
            rustix::fs::FileType::RegularFile => PathKind::File,
            rustix::fs::FileType::Directory => PathKind::Dir,
            rustix::fs::FileType::Symlink => PathKind::Symlink,
            _ => PathKind::Special,
        }
    }
}

impl Root {
    /// Opens the directory.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, &path, flags, RawMode::empty())?;
        Ok(Root { path, fd })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory that holds `path`. Fails with `NotADirectory` or `FilesystemLoop` if a link or a
    /// file is in the way, with `NotFound` if a directory is missing.
    fn parent<'p>(&self, path: &'p TreePath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (dir, name) = path.split();
        Ok((self.dir(dir)?.0, OsStr::from_bytes(name)))
    }

    /// Opens a directory of the tree (empty: its top), step by step.
    pub fn dir(&self, path: &[u8]) -> io::Result<Dir> {
        let mut dir = self.fd.try_clone()?;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            dir = rustix::fs::openat(&dir, OsStr::from_bytes(name), DIRECTORY, RawMode::empty())?;
        }
        Ok(Dir(dir))
    }

    /// What is at `path`; `None` if nothing is, or nothing can be, because a directory above it is missing or
    /// is not one.
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
            })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The first directory above `path` that is there but is not a directory: a link, or a file.
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

    /// Whether a directory has nothing in it at all.
    pub fn is_empty_dir(&self, path: &TreePath) -> io::Result<bool> {
        self.list(path).map(|names| names.is_empty())
    }

    /// The names in a directory.
    pub fn list(&self, path: &TreePath) -> io::Result<Vec<TreePath>> {
        let (dir, name) = self.parent(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::openat(&dir, name, flags, RawMode::empty())?;
        let mut paths = Vec::new();
        for entry in rustix::fs::Dir::read_from(&open)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                paths.push(TreePath::joined(path.as_bytes(), name));
            }
        }
        Ok(paths)
    }

    /// Opens a regular file to read it. Never blocks on a FIFO, never follows a link.
    pub fn open_file(&self, path: &TreePath) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        let file = Dir(dir).open(name.as_bytes())?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(file)
    }

    /// Opens a regular file to read it, even one whose owner, this user, took the right to read away.
    pub fn open_file_forced(&self, path: &TreePath) -> io::Result<File> {
        match self.open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            result => return result,
        }
        let found = self.find(path)?.ok_or(io::ErrorKind::NotFound)?;
        self.set_mode(path, FileMode::from_bits(found.mode.bits() | 0o400))?;
        let file = self.open_file(path);
        self.set_mode(path, found.mode)?;
        file
    }

    /// A link's target.
    pub fn read_link(&self, path: &TreePath) -> io::Result<Vec<u8>> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::readlinkat(&dir, name, Vec::new())?.into_bytes())
    }

    /// Moves `path` out of the tree to `to`, replacing what is there.
    pub fn move_out(&self, path: &TreePath, to: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        match rustix::fs::renameat(&dir, name, CWD, to) {
            // A directory can only move if it can be written to.
            Err(Errno::ACCESS | Errno::PERM) => {
                let found = self.find(path)?.filter(|found| found.kind == PathKind::Dir);
                let mode = found.ok_or(io::ErrorKind::PermissionDenied)?.mode;
                self.set_mode(path, FileMode::from_bits(mode.bits() | 0o700))?;
                let moved = rustix::fs::renameat(&dir, name, CWD, to);
                if moved.is_err() {
                    self.set_mode(path, mode)?;
                    return Ok(moved?);
                }
                let raw = RawMode::from_raw_mode(mode.bits());
                Ok(rustix::fs::chmodat(CWD, to, raw, AtFlags::empty())?)
            }
            Err(Errno::XDEV) => transfer::move_across((dir.as_fd(), name), to),
            result => Ok(result?),
        }
    }

    /// Moves `from` into the tree, to `path`, where nothing may be.
    pub fn move_in(&self, from: &Path, path: &TreePath) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        transfer::move_new((CWD, from.as_os_str()), (dir.as_fd(), name))
    }

    /// Makes a directory; one that is there already is fine.
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

    /// What root makes in other people's trees is theirs.
    fn give_to_owner_of(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let stat = rustix::fs::statat(dir, "", AtFlags::EMPTY_PATH)?;
        let (owner, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        Ok(rustix::fs::chownat(dir, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Removes a directory if it is empty; returns whether it is gone.
    pub fn remove_dir(&self, path: &TreePath) -> io::Result<bool> {
        let removed = self
            .parent(path)
            .and_then(|(dir, name)| Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?));
        match removed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            // A mount point is somebody's decision.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(error) if is_absent(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Sets the permissions of a file or directory.
    pub fn set_mode(&self, path: &TreePath, mode: FileMode) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if PathKind::of(stat.st_mode) == PathKind::Symlink {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link has no mode of its own"));
        }
        let raw = RawMode::from_raw_mode(mode.bits());
        Ok(rustix::fs::chmodat(&dir, name, raw, AtFlags::empty())?)
    }

    /// Makes all changes on the tree's file system durable.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(self.fd.as_fd(), ".", flags, RawMode::empty())?;
        Ok(rustix::fs::syncfs(&dir)?)
    }
}

/// An open directory of the tree, for many files in it.
pub struct Dir(OwnedFd);

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Dir {
    /// Opens a file in it to read it. Never blocks on a FIFO, never follows a link; whether it is a regular file
    /// is for the caller to see.
    pub fn open(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, RawMode::empty())?))
    }
}

/// Whether this error means that nothing is there: no such name, or no such directory to have it.
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

    #[test]
    fn nothing_is_reached_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("door")).unwrap();
        let staged = inside.path().join("staged");
        fs::write(&staged, "evil").unwrap();
        let root = Root::open(inside.path()).unwrap();

        assert_eq!(root.find(&path("door/secret")).unwrap(), None);
        assert!(root.open_file(&path("door/secret")).is_err());
        assert!(root.move_in(&staged, &path("door/planted")).is_err());
        assert!(root.make_dir(&path("door/dir")).is_err());
        assert!(root.move_out(&path("door/secret"), &staged).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn moving_in_never_replaces_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "mine").unwrap();
        fs::write(dir.path().join("staged"), "theirs").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let error = root.move_in(&dir.path().join("staged"), &path("mine")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(dir.path().join("mine")).unwrap(), b"mine");
    }
}
