//! `git stash`, as people use it for a checkpoint: `stash push -u` takes everything away, `stash apply --index` puts it back.
//!
//! A stash holds only what differs from the last commit. So the first checkpoint is of a tree that is untracked as a whole,
//! and later ones are of a committed tree in which some files are edited: of an unchanged tree there is no stash.
//! Both write the tree anew, so whoever measures another contender on the same tree does that before.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use super::Result;
use super::contender::{DiskSize, Keeper, git_command, remove_directory};
use super::measure::{Cost, Runner};

pub struct GitStash {
    runner: Runner,
    directory: PathBuf,
}

impl GitStash {
    pub fn new(runner: Runner) -> Self {
        let directory = runner.scratch().join("stash.git");
        Self { runner, directory }
    }

    fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        git_command(&self.directory, &self.runner, arguments)
    }

    /// Commits the whole tree.
    pub fn commit(&self) -> Result<()> {
        self.runner.prepare(&self.command(&["add", "-A"]))?;
        self.runner.prepare(&self.command(&["commit", "--quiet", "--allow-empty", "-m", "Everything"]))
    }
}

impl Keeper for GitStash {
    fn name(&self) -> &'static str {
        "git stash -u"
    }

    fn forget(&mut self) -> Result<()> {
        remove_directory(&self.directory)?;
        let directory = self.directory.as_os_str();
        let init = [OsStr::new("git"), "init".as_ref(), "--quiet".as_ref(), "--bare".as_ref(), directory];
        self.runner.prepare(&init.map(Into::into))?;
        for (key, value) in
            [("gc.auto", "0"), ("user.name", "Benchmark"), ("user.email", "benchmark@localhost")]
        {
            self.runner.prepare(&self.command(&["config", key, value]))?;
        }
        fs::create_dir_all(self.directory.join("info"))?;
        fs::write(self.directory.join("info/exclude"), "/.decree/\n")?;
        self.runner.prepare(&self.command(&["commit", "--quiet", "--allow-empty", "-m", "Nothing"]))
    }

    fn checkpoint(&mut self) -> Result<Cost> {
        let (mut cost, _) = self.runner.measure(&self.command(&["stash", "push", "--quiet", "-u"]))?;
        cost += self.runner.measure(&self.command(&["stash", "apply", "--quiet", "--index"]))?.0;
        Ok(cost)
    }

    fn store_size(&self) -> Result<DiskSize> {
        DiskSize::of(&self.directory)
    }
}
