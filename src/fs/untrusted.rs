//! Files in places where users put files for decree. They may be of any type.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::IoContext;
use crate::sanitize::one_line;

/// A file with the right name that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    pub reason: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is left out: {}", one_line(&self.path.to_string_lossy()), self.reason)
    }
}

/// Fails with a reason unless this is a file, or a link to one. Opening anything else could block.
pub fn regular_file(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(metadata) if metadata.is_dir() => Err("it is a directory".into()),
        Ok(_) => Err("it is not a regular file".into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err("it is a link to nothing".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Opens a file, or a link to one. Anything else is rejected: reading it could block, or never end.
pub fn open(path: &Path) -> io::Result<File> {
    open_with_metadata(path).map(|(file, _)| file)
}

/// The same, with what the kernel says of the open file.
pub fn open_with_metadata(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, metadata))
}

/// Opens a file below `root`, whose path is canonical, unless a link leads out of it. This checks the file that was opened:
/// between a check of its name and the opening, another process could replace a link.
pub fn open_inside(root: &Path, path: &str) -> io::Result<File> {
    let file = open(&root.join(path))?;
    match fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(real) if !real.starts_with(root) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not in the project"))
        }
        _ => Ok(file),
    }
}

/// The names in a directory, sorted; a missing directory has none.
pub fn names_in(dir: &Path) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(dir).if_exists()?.into_iter().flatten();
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Reads a file that [`open`] accepts.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
