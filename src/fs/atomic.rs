//! Files that are complete or absent: temporary file, fsync, rename, fsync of the directory.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::{IoContext, Result};

/// The prefix of unfinished files. The holder of the lock of their directory may remove them.
pub const TEMPORARY: &str = "tmp-";
/// decree's own files may have copies of files that others may not read.
pub const PRIVATE: u32 = 0o600;
/// As the user's umask says.
const PUBLIC: u32 = 0o666;

/// A file that appears under its name only when [`AtomicFile::commit`] succeeds.
pub struct AtomicFile {
    writer: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl AtomicFile {
    /// Creates the temporary file of `target`, in the same directory. Only its owner may read it.
    pub fn create(target: impl Into<PathBuf>) -> Result<Self> {
        Self::create_with(target.into(), PRIVATE)
    }

    fn create_with(target: PathBuf, mode: u32) -> Result<Self> {
        let name = target.file_name().expect("the target is a file's path");
        let mut temporary = std::ffi::OsString::from(format!("{TEMPORARY}{}-", std::process::id()));
        temporary.push(name);
        let temporary = target.with_file_name(temporary);
        let file = create_with_mode(&temporary, mode).at("create", &temporary)?;
        Ok(AtomicFile {
            writer: BufWriter::with_capacity(1 << 16, file),
            temporary,
            target,
            committed: false,
        })
    }

    /// What was written so far, from its beginning.
    pub fn read_back(&mut self) -> Result<File> {
        self.writer.flush().at("write", &self.target)?;
        File::open(&self.temporary).at("read", &self.temporary)
    }

    /// Whether the file that is to be replaced has the same content.
    pub fn is_same_as_target(&mut self) -> Result<bool> {
        let mut new = self.read_back()?;
        let Ok(mut old) = super::untrusted::open(&self.target) else {
            return Ok(false);
        };
        let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let n = fill(&mut old, &mut a).at("read", &self.target)?;
            let m = fill(&mut new, &mut b).at("read", &self.temporary)?;
            if n == 0 || a[..n] != b[..m] {
                return Ok(a[..n] == b[..m]);
            }
        }
    }

    /// Sets the mode that the file has from the moment it appears.
    pub fn set_mode(&self, mode: fs::Permissions) -> Result<()> {
        self.writer.get_ref().set_permissions(mode).at("set the mode of", &self.target)
    }

    /// Commits the file unless something has its name already; returns whether it did.
    pub fn commit_new(&mut self) -> Result<bool> {
        self.writer.flush().at("write", &self.target)?;
        self.writer.get_ref().sync_data().at("write", &self.target)?;
        let (here, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(here, &self.temporary, here, &self.target, flags) {
            Err(Errno::EXIST) => return Ok(false),
            // Not every file system supports the flag; a hard link replaces nothing, either.
            Err(Errno::INVAL | Errno::NOSYS) => match fs::hard_link(&self.temporary, &self.target) {
                Ok(()) => fs::remove_file(&self.temporary).at("write", &self.target)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                // Nor hard links. Then only a check before the rename is left.
                Err(_) if self.target.symlink_metadata().is_ok() => return Ok(false),
                Err(_) => fs::rename(&self.temporary, &self.target).at("write", &self.target)?,
            },
            renamed => renamed.at("write", &self.target)?,
        }
        self.committed = true;
        sync_parent(&self.target).map(|()| true)
    }

    /// Makes the content durable and renames the file to its target.
    pub fn commit(mut self) -> Result<()> {
        self.writer.flush().at("write", &self.target)?;
        self.writer.get_ref().sync_data().at("write", &self.target)?;
        fs::rename(&self.temporary, &self.target).at("write", &self.target)?;
        self.committed = true;
        sync_parent(&self.target)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes.
pub fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes a file that is complete or absent. Only its owner may read it.
pub fn write(target: &Path, bytes: &[u8]) -> Result<()> {
    filled(target, bytes, PRIVATE)?.commit()
}

/// Writes a file that is complete or absent, and not decree's own: the umask says who may read it.
pub fn write_public(target: &Path, bytes: &[u8]) -> Result<()> {
    filled(target, bytes, PUBLIC)?.commit()
}

/// Writes a file that is complete or absent, unless something has its name already; returns whether it did.
pub fn write_new(target: &Path, bytes: &[u8]) -> Result<bool> {
    filled(target, bytes, PRIVATE)?.commit_new()
}

fn filled(target: &Path, bytes: &[u8], mode: u32) -> Result<AtomicFile> {
    let mut file = AtomicFile::create_with(target.to_owned(), mode)?;
    file.write_all(bytes).at("write", target)?;
    Ok(file)
}

/// Removes a file, if it is there, so that it does not come back after a power failure.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).if_exists().at("remove", path)?.map_or(Ok(()), |()| sync_parent(path))
}

/// Creates a file for writing, replacing one that an earlier process with the same pid left unfinished. Only its owner may read it.
pub fn create_new(path: &Path) -> io::Result<File> {
    create_with_mode(path, PRIVATE)
}

/// The same for a file that is not decree's own: the umask says who may read it.
pub fn create_public(path: &Path) -> io::Result<File> {
    create_with_mode(path, PUBLIC)
}

fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        result => result,
    }
}

/// Makes the directory entry of a file durable.
pub fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    sync_dir(parent)
}

/// Makes the entries of a directory durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}

/// Removes unfinished files and directories that a killed process left in `dir`. The caller holds the lock.
pub fn sweep(dir: &Path) {
    for path in leftovers(dir, |name| name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())) {
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

/// Removes unfinished files in a directory in which users have files, too: only those with a name that [`AtomicFile`] gives.
pub fn sweep_among_others(dir: &Path) {
    for path in leftovers(dir, is_unfinished) {
        let _ = fs::remove_file(path);
    }
}

/// Removes unfinished versions of one file. The caller holds the lock.
pub fn sweep_target(target: &Path) {
    let (Some(dir), Some(name)) = (target.parent(), target.file_name()) else { return };
    let is_version = |found: &OsStr| found.as_encoded_bytes().ends_with(name.as_encoded_bytes());
    for path in leftovers(dir, |found| is_unfinished(found) && is_version(found)) {
        let _ = fs::remove_file(path);
    }
}

fn leftovers(dir: &Path, is_leftover: impl Fn(&OsStr) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(move |entry| is_leftover(&entry.file_name())).map(|entry| entry.path())
}

/// Whether this is the name of a file that [`AtomicFile`] has not finished: `tmp-<pid>-<name>`.
pub fn is_unfinished(name: &OsStr) -> bool {
    let Some(rest) = name.as_encoded_bytes().strip_prefix(TEMPORARY.as_bytes()) else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && rest.get(digits) == Some(&b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_committed_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_is_unfinished_is_swept_away() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["tmp-12-a.md", "tmp-a.md", "tmp-12.md", "tmp--a.md", "a.md", "tmp-7-b.md"];
        let make = || names.iter().for_each(|name| fs::write(dir.path().join(name), "x").unwrap());
        let left = || names.iter().filter(|name| dir.path().join(name).exists()).copied().collect::<Vec<_>>();
        make();
        sweep_target(&dir.path().join("a.md"));
        assert_eq!(left(), names[1..]);
        make();
        sweep_among_others(dir.path());
        assert_eq!(left(), names[1..5]);
    }

    #[test]
    fn a_failed_rewrite_leaves_the_old_content() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        write(&target, b"old").unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        write(&target, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }
}
