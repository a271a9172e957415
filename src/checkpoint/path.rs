//! Paths inside the tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::quote;

/// Where the project keeps decree's own data; never part of a checkpoint.
pub const DECREE_DIR: &[u8] = b".decree";

/// The tracker of processed specs; decree's own, so never part of a checkpoint.
pub const TRACKER: &[u8] = b"specs/processed-spec.md";

/// A path that a checkpoint may hold: relative to the root, `/`-separated, any bytes.
///
/// It cannot leave the root, and it cannot name git's or decree's own data. Nothing else in
/// decree has to check that again. Ordered by bytes, which is the order of manifests and diffs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Box<[u8]>);

/// Why some bytes are not a [`TreePath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPath {
    /// Nothing there, or an empty component, or a NUL.
    Malformed,
    /// Absolute, or with a `..` or `.` component.
    LeavesTree,
    /// Inside a `.git`, `.decree` or the tracker.
    Reserved,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::Malformed => "is not a path",
            BadPath::LeavesTree => "leaves the tree",
            BadPath::Reserved => "names git's or decree's own data",
        })
    }
}

impl TreePath {
    /// Checks and takes these bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, BadPath> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(TreePath(bytes))
    }

    /// The path of `name` in the directory `dir` (empty: the root), as the walk found them:
    /// a name from the file system needs no second check.
    pub(super) fn joined(dir: &[u8], name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(dir.len() + 1 + name.len());
        if !dir.is_empty() {
            bytes.extend_from_slice(dir);
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        TreePath(bytes.into_boxed_slice())
    }

    /// The path of something that no checkpoint holds but a revert may move away: inside the tree, and not at
    /// its top if it is git's or decree's own.
    pub(crate) fn beside(bytes: &[u8]) -> Option<Self> {
        match check(bytes) {
            Ok(()) => {}
            Err(BadPath::Reserved)
                if bytes.contains(&b'/')
                    && !bytes.starts_with(b".git/")
                    && !bytes.starts_with(b".decree/") => {}
            Err(_) => return None,
        }
        Some(TreePath(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where it is below `root`.
    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    /// As a relative path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The last component.
    pub fn name(&self) -> &[u8] {
        self.split().1
    }

    /// The directory it is in (empty: the root) and its name there.
    pub fn split(&self) -> (&[u8], &[u8]) {
        match memchr::memrchr(b'/', &self.0) {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b"", &self.0),
        }
    }

    /// The directories above it, outermost first, without the root.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> + '_ {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| TreePath(self.0[..at].into()))
    }

    /// Whether it lies in the directory `dir`, at any depth.
    pub fn is_in(&self, dir: &TreePath) -> bool {
        self.0.len() > dir.0.len() && self.0[dir.0.len()] == b'/' && self.0.starts_with(&dir.0)
    }

    /// How many directories it is below the root.
    pub fn depth(&self) -> usize {
        memchr::memchr_iter(b'/', &self.0).count()
    }
}

/// The directories above these paths, without the root. Paths of one directory should follow each other.
pub fn dirs_above<'p>(paths: impl IntoIterator<Item = &'p TreePath>) -> BTreeSet<TreePath> {
    let mut dirs = BTreeSet::new();
    let mut last = None;
    for path in paths {
        let parent = path.split().0;
        if last != Some(parent) {
            dirs.extend(path.ancestors());
            last = Some(parent);
        }
    }
    dirs
}

fn check(bytes: &[u8]) -> Result<(), BadPath> {
    if bytes.first() == Some(&b'/') {
        return Err(BadPath::LeavesTree);
    }
    if memchr::memchr(0, bytes).is_some() {
        return Err(BadPath::Malformed);
    }
    let mut is_git = false;
    for component in bytes.split(|&b| b == b'/') {
        match component {
            b"" => return Err(BadPath::Malformed),
            b"." | b".." => return Err(BadPath::LeavesTree),
            b".git" => is_git = true,
            _ => {}
        }
    }
    if is_git || bytes.starts_with(b".decree/") || bytes == DECREE_DIR || bytes == TRACKER {
        return Err(BadPath::Reserved);
    }
    Ok(())
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote::for_people(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text.as_bytes()).expect("a good path")
    }

    #[test]
    fn a_path_cannot_leave_the_tree_or_name_what_is_not_the_users() {
        for (text, why) in [
            ("", BadPath::Malformed),
            ("a//b", BadPath::Malformed),
            ("a/", BadPath::Malformed),
            ("a\0b", BadPath::Malformed),
            ("/etc/passwd", BadPath::LeavesTree),
            ("../x", BadPath::LeavesTree),
            ("a/../../x", BadPath::LeavesTree),
            ("./a", BadPath::LeavesTree),
            (".git/config", BadPath::Reserved),
            ("sub/.git/hooks/x", BadPath::Reserved),
            (".decree/config.yml", BadPath::Reserved),
            ("specs/processed-spec.md", BadPath::Reserved),
        ] {
            assert_eq!(TreePath::new(text.as_bytes()), Err(why), "{text:?}");
        }
        for text in ["a", ".gitignore", "sub/.decree/x", "-rf", "a b/\"c\"", ".gitx/y"] {
            assert!(TreePath::new(text.as_bytes()).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn ancestors_come_outermost_first() {
        let names: Vec<_> = path("a/b/c").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(names, ["a", "a/b"]);
        assert!(path("a/b/c").is_in(&path("a/b")));
        assert!(!path("a/bc").is_in(&path("a/b")));
        assert_eq!(path("a/b/c").name(), b"c");
    }
}
