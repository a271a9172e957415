//! Which other processes use a file: read from `/proc`.
//!
//! What it does not promise: `/proc` hides which files the processes of other users have open, unless decree is root, and hides processes
//! of other containers and of the host altogether. Those are found only by the locks that they hold ([`is_locked`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc::{F_UNLCK, F_WRLCK, O_ACCMODE, O_RDONLY, SEEK_SET, flock};
use rustix::fs::{major, minor};

use crate::sanitize::one_line;

/// What the kernel appends to the path of an open file that was deleted.
const DELETED: &[u8] = b" (deleted)";

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
        format!("{}:{}", device_in_proc(self.device), self.inode)
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

/// A file that another process has open, and that is not at its path any more: deleted, or replaced.
#[derive(Clone, Debug)]
pub struct DeletedFile {
    /// Relative to the directory that was searched.
    pub path: PathBuf,
    /// The process: `python3 (process 12)`.
    pub user: String,
    /// `/proc/<process>/fd/<number>`, which leads to the file.
    pub link: PathBuf,
}

/// The deleted files below a directory that other processes have open, ordered by process and descriptor.
pub fn deleted_below(dir: &Path) -> Vec<DeletedFile> {
    let mut found = Vec::new();
    let Ok(dir) = dir.canonicalize() else { return found };
    visit_open_files(|pid, link, shown| {
        let Some(path) = shown.as_os_str().as_bytes().strip_suffix(DELETED) else { return };
        if let Ok(inside) = Path::new(OsStr::from_bytes(path)).strip_prefix(&dir)
            && let Ok(open) = fs::metadata(link)
            && open.is_file()
            // A file may have such a name.
            && shown.symlink_metadata().map_or(true, |named| !FileIdentity::new(&named, b"").is(&open))
        {
            let user = user(pid);
            found.push(DeletedFile { path: inside.to_owned(), user, link: link.to_owned() });
        }
    });
    found
}

/// The files in a directory that other processes have open for writing, or mapped into memory for writing, each with these processes.
pub fn writers_in(dir: &Path) -> BTreeMap<PathBuf, Vec<String>> {
    let mut found: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let Ok(dir) = dir.canonicalize() else { return found };
    visit_open_files(|pid, link, path| {
        if let Ok(inside) = path.strip_prefix(&dir)
            && is_open_for_writing(link)
        {
            add(found.entry(inside.to_owned()).or_default(), pid);
        }
    });
    let device = dir.metadata().map(|dir| device_in_proc(dir.dev())).unwrap_or_default();
    // Most programs map nothing that is on the same device.
    let mut names: Option<HashMap<u64, PathBuf>> = None;
    visit_writable_mappings(|pid, mapping| {
        let by_inode = || names.get_or_insert_with(|| inodes_in(&dir)).get(&mapping.inode).cloned();
        let by_inode = (mapping.device == device).then(by_inode).flatten();
        let by_name = || mapping.name_in(&dir).filter(|name| dir.join(name).symlink_metadata().is_ok());
        if let Some(name) = by_inode.or_else(by_name) {
            add(found.entry(name).or_default(), pid);
        }
    });
    found
}

/// A file that a process has mapped into memory so that it writes to it.
struct WritableMapping<'m> {
    device: &'m str,
    inode: u64,
    /// With `\012` for a line break.
    path: &'m [u8],
}

impl<'m> WritableMapping<'m> {
    /// Reads a line of `/proc/<process>/maps`: `7f0a-7f0b rw-s 00000000 08:01 131 /path`; `None` for every other mapping.
    fn parse(line: &'m [u8]) -> Option<WritableMapping<'m>> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (_, access, _) = (fields.next()?, fields.next()?, fields.next()?);
        if !matches!(access, [_, b'w', _, b's']) {
            return None;
        }
        let device = str::from_utf8(fields.next()?).ok()?;
        let inode = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        Some(WritableMapping { device, inode, path: fields.next()?.trim_ascii_start() })
    }

    /// The file's name, if it is directly in a directory. Some file systems have other devices and inodes here than in a `stat` result.
    fn name_in(&self, dir: &Path) -> Option<PathBuf> {
        let dir = dir.as_os_str().as_bytes().iter();
        let escaped: Vec<u8> = dir
            .flat_map(|byte| if *byte == b'\n' { b"\\012" } else { std::slice::from_ref(byte) })
            .copied()
            .collect();
        let name = self.path.strip_prefix(&*escaped)?.strip_prefix(b"/")?;
        Some(PathBuf::from(OsStr::from_bytes(name)))
    }
}

/// The files in a directory, by inode.
fn inodes_in(dir: &Path) -> HashMap<u64, PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| (entry.ino(), PathBuf::from(entry.file_name()))).collect()
}

/// The numbers of a device, as `/proc` has them.
fn device_in_proc(device: u64) -> String {
    format!("{:02x}:{:02x}", major(device), minor(device))
}

/// Calls `visit` for every file that another process has mapped so that it writes to it.
fn visit_writable_mappings(mut visit: impl FnMut(&str, &WritableMapping<'_>)) {
    for pid in other_processes() {
        let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else { continue };
        for mapping in maps.split(|byte| *byte == b'\n').filter_map(WritableMapping::parse) {
            visit(&pid, &mapping);
        }
    }
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
    for pid in other_processes() {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let link = descriptor.path();
            if let Ok(path) = fs::read_link(&link)
                && path.as_os_str() != OsStr::new("/dev/null")
                && path.is_absolute()
            {
                visit(&pid, &link, &path);
            }
        }
    }
}

/// The ids of all other processes.
fn other_processes() -> impl Iterator<Item = String> {
    let own = std::process::id().to_string();
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|process| process.file_name());
    let ids = names.filter_map(|name| name.into_string().ok());
    ids.filter(move |id| id.bytes().all(|byte| byte.is_ascii_digit()) && *id != own)
}

/// A process, for messages.
fn user(pid: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    one_line(&format!("{} (process {pid})", name.trim()))
}

fn add(users: &mut Vec<String>, pid: &str) {
    let user = user(pid);
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
