//! The repository that a project is in, and where its commits shall go.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::checkpoint::path::TreePath;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{Git, WorkTree};

/// What git has under way, by the file or directory that tells.
const UNDER_WAY: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];
/// Who commits in GitHub Actions, if nobody was named.
const BOT: (&str, &str) = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com");

/// A repository with a work tree, and the project in it.
pub struct Repository {
    /// Every call is at the top of the work tree.
    pub git: Git,
    /// The top of the work tree.
    pub top: PathBuf,
    /// `.git`, or what stands for it in a linked work tree.
    pub git_dir: PathBuf,
    /// Where the project is below the top: empty, or with a slash at the end.
    pub prefix: Vec<u8>,
    /// The branch that is checked out; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// The commit that is checked out; `None` before the first one.
    pub head: Option<String>,
    /// The name of nothing: as many zeros as a hash has digits here.
    pub zero: String,
    /// The tree with nothing in it.
    pub empty_tree: String,
}

impl Repository {
    /// The repository of the project at `root`.
    pub fn find(root: &Path, variables: &BTreeMap<OsString, OsString>) -> Result<Repository> {
        let advice = "`git init` makes one; commits can only be made in one";
        let place = WorkTree::find(root, variables, advice)?;
        let (branch, head) = (place.branch()?, place.git.commit_of("HEAD")?);
        let WorkTree { git, top, git_dir, prefix } = place;
        let empty_tree = git.call(["hash-object", "-t", "tree", "--stdin"]).line()?;
        let zero = "0".repeat(empty_tree.len());
        Ok(Repository { git, top, git_dir, prefix, branch, head, zero, empty_tree })
    }

    /// A path of the project as git has it.
    pub fn inside(&self, path: &TreePath) -> Vec<u8> {
        self.below(path.as_bytes())
    }

    /// The same for any path below the project.
    pub fn below(&self, path: &[u8]) -> Vec<u8> {
        [&self.prefix, path].concat()
    }

    /// A commit in the middle of something else would become part of that.
    pub fn refuse_under_way(&self) -> Result<()> {
        let found = UNDER_WAY.iter().find(|(name, _)| self.git_dir.join(name).symlink_metadata().is_ok());
        match found {
            None => Ok(()),
            Some((_, what)) => Err(Error::failed(format!("{what} is under way in {}", self.top.display()))
                .hint("finish or abort it, then publish again")),
        }
    }

    /// Lets git write no object into the repository from here on, but into `dir`.
    pub fn pretend(&mut self, dir: &Path) -> Result<()> {
        let objects =
            self.git.call(["rev-parse", "--path-format=absolute", "--git-path", "objects"]).ok()?.path();
        std::fs::create_dir_all(dir).at("create", dir)?;
        self.git.set_variable("GIT_OBJECT_DIRECTORY", dir);
        self.git.set_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects);
        Ok(())
    }

    /// Checks that a branch can have this name.
    pub fn check_branch(&self, name: &str) -> Result<()> {
        let good = !name.starts_with('-')
            && self.git.call(["check-ref-format", &format!("refs/heads/{name}")]).run()?.is_ok();
        match good {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Usage,
                format!("'{}' cannot be a branch", self.git.printable(name)),
            )),
        }
    }

    /// A branch that is checked out in another work tree is not to be moved under its feet.
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

    /// Sees to it that commits have an author: git's own settings, or in GitHub Actions the bot.
    pub fn identify(&mut self, in_actions: bool) -> Result<()> {
        for what in ["name", "email"] {
            for who in ["author", "committer"] {
                if !self.is_known(who, what)? {
                    if !in_actions {
                        return Err(Error::failed("git does not know who makes the commits").hint(
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

/// `GIT_AUTHOR_NAME` and its like.
fn variable(who: &str, what: &str) -> String {
    format!("GIT_{}_{}", who.to_uppercase(), what.to_uppercase())
}
