//! The repository that contains a project.

use std::path::{Path, PathBuf};

use super::run::Git;
use crate::error::{Error, Result};

/// A repository with a work tree, and where the project is in it.
pub struct WorkTree {
    /// Runs every call at the top of the work tree.
    pub git: Git,
    pub top: PathBuf,
    /// `.git`, or the directory that replaces it in a linked work tree.
    pub git_dir: PathBuf,
    /// The project's path below the top: empty, or with a slash at the end.
    pub prefix: Vec<u8>,
}

impl WorkTree {
    /// Finds the repository of the project at `root`, where `git` runs. `advice` is the hint of the error if there is none.
    pub fn find(git: Git, root: &Path, advice: &str) -> Result<WorkTree> {
        let top = git.call(["rev-parse", "--show-toplevel"]).run()?;
        if !top.is_ok() {
            let lines: Vec<String> = top.err.lines().map(str::to_owned).collect();
            if top.err.contains("dubious ownership") {
                return Err(Error::failed(format!("git does not trust {}", root.display()))
                    .details(lines, 5)
                    .hint(
                        "it belongs to another user; the command that git prints above makes git trust it",
                    ));
            }
            let bare = git.call(["rev-parse", "--is-bare-repository"]).run()?.line() == "true";
            let advice = if bare { "it is a bare repository: work in a clone of it" } else { advice };
            return Err(Error::project(format!(
                "{} is not in a git repository with a work tree",
                root.display()
            ))
            .details(lines, 5)
            .hint(advice));
        }
        let top = top.path();
        let git_dir = git.call(["rev-parse", "--absolute-git-dir"]).ok()?.path();
        let prefix = git.call(["rev-parse", "--show-prefix"]).ok()?;
        let prefix = prefix.out.strip_suffix(b"\n").unwrap_or(&prefix.out).to_vec();
        let git = git.at(&top, &[("GIT_DIR", git_dir.as_os_str()), ("GIT_WORK_TREE", top.as_os_str())]);
        Ok(WorkTree { git, top, git_dir, prefix })
    }

    /// Converts a path relative to the project to one relative to the repository.
    pub fn to_repository(&self, path: &[u8]) -> Vec<u8> {
        [&self.prefix, path].concat()
    }

    /// Converts a path relative to the repository to one relative to the project; `None` if it is outside of the project.
    pub fn to_project<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        path.strip_prefix(self.prefix.as_slice()).filter(|path| !path.is_empty())
    }

    /// The branch that is checked out; `None` if HEAD is detached.
    pub fn branch(&self) -> Result<Option<String>> {
        let name = self.git.call(["symbolic-ref", "-q", "HEAD"]).run()?.line();
        Ok(name.strip_prefix("refs/heads/").map(str::to_owned))
    }
}
