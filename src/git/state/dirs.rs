//! Where a repository keeps its state, found without git.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a `.git` file and its like begin.
const LINK: &[u8] = b"gitdir:";

/// The directories of the repository whose work tree contains a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitDirs {
    /// The top of the work tree.
    pub top: PathBuf,
    /// HEAD and the index: `.git`, or the directory that a `.git` file names.
    pub git_dir: PathBuf,
    /// Refs and objects: the same, except in a linked work tree.
    pub common_dir: PathBuf,
}

impl GitDirs {
    /// Finds the repository as git does: the nearest directory from `root` upwards that has one. Variables such as `GIT_DIR` do
    /// not count.
    pub fn find(root: &Path) -> Option<GitDirs> {
        let root = root.canonicalize().ok()?;
        root.ancestors().find_map(|top| {
            let git_dir = git_dir_in(top)?;
            let common_dir = match fs::read(git_dir.join("commondir")) {
                Ok(text) => git_dir.join(path_in(&text)).canonicalize().ok()?,
                Err(_) => git_dir.clone(),
            };
            Some(GitDirs { top: top.to_owned(), git_dir, common_dir })
        })
    }

    /// Whether this is the top of a work tree.
    pub fn is_top(dir: &Path) -> bool {
        dir.canonicalize().is_ok_and(|dir| git_dir_in(&dir).is_some())
    }

    /// The directory as a record names it: relative to the project if it is below it, so that a project can move.
    pub fn name_from(&self, root: &Path) -> PathBuf {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        self.git_dir.strip_prefix(&root).map_or_else(|_| self.git_dir.clone(), Path::to_owned)
    }
}

/// The git directory of a work tree whose top this is.
fn git_dir_in(top: &Path) -> Option<PathBuf> {
    let place = top.join(".git");
    let git_dir = match fs::metadata(&place).ok()? {
        found if found.is_dir() => place,
        found if found.is_file() => {
            let text = fs::read(&place).ok()?;
            top.join(path_in(text.strip_prefix(LINK)?)).canonicalize().ok()?
        }
        _ => return None,
    };
    git_dir.join("HEAD").symlink_metadata().is_ok().then_some(git_dir)
}

/// The path in a file that has only a path.
fn path_in(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii()))
}
