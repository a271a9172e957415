//! Opening paths beneath a directory, and changing modes there, without following a symbolic link.
//!
//! Checking a path first and using it afterwards leaves a moment in which another process can replace a
//! component with a link. So nothing here checks names: the kernel resolves the whole path and refuses links
//! (`openat2`, Linux 5.6), or every component is opened on its own with `O_NOFOLLOW`.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, CWD, FileType, Mode as RawMode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// A directory to start from or to look names up in; needs no right to list it.
pub const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The kernel takes paths below 4096 bytes; longer ones are opened stepwise.
const MAX_PATH: usize = 4000;
/// `openat2` fails with `EAGAIN` if a rename elsewhere kept it from proving that the path stays beneath.
const MAX_RETRIES: usize = 16;

/// How paths are resolved without following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// One `openat2` per path.
    Openat2,
    /// One `openat` per component: for kernels before 5.6 and for sandboxes that forbid `openat2`.
    Stepwise,
}

impl Resolver {
    /// Finds out what the kernel offers. Older container runtimes answer an unknown system call with `EPERM`.
    pub fn detect(dir: BorrowedFd<'_>) -> Resolver {
        // Opening `.` cannot fail otherwise, so any error means that this kernel or its sandbox does not have the call.
        if openat2(dir, b".", DIRECTORY).is_ok() { Resolver::Openat2 } else { Resolver::Stepwise }
    }

    /// Opens `path` (empty: `dir` itself). A link at any component is an error: `ELOOP` or `ENOTDIR`.
    pub fn open(self, dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if path.is_empty() { b"." } else { path };
        if self == Resolver::Openat2 && path.len() < MAX_PATH {
            for _ in 0..MAX_RETRIES {
                match openat2(dir, path, flags) {
                    Err(Errno::AGAIN) => {}
                    result => return Ok(result?),
                }
            }
        }
        Ok(open_stepwise(dir, path, flags)?)
    }
}

fn openat2(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(dir, OsStr::from_bytes(path), flags, RawMode::empty(), resolve)
}

fn open_stepwise(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = |dir: BorrowedFd<'_>, name: &[u8], flags| {
        rustix::fs::openat(dir, OsStr::from_bytes(name), flags, RawMode::empty())
    };
    let (parents, name) = match memchr::memrchr(b'/', path) {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    let mut parent: Option<OwnedFd> = None;
    for component in parents.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        parent = Some(open(parent.as_ref().map_or(dir, AsFd::as_fd), component, DIRECTORY)?);
    }
    open(parent.as_ref().map_or(dir, AsFd::as_fd), name, flags)
}

/// A file or directory that is held by its inode: whatever takes its name, this stays the same one.
pub struct InodeHandle<'d> {
    inode: OwnedFd,
    dir: BorrowedFd<'d>,
    name: &'d OsStr,
}

impl<'d> InodeHandle<'d> {
    /// Holds what is at `name` in `dir`, which needs no right to read it. A link is refused: it has no mode.
    pub fn open(dir: BorrowedFd<'d>, name: &'d OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inode = rustix::fs::openat(dir, name, flags, RawMode::empty())?;
        let handle = InodeHandle { inode, dir, name };
        if FileType::from_raw_mode(handle.stat()?.st_mode) == FileType::Symlink {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link has no mode"));
        }
        Ok(handle)
    }

    pub fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.inode, "", AtFlags::EMPTY_PATH)?)
    }

    /// Sets the permissions, set-id and sticky bits included.
    ///
    /// `fchmod` does not take an `O_PATH` descriptor, and any other descriptor needs a right to read or write that
    /// the mode may not grant. The link in `/proc` leads to the inode itself, not to a name. Without `/proc` the
    /// file is opened by its name, again without following a link.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let raw = RawMode::from_raw_mode(mode & 0o7777);
        let link = format!("/proc/self/fd/{}", self.inode.as_raw_fd());
        match rustix::fs::chmodat(CWD, link, raw, AtFlags::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => self.set_mode_by_name(raw),
            result => Ok(result?),
        }
    }

    fn set_mode_by_name(&self, raw: RawMode) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.dir, self.name, flags, RawMode::empty())?;
        Ok(rustix::fs::fchmod(&file, raw)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// A directory with `real/file`, and `door`, a link to a directory outside that has a `file`, too.
    fn trees() -> (tempfile::TempDir, tempfile::TempDir) {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(inside.path().join("real")).unwrap();
        fs::write(inside.path().join("real/file"), "inside").unwrap();
        fs::write(outside.path().join("file"), "outside").unwrap();
        symlink(outside.path(), inside.path().join("door")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("last")).unwrap();
        symlink("real", inside.path().join("alias")).unwrap();
        (inside, outside)
    }

    #[test]
    fn a_link_at_any_component_is_refused_both_ways() {
        let (inside, _outside) = trees();
        let dir = File::open(inside.path()).unwrap();
        for resolver in [Resolver::detect(dir.as_fd()), Resolver::Stepwise] {
            let open = |path: &str| resolver.open(dir.as_fd(), path.as_bytes(), OFlags::RDONLY);
            for path in ["", "real", "real/file"] {
                open(path).unwrap_or_else(|error| panic!("{resolver:?} {path}: {error}"));
            }
            for path in ["door", "door/file", "last", "alias", "alias/file", "real/../last"] {
                assert!(open(path).is_err(), "{resolver:?} {path}");
            }
        }
    }

    #[test]
    fn a_path_longer_than_the_kernel_takes_is_opened() {
        let inside = tempfile::tempdir().unwrap();
        let dir = File::open(inside.path()).unwrap();
        let mut path = Vec::new();
        let mut parent = OwnedFd::from(dir.try_clone().unwrap());
        let name = "d".repeat(200);
        while path.len() < 5000 {
            rustix::fs::mkdirat(&parent, &*name, RawMode::from_raw_mode(0o755)).unwrap();
            parent = rustix::fs::openat(&parent, &*name, DIRECTORY, RawMode::empty()).unwrap();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
        }
        Resolver::detect(dir.as_fd()).open(dir.as_fd(), &path, DIRECTORY).unwrap();
    }

    #[test]
    fn a_mode_is_set_on_what_was_opened_whatever_takes_its_name() {
        let (inside, outside) = trees();
        let real = inside.path().join("real");
        let dir = File::open(&real).unwrap();
        fs::set_permissions(outside.path().join("file"), Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(real.join("file"), Permissions::from_mode(0o000)).unwrap();
        let handle = InodeHandle::open(dir.as_fd(), OsStr::new("file")).unwrap();
        fs::rename(real.join("file"), real.join("moved")).unwrap();
        symlink(outside.path().join("file"), real.join("file")).unwrap();

        handle.set_mode(0o604).unwrap();

        assert_eq!(mode(&real.join("moved")), 0o604);
        assert!(handle.set_mode_by_name(RawMode::from_raw_mode(0o600)).is_err());
        assert!(InodeHandle::open(dir.as_fd(), OsStr::new("file")).is_err());
        assert_eq!(mode(&outside.path().join("file")), 0o640);
    }
}
