//! The extended attributes of an open file or directory, as far as decree keeps them: ACLs, `user.*`, and what only root may set
//! (capabilities, `trusted.*`).
//!
//! Attributes of other kinds (SELinux labels, a file system's own) follow from where a file is, and are left to the kernel. A file
//! system without attributes has none.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode as RawMode, XattrFlags};
use rustix::io::Errno;

/// Name → value.
pub type XattrValues = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Who may do what with a file or directory, beyond its mode.
pub const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// The ACL that is given to what is made in a directory.
pub const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
const CAPABILITY: &[u8] = b"security.capability";

/// Most lists of names, and most values, are shorter.
const USUAL: usize = 1024;

fn is_kept(name: &[u8]) -> bool {
    [ACCESS_ACL, DEFAULT_ACL, CAPABILITY].contains(&name)
        || name.starts_with(b"user.")
        || name.starts_with(b"trusted.")
}

/// Reads all attributes that decree keeps.
pub fn read_all(file: impl AsFd) -> io::Result<XattrValues> {
    let file = file.as_fd();
    let names = sized(|buffer| rustix::fs::flistxattr(file, buffer), || rustix::fs::flistxattr_query(file));
    let names = match names {
        Err(error) if is_unsupported(error) || [Errno::PERM, Errno::ACCESS].contains(&error) => Vec::new(),
        names => names?,
    };
    let mut values = XattrValues::new();
    for name in names.split(|&byte| byte == 0).filter(|name| is_kept(name)) {
        match read(file, name) {
            // Another process has just removed it.
            Err(Errno::NODATA) => {}
            value => drop(values.insert(name.into(), value?.into())),
        }
    }
    Ok(values)
}

fn read(file: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let name = OsStr::from_bytes(name);
    let read = || {
        sized(|buffer| rustix::fs::fgetxattr(file, name, buffer), || rustix::fs::fgetxattr_query(file, name))
    };
    match read() {
        // The attributes of a user can only be read by those who may read the content.
        Err(Errno::ACCESS) => {}
        result => return result,
    }
    let mode = rustix::fs::fstat(file)?.st_mode;
    rustix::fs::fchmod(file, RawMode::from_raw_mode(mode & 0o7777 | 0o400))?;
    let value = read();
    rustix::fs::fchmod(file, RawMode::from_raw_mode(mode & 0o7777))?;
    value
}

/// Reads something whose size is not known beforehand and may change at any time.
fn sized(
    read: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    query: impl Fn() -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; USUAL];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) => buffer.resize(query()?.max(buffer.len()) + USUAL, 0),
            Err(error) => return Err(error),
        }
    }
}

/// Sets an attribute. `false` if this user, the file system or the user namespace does not allow it.
pub fn set(file: impl AsFd, name: &[u8], value: &[u8]) -> io::Result<bool> {
    allowed(rustix::fs::fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty()))
}

/// Removes an attribute. `false` if that is not allowed.
pub fn remove(file: impl AsFd, name: &[u8]) -> io::Result<bool> {
    match rustix::fs::fremovexattr(file, OsStr::from_bytes(name)) {
        Err(Errno::NODATA) => Ok(true),
        result => allowed(result),
    }
}

fn allowed(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::ACCESS | Errno::INVAL) => Ok(false),
        Err(error) if is_unsupported(error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_unsupported(error: Errno) -> bool {
    [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOSYS].contains(&error)
}
