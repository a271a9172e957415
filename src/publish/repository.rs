//! The git repository that contains the project.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Error, IoContext, Result};
use crate::git::{Git, WorkTree};
use crate::github::in_actions;

/// Git operations in progress, each with the file or directory that shows it.
const IN_PROGRESS: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];
/// The default author in GitHub Actions.
const BOT: (&str, &str) = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com");

/// A repository with a work tree, and the project in it.
pub struct Repository {
    /// Runs git at the top of the work tree.
    pub git: Git,
    pub top: PathBuf,
    /// `.git`, or its counterpart in a linked work tree.
    pub git_dir: PathBuf,
    /// The project's path below the top: empty, or ending with a slash.
    pub prefix: Vec<u8>,
    /// The branch that is checked out; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The commit that is checked out; `None` before the first one.
    pub head: Option<String>,
    /// The hash of "no commit": all zeros, as long as this repository's hashes.
    pub zero: String,
    pub empty_tree: String,
}

impl Repository {
    /// The repository of the project at `root`.
    pub fn find(root: &Path, variables: &BTreeMap<OsString, OsString>) -> Result<Repository> {
        let advice = "`git init` creates one";
        let place = WorkTree::find(Git::new(root, variables)?, root, advice)?;
        let (branch, head) = (place.branch()?, place.git.commit_of("HEAD")?);
        let WorkTree { git, top, git_dir, prefix } = place;
        let empty_tree = git.call(["hash-object", "-t", "tree", "--stdin"]).line()?;
        let zero = "0".repeat(empty_tree.len());
        Ok(Repository { git, top, git_dir, prefix, branch, head, zero, empty_tree })
    }

    /// A path of the project, relative to the repository.
    pub fn inside(&self, path: &[u8]) -> Vec<u8> {
        [&self.prefix, path].concat()
    }

    /// Refuses to commit during a merge, rebase or the like: the commit would become part of it.
    pub fn refuse_operation_in_progress(&self) -> Result<()> {
        let found = IN_PROGRESS.iter().find(|(name, _)| self.git_dir.join(name).symlink_metadata().is_ok());
        match found {
            None => Ok(()),
            Some((_, what)) => Err(Error::failed(format!("{what} is in progress in {}", self.top.display()))
                .hint("finish or abort it, then publish again")),
        }
    }

    /// Makes git write new objects to `dir` instead of the repository, for a dry run.
    pub fn write_objects_to(&mut self, dir: &Path) -> Result<()> {
        let objects =
            self.git.call(["rev-parse", "--path-format=absolute", "--git-path", "objects"]).ok()?.path();
        std::fs::create_dir_all(dir).at("create", dir)?;
        self.git.set_variable("GIT_OBJECT_DIRECTORY", dir);
        self.git.set_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects);
        Ok(())
    }

    /// Refuses a name that no branch can have.
    pub fn check_branch(&self, name: &str) -> Result<()> {
        let good = !name.starts_with('-')
            && self.git.call(["check-ref-format", &format!("refs/heads/{name}")]).run()?.is_ok();
        if good {
            return Ok(());
        }
        Err(Error::usage(format!("'{}' is not a valid branch name", self.git.printable(name))))
    }

    /// Refuses a branch that is checked out in another work tree, whose HEAD would move.
    pub fn refuse_checked_out(&self, branch: &str) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        let place = self.git.call(["for-each-ref", "--format=%(worktreepath)", &name]).line()?;
        match place.lines().find(|line| !line.is_empty()) {
            None => Ok(()),
            Some(place) => {
                Err(Error::failed(format!("{branch} is checked out in {}", self.git.printable(place)))
                    .hint("publish there, or to another branch"))
            }
        }
    }

    /// Ensures that commits have an author: from git's settings, or in GitHub Actions the bot.
    pub fn ensure_author(&mut self) -> Result<()> {
        for what in ["name", "email"] {
            for who in ["author", "committer"] {
                if !self.is_known(who, what)? {
                    if !in_actions() {
                        return Err(Error::failed("git has no author for the commits").hint(
                            "git config user.name \"Your Name\" && git config user.email you@example.com",
                        ));
                    }
                    let value = if what == "name" { BOT.0 } else { BOT.1 };
                    self.git.set_variable(&variable(who, what), value);
                }
            }
        }
        Ok(())
    }

    fn is_known(&self, who: &str, what: &str) -> Result<bool> {
        let set = |name: &str| self.git.variable(name).is_some_and(|value| !value.is_empty());
        if set(&variable(who, what)) || (what == "email" && set("EMAIL")) {
            return Ok(true);
        }
        for key in [format!("{who}.{what}"), format!("user.{what}")] {
            if self.git.config(&["--get", &key])?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The variable's name, such as `GIT_AUTHOR_NAME`.
fn variable(who: &str, what: &str) -> String {
    format!("GIT_{}_{}", who.to_uppercase(), what.to_uppercase())
}
