//! Moving something out of the way, to a name that nothing has yet. Nothing is ever replaced or deleted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::transfer;
use crate::error::{Error, IoContext, Result};

/// How many names are tried. More are a mistake, which must not fill the disk.
const MAX_NAMES: u64 = 100_000;

/// The first of `candidate(1)`, `candidate(2)`, … that nothing has yet.
/// Another process may take the name before the caller does: [`take_free_name`] has no such gap.
pub fn free_name(candidate: impl Fn(u64) -> PathBuf) -> PathBuf {
    (1..).map(candidate).find(|path| path.symlink_metadata().is_err()).expect("u64 has a number left")
}

/// Calls `take` with each of `candidate(1)`, `candidate(2)`, … that nothing has yet, until it returns true, and returns that
/// path. `take` puts something there, or returns false if another process was faster; it never replaces anything.
pub fn take_free_name(
    candidate: impl Fn(u64) -> PathBuf,
    mut take: impl FnMut(&Path) -> Result<bool>,
) -> Result<PathBuf> {
    for path in (1..=MAX_NAMES).map(&candidate) {
        if path.symlink_metadata().is_err() && take(&path)? {
            return Ok(path);
        }
    }
    Err(Error::failed(format!(
        "no name is free: {} and {MAX_NAMES} others are taken",
        candidate(1).display()
    )))
}

/// Moves `from`, to another file system too, to the first of `candidate(1)`, `candidate(2)`, … that nothing has yet,
/// and returns that path. Creates missing directories above it. Returns `None` if there is nothing at `from`.
pub fn move_to_free_name(from: &Path, candidate: impl Fn(u64) -> PathBuf) -> Result<Option<PathBuf>> {
    if !exists(from)? {
        return Ok(None);
    }
    let moved = take_free_name(candidate, |to| {
        let parent = to.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).at("create", parent)?;
        transfer::move_new((CWD, from.as_os_str()), (CWD, to.as_os_str())).unless_exists().at("move", from)
    });
    match moved {
        // Another process moved or removed it first.
        Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) && !exists(from)? => Ok(None),
        moved => moved.map(Some),
    }
}

/// `path` for the number 1, then `path`, the separator and the number: `x`, `x.2`, `x.3`, …
pub fn numbered(path: &Path, separator: &str, number: u64) -> PathBuf {
    let mut name = OsString::from(path);
    if number > 1 {
        name.push(format!("{separator}{number}"));
    }
    name.into()
}

fn exists(path: &Path) -> Result<bool> {
    path.symlink_metadata().if_exists().map(|found| found.is_some()).at("read", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_name_is_taken_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("kept/name"));
        for n in 1..=3 {
            fs::write(&from, n.to_string()).unwrap();
            let moved = move_to_free_name(&from, |number| numbered(&to, ".", number)).unwrap().unwrap();
            assert_eq!(moved, numbered(&to, ".", n));
            assert_eq!(fs::read_to_string(moved).unwrap(), n.to_string());
        }
        // A dangling link and an empty directory are something, too.
        std::os::unix::fs::symlink("/nowhere/at/all", dir.path().join("kept/name.4")).unwrap();
        fs::create_dir(dir.path().join("kept/name.5")).unwrap();
        assert_eq!(free_name(|number| numbered(&to, ".", number)), dir.path().join("kept/name.6"));
        fs::create_dir(&from).unwrap();
        let moved = move_to_free_name(&from, |number| numbered(&to, ".", number)).unwrap();
        assert_eq!(moved, Some(dir.path().join("kept/name.6")));
    }

    #[test]
    fn nothing_to_move_is_no_error_and_creates_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("kept/name");
        assert_eq!(move_to_free_name(&dir.path().join("x"), |_| to.clone()).unwrap(), None);
        assert!(!dir.path().join("kept").exists());
    }
}
