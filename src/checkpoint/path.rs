//! Paths inside the tree, checked once when they are created.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::quote;

/// The directory of decree's own data; never part of a checkpoint.
pub const DECREE_DIR: &str = ".decree";

/// A repository's own data; never part of a checkpoint.
pub const GIT_DIR: &[u8] = b".git";

/// The tracker of processed specs; decree's own data, so never part of a checkpoint.
pub const TRACKER: &str = "specs/processed-spec.md";

/// A path that a checkpoint may hold: relative to the root, `/`-separated, any bytes.
///
/// It cannot leave the root, and it cannot name git's or decree's own data, so no other code
/// checks that again. Ordered by bytes, which is the order of manifests and diffs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Box<[u8]>);

/// Why some bytes are not a [`TreePath`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPath {
    /// Empty, with an empty component, or with a NUL byte.
    Malformed,
    /// Absolute, or with a `..` or `.` component.
    LeavesTree,
    /// A `.git`, `.decree` or the tracker, or inside one of them.
    Reserved,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::Malformed => "is not a valid path",
            BadPath::LeavesTree => "leaves the tree",
            BadPath::Reserved => "names git's or decree's own data",
        })
    }
}

impl TreePath {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, BadPath> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(TreePath(bytes))
    }

    /// Parses a path from its JSON form: quoted if necessary.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let shown = || quote::one_line(text);
        let bytes = quote::from_json(text).ok_or_else(|| format!("path {} has invalid quoting", shown()))?;
        TreePath::new(&*bytes).map_err(|why| format!("path {} {why}", shown()))
    }

    /// The path of `name` in the directory `dir` (empty: the root), unchecked: both come from a
    /// walk or a manifest.
    pub(super) fn joined(dir: &[u8], name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(dir.len() + 1 + name.len());
        if !dir.is_empty() {
            bytes.extend_from_slice(dir);
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        TreePath(bytes.into_boxed_slice())
    }

    /// A path that no checkpoint holds but that a revert may move to the quarantine: inside the tree, and not the
    /// `.git` or `.decree` at its root.
    pub(crate) fn out_of_scope(bytes: &[u8]) -> Option<Self> {
        match check(bytes) {
            Ok(()) => {}
            Err(BadPath::Reserved)
                if bytes.contains(&b'/') && !bytes.starts_with(b".git/") && !is_in_decree_dir(bytes) => {}
            Err(_) => return None,
        }
        Some(TreePath(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path on disk, for the tree at `root`.
    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    pub fn name(&self) -> &[u8] {
        self.split().1
    }

    /// Its directory (empty: the root) and its name.
    pub fn split(&self) -> (&[u8], &[u8]) {
        match memchr::memrchr(b'/', &self.0) {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (b"", &self.0),
        }
    }

    /// The directories above it, outermost first; not the root.
    pub fn ancestors(&self) -> impl Iterator<Item = TreePath> + '_ {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| TreePath(self.0[..at].into()))
    }

    /// Whether it is below the directory `dir`, at any depth.
    pub fn is_in(&self, dir: &TreePath) -> bool {
        self.0.len() > dir.0.len() && self.0[dir.0.len()] == b'/' && self.0.starts_with(&dir.0)
    }

    /// The number of directories above it, without the root.
    pub fn depth(&self) -> usize {
        memchr::memchr_iter(b'/', &self.0).count()
    }
}

/// The path of a repository's `.git`: a directory or, in a work tree or a submodule, a file. No checkpoint holds it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepositoryPath(TreePath);

impl RepositoryPath {
    /// The `.git` in the directory `dir` (empty: the root), unchecked: it comes from a walk.
    pub(super) fn in_dir(dir: &[u8]) -> Self {
        RepositoryPath(TreePath::joined(dir, GIT_DIR))
    }

    /// Reads one from a record: the `.git` of a directory of the tree, or of the root.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let dir = bytes.strip_suffix(GIT_DIR)?;
        let is_in_tree = |dir: &[u8]| TreePath::new(dir).is_ok();
        (dir.is_empty() || dir.strip_suffix(b"/").is_some_and(is_in_tree))
            .then(|| RepositoryPath(TreePath(bytes.into())))
    }

    /// The work tree that it belongs to; `None` if that is the project.
    pub fn work_tree(&self) -> Option<TreePath> {
        let dir = self.0.split().0;
        (!dir.is_empty()).then(|| TreePath(dir.into()))
    }

    /// As a path of the tree, for [`Root`](super::root::Root) alone: nothing else may touch it.
    pub fn as_tree_path(&self) -> &TreePath {
        &self.0
    }
}

impl fmt::Display for RepositoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RepositoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RepositoryPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RepositoryPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = quote::from_json(&text).unwrap_or_default();
        let dir = match bytes.strip_suffix(GIT_DIR) {
            Some([]) => Some(&b""[..]),
            Some(above) => above.strip_suffix(b"/").filter(|dir| check(dir).is_ok()),
            None => None,
        };
        let shown = || serde::de::Error::custom(format!("{} is no repository", quote::one_line(&text)));
        dir.map(RepositoryPath::in_dir).ok_or_else(shown)
    }
}

/// The directories above these paths, without the root. Fastest if the paths of one directory are consecutive.
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
            GIT_DIR => is_git = true,
            _ => {}
        }
    }
    if is_git || is_in_decree_dir(bytes) || bytes == TRACKER.as_bytes() {
        return Err(BadPath::Reserved);
    }
    Ok(())
}

fn is_in_decree_dir(bytes: &[u8]) -> bool {
    bytes.strip_prefix(DECREE_DIR.as_bytes()).is_some_and(|rest| rest.first().is_none_or(|&b| b == b'/'))
}

impl AsRef<Path> for TreePath {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quote::in_json(&self.0))
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TreePath::from_json(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
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
    fn a_path_cannot_leave_the_tree_or_name_reserved_data() {
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
