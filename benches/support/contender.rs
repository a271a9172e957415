//! The two that are compared throughout: decree, with the commands and defaults that people type, and a shadow git.
//!
//! A shadow git is what editors' agents use for checkpoints today: a git directory kept elsewhere whose
//! work tree is the project, `add -A` and `write-tree` for a checkpoint. It runs with git's defaults,
//! apart from `gc.auto`, which could start a repack in the middle of a measurement.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Result;
use super::measure::{Cost, Runner};

/// Something that keeps checkpoints of the tree.
pub trait Keeper {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// Forgets everything stored; not measured.
    fn forget(&mut self) -> Result<()>;
    /// Stores the tree as it is now, and remembers this checkpoint as the latest.
    fn checkpoint(&mut self) -> Result<Cost>;
    /// What everything that belongs to its checkpoints takes on disk.
    fn store_size(&self) -> Result<DiskSize>;
    /// The same contender, if it can bring a checkpoint back.
    fn as_reverter(&mut self) -> Option<&mut dyn Reverter> {
        None
    }
}

/// A keeper that can also bring a checkpoint back.
pub trait Reverter: Keeper {
    /// Compares the tree with the latest checkpoint and writes the difference to a file.
    fn diff(&mut self, output: &Path) -> Result<Cost>;
    /// Puts the tree back to the latest checkpoint.
    fn revert(&mut self) -> Result<Cost>;
}

pub struct Decree {
    runner: Runner,
    program: PathBuf,
    latest: String,
}

impl Decree {
    pub fn new(runner: Runner, program: PathBuf) -> Self {
        Self { runner, program, latest: String::new() }
    }

    fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        let mut command = vec![self.program.clone().into(), "-C".into(), self.runner.tree().into()];
        command.extend(arguments.iter().map(OsString::from));
        command
    }

    fn directory(&self) -> PathBuf {
        self.runner.tree().join(".decree")
    }
}

impl Keeper for Decree {
    fn name(&self) -> &'static str {
        "decree"
    }

    fn forget(&mut self) -> Result<()> {
        remove_directory(&self.directory())?;
        self.runner.prepare(&self.command(&["init"]))
    }

    fn checkpoint(&mut self) -> Result<Cost> {
        let command = self.command(&["checkpoint", "create"]);
        let (cost, output) = self.runner.measure(&command)?;
        let id = String::from_utf8(output)?.trim().to_owned();
        if !id.starts_with("chk_") {
            return Err("`decree checkpoint create` names no checkpoint".into());
        }
        self.latest = id;
        Ok(cost)
    }

    fn store_size(&self) -> Result<DiskSize> {
        DiskSize::of(&self.directory())
    }

    fn as_reverter(&mut self) -> Option<&mut dyn Reverter> {
        Some(self)
    }
}

impl Reverter for Decree {
    fn diff(&mut self, output: &Path) -> Result<Cost> {
        self.runner.measure_into(&self.command(&["diff", &self.latest]), output)
    }

    fn revert(&mut self) -> Result<Cost> {
        Ok(self.runner.measure(&self.command(&["revert", &self.latest]))?.0)
    }
}

pub struct ShadowGit {
    runner: Runner,
    directory: PathBuf,
    latest: String,
}

impl ShadowGit {
    pub fn new(runner: Runner) -> Self {
        let directory = runner.scratch().join("shadow.git");
        Self { runner, directory, latest: String::new() }
    }

    fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        git_command(&self.directory, &self.runner, arguments)
    }

    /// Only the first half of a checkpoint.
    pub fn add(&self) -> Result<Cost> {
        Ok(self.runner.measure(&self.command(&["add", "-A"]))?.0)
    }
}

/// A git command for the tree, with its git directory elsewhere.
pub fn git_command(directory: &Path, runner: &Runner, arguments: &[&str]) -> Vec<OsString> {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    let mut command =
        vec!["git".into(), option("--git-dir=", directory), option("--work-tree=", runner.tree())];
    command.extend(arguments.iter().map(OsString::from));
    command
}

impl Keeper for ShadowGit {
    fn name(&self) -> &'static str {
        "shadow git"
    }

    fn forget(&mut self) -> Result<()> {
        remove_directory(&self.directory)?;
        let init = [OsStr::new("git"), "init".as_ref(), "--bare".as_ref(), self.directory.as_os_str()];
        self.runner.prepare(&init.map(Into::into))?;
        self.runner.prepare(&self.command(&["config", "gc.auto", "0"]))?;
        // decree's own directory lies in the tree, and is not part of what is measured.
        let exclude = self.directory.join("info/exclude");
        fs::create_dir_all(self.directory.join("info"))?;
        Ok(fs::write(exclude, "/.decree/\n")?)
    }

    fn checkpoint(&mut self) -> Result<Cost> {
        let mut cost = self.add()?;
        let (written, tree) = self.runner.measure(&self.command(&["write-tree"]))?;
        cost += written;
        self.latest = String::from_utf8(tree)?.trim().to_owned();
        Ok(cost)
    }

    fn store_size(&self) -> Result<DiskSize> {
        DiskSize::of(&self.directory)
    }

    fn as_reverter(&mut self) -> Option<&mut dyn Reverter> {
        Some(self)
    }
}

impl Reverter for ShadowGit {
    fn diff(&mut self, output: &Path) -> Result<Cost> {
        let mut cost = self.add()?;
        let diff = self.command(&["diff", "--cached", "--binary", &self.latest]);
        cost += self.runner.measure_into(&diff, output)?;
        Ok(cost)
    }

    /// `read-tree -u --reset` is `reset --hard` to a tree that no commit names.
    fn revert(&mut self) -> Result<Cost> {
        let reset = self.command(&["read-tree", "-u", "--reset", &self.latest]);
        let (mut cost, _) = self.runner.measure(&reset)?;
        cost += self.runner.measure(&self.command(&["clean", "-fdq"]))?.0;
        Ok(cost)
    }
}

/// What a directory takes, itself and its subdirectories included, as `du` counts it: a file with two names once.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskSize {
    pub allocated: u64,
    pub apparent: u64,
}

impl DiskSize {
    pub fn of(path: &Path) -> Result<Self> {
        let mut size = Self::default();
        size.add(path, &mut HashSet::new())?;
        Ok(size)
    }

    /// What was added since.
    pub fn since(self, before: Self) -> Self {
        Self {
            allocated: self.allocated.saturating_sub(before.allocated),
            apparent: self.apparent.saturating_sub(before.apparent),
        }
    }

    fn add(&mut self, path: &Path, seen: &mut HashSet<u64>) -> Result<()> {
        let metadata =
            fs::symlink_metadata(path).map_err(|error| format!("{} has no size: {error}", path.display()))?;
        if metadata.is_file() && metadata.nlink() > 1 && !seen.insert(metadata.ino()) {
            return Ok(());
        }
        self.allocated += metadata.blocks() * 512;
        self.apparent += metadata.len();
        if metadata.is_dir() {
            for entry in fs::read_dir(path)? {
                self.add(&entry?.path(), seen)?;
            }
        }
        Ok(())
    }
}

/// Removes a directory that may not be there.
pub fn remove_directory(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path)?;
    }
    Ok(())
}
