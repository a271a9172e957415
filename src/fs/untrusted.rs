//! Files in places where users put files for decree. They may be of any type.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
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
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
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

/// A path as messages show it: from `.decree` on, without the directories above.
pub fn shown_in_project(path: &Path) -> PathBuf {
    let parts: Vec<_> = path.components().collect();
    match parts.iter().rposition(|part| part.as_os_str() == ".decree") {
        Some(start) => parts[start..].iter().collect(),
        None => path.to_owned(),
    }
}
