//! Which other processes use a file: read from `/proc`.
//!
//! What it does not promise: `/proc` hides which files the processes of other users have open, unless decree is root, and hides processes
//! of other containers and of the host altogether. Those are found only by the locks that they hold ([`is_locked`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_UNLCK, F_WRLCK, O_ACCMODE, O_RDONLY, SEEK_SET, flock};
use rustix::fs::{major, minor};

use crate::sanitize::one_line;

/// A file, whatever its names are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    /// Its name in its directory, by which other files are skipped without looking at them.
    name: Vec<u8>,
}

impl FileIdentity {
    pub fn new(metadata: &Metadata, name: &[u8]) -> Self {
        FileIdentity { device: metadata.dev(), inode: metadata.ino(), name: name.to_owned() }
    }

    fn is(&self, metadata: &Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }

    /// As `/proc/locks` has it.
    fn in_locks(&self) -> String {
        format!("{:02x}:{:02x}:{}", major(self.device), minor(self.device), self.inode)
    }
}

/// The other processes that hold a lock on one of the files: `python3 (process 12)`.
pub fn lock_holders(files: &[FileIdentity]) -> Vec<String> {
    let known: Vec<String> = files.iter().map(FileIdentity::in_locks).collect();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut holders = Vec::new();
    for line in locks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX" | "OFDLCK", _, "WRITE" | "READ", pid, file, ..] = words[..] else { continue };
        if known.iter().any(|known| known == file) && pid != std::process::id().to_string() {
            add(&mut holders, pid);
        }
    }
    holders
}

/// Whether a process holds a lock on the file, also one that `/proc` does not show. Takes no lock itself, so no other process notices.
pub fn is_locked(file: &File) -> bool {
    let mut found = flock { l_type: F_WRLCK as _, l_whence: SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found)).is_ok() && i32::from(found.l_type) != F_UNLCK
}

/// The other processes that have one of the files open, or hold a lock on it.
pub fn users(files: &[FileIdentity]) -> Vec<String> {
    let mut users = lock_holders(files);
    visit_open_files(|pid, link, path| {
        let name = path.file_name().unwrap_or_default();
        if files.iter().any(|file| file.name == name.as_bytes())
            && let Ok(metadata) = fs::metadata(link)
            && files.iter().any(|file| file.is(&metadata))
        {
            add(&mut users, pid);
        }
    });
    users
}

/// The files below a directory that other processes have open, relative to it.
pub fn open_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(dir) = dir.canonicalize() else { return found };
    visit_open_files(|_, _, path| {
        if let Ok(inside) = path.strip_prefix(&dir) {
            found.insert(inside.to_owned());
        }
    });
    found
}

/// The files below a directory that other processes have open for writing, relative to it, each with these processes.
pub fn writers_below(dir: &Path) -> BTreeMap<PathBuf, Vec<String>> {
    let mut found: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let Ok(dir) = dir.canonicalize() else { return found };
    visit_open_files(|pid, link, path| {
        if let Ok(inside) = path.strip_prefix(&dir)
            && is_open_for_writing(link)
        {
            add(found.entry(inside.to_owned()).or_default(), pid);
        }
    });
    found
}

/// Whether a descriptor, `/proc/<process>/fd/<number>`, allows writing. One of which that is not known does.
fn is_open_for_writing(link: &Path) -> bool {
    let info = link.iter().map(|part| if part == "fd" { OsStr::new("fdinfo") } else { part });
    let Ok(info) = fs::read_to_string(info.collect::<PathBuf>()) else { return true };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & O_ACCMODE != O_RDONLY)
}

/// Calls `visit` for every open file of other processes that has a path: with the process, the link in `/proc`, and the path.
fn visit_open_files(mut visit: impl FnMut(&str, &Path, &Path)) {
    let own = std::process::id().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let pid = process.file_name();
        let Some(pid) = pid.to_str().filter(|pid| pid.bytes().all(|b| b.is_ascii_digit()) && *pid != own)
        else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let link = descriptor.path();
            if let Ok(path) = fs::read_link(&link)
                && path.as_os_str() != OsStr::new("/dev/null")
                && path.is_absolute()
            {
                visit(pid, &link, &path);
            }
        }
    }
}

fn add(users: &mut Vec<String>, pid: &str) {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let user = one_line(&format!("{} (process {pid})", name.trim()));
    if !users.contains(&user) {
        users.push(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_found_and_none_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let (held, other) = (File::create_new(&path).unwrap(), File::open(&path).unwrap());
        assert!(!is_locked(&other));
        let mut lock =
            flock { l_type: F_WRLCK as _, l_whence: SEEK_SET as _, l_start: 0, l_len: 1, l_pid: 0 };
        fcntl(&held, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        assert!(is_locked(&other));
        lock.l_type = F_UNLCK as _;
        fcntl(&held, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        assert!(!is_locked(&other));
    }

    #[test]
    fn a_file_that_only_this_process_has_open_has_no_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = fs::File::create_new(&path).unwrap();
        let identity = FileIdentity::new(&file.metadata().unwrap(), b"x");
        assert!(users(std::slice::from_ref(&identity)).is_empty());
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = users(&[identity]);
        let below = open_below(dir.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            matches!(&found[..], [user] if user.ends_with(&format!("(process {})", child.id()))),
            "{found:?}"
        );
        assert_eq!(below.into_iter().collect::<Vec<_>>(), [Path::new("x")]);
    }
}
