//! Renames that replace nothing, and moves to another file system: a complete copy under a temporary name first, which is then
//! renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode as RawMode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::beneath::InodeHandle;
use super::{acl, random_hex, sparse, xattr};

/// The prefix of unfinished entries in the user's tree. It is among the names of likely secrets, so no checkpoint holds them.
pub const TEMPORARY_IN_TREE: &str = ".decree-tmp-";

/// A name in an open directory.
pub type NameAt<'p> = (BorrowedFd<'p>, &'p OsStr);

const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Renames, or fails with [`Errno::EXIST`] if something is at `to`.
pub fn rename_new(from: NameAt<'_>, to: NameAt<'_>) -> Result<(), Errno> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(from.0, from.1, to.0, to.1, flags) {
        // Not every file system supports the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => rustix::fs::renameat(from.0, from.1, to.0, to.1),
            Ok(_) => Err(Errno::EXIST),
            Err(error) => Err(error),
        },
        result => result,
    }
}

/// Moves something, to another file system too, or fails with `AlreadyExists` if something is at `to`.
pub fn move_new(from: NameAt<'_>, to: NameAt<'_>) -> io::Result<()> {
    match rename_new(from, to) {
        Err(Errno::XDEV) => {}
        result => return Ok(result?),
    }
    let copy_name = Path::new(to.1).with_file_name(format!("{TEMPORARY_IN_TREE}{}", random_hex()));
    let copied = (to.0, copy_name.as_os_str());
    match copy(from, copied).and_then(|()| Ok(rename_new(copied, to)?)) {
        Ok(()) => remove(from),
        Err(error) => {
            let _ = remove(copied);
            Err(error)
        }
    }
}

/// Copies what is at `from` to `to`, where nothing may be, with its mode, its extended attributes and, if decree runs as root, its
/// owner.
pub fn copy(from: NameAt<'_>, to: NameAt<'_>) -> io::Result<()> {
    let stat = rustix::fs::statat(from.0, from.1, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from.0, from.1, Vec::new())?;
            rustix::fs::symlinkat(target, to.0, to.1)?;
            return give_owner(&stat, to);
        }
        FileType::RegularFile => copy_file(from, to)?,
        FileType::Directory => copy_dir(from, to)?,
        kind => rustix::fs::mknodat(to.0, to.1, kind, RawMode::from_raw_mode(0o600), stat.st_rdev)?,
    }
    give_owner(&stat, to)?;
    let mode = copy_attributes(&stat, from, to)?;
    // After the owner: a change of owner clears the set-id bits.
    InodeHandle::open(to.0, to.1)?.set_mode(mode)
}

/// Copies the extended attributes of a file or directory. Returns its mode, which is less where an ACL could not be copied.
fn copy_attributes(stat: &Stat, from: NameAt<'_>, to: NameAt<'_>) -> io::Result<u32> {
    let mut mode = stat.st_mode;
    if !matches!(FileType::from_raw_mode(mode), FileType::RegularFile | FileType::Directory) {
        return Ok(mode);
    }
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |place: NameAt<'_>| rustix::fs::openat(place.0, place.1, read, RawMode::empty());
    let (source, target) = (open(from)?, open(to)?);
    for (name, value) in xattr::read_all(&source)? {
        if !xattr::set(&target, &name, &value)? && *name == *xattr::ACCESS_ACL {
            mode = acl::mode_in_place_of(&value, mode);
        }
    }
    Ok(mode)
}

fn copy_file(from: NameAt<'_>, to: NameAt<'_>) -> io::Result<()> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut source = File::from(rustix::fs::openat(from.0, from.1, read, RawMode::empty())?);
    let target = File::from(rustix::fs::openat(to.0, to.1, write, RawMode::from_raw_mode(0o600))?);
    sparse::copy(&mut source, target)?.sync_all()
}

fn copy_dir(from: NameAt<'_>, to: NameAt<'_>) -> io::Result<()> {
    rustix::fs::mkdirat(to.0, to.1, RawMode::from_raw_mode(0o700))?;
    let target = rustix::fs::openat(to.0, to.1, OPEN_DIR, RawMode::empty())?;
    each(from, |source, name| copy((source.as_fd(), name), (target.as_fd(), name)))
}

fn give_owner(stat: &Stat, to: NameAt<'_>) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    Ok(rustix::fs::chownat(to.0, to.1, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Removes a file, a link, or a directory with everything in it, also in directories that are not writable for their owner.
pub fn remove(place: NameAt<'_>) -> io::Result<()> {
    let stat = rustix::fs::statat(place.0, place.1, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(place.0, place.1, AtFlags::empty())?);
    }
    if stat.st_mode & 0o700 != 0o700 {
        // Only the owner may. Where it fails, the removal says whether that matters: an empty directory goes all the same.
        let _ = InodeHandle::open(place.0, place.1).and_then(|dir| dir.set_mode(stat.st_mode | 0o700));
    }
    each(place, |dir, name| remove((dir.as_fd(), name)))?;
    Ok(rustix::fs::unlinkat(place.0, place.1, AtFlags::REMOVEDIR)?)
}

/// Calls `act` with every name in a directory.
fn each(place: NameAt<'_>, mut act: impl FnMut(&OwnedFd, &OsStr) -> io::Result<()>) -> io::Result<()> {
    let dir = rustix::fs::openat(place.0, place.1, OPEN_DIR, RawMode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir)? {
        names.push(entry?.file_name().to_bytes().to_owned());
    }
    for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
        act(&dir, OsStr::from_bytes(name))?;
    }
    Ok(())
}
