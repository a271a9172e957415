//! restic, if it is installed: a backup tool, so it is measured only at what it is made for.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Result;
use super::contender::{DiskSize, Keeper, remove_directory};
use super::measure::{Cost, Runner};

pub struct Restic {
    runner: Runner,
    repository: PathBuf,
}

impl Restic {
    /// `None` where restic is not installed.
    pub fn find(runner: Runner) -> Option<Self> {
        runner.prepare(&["restic".into(), "version".into()]).ok()?;
        let repository = runner.scratch().join("restic");
        Some(Self { runner, repository })
    }

    fn command(&self, arguments: &[&str]) -> Vec<OsString> {
        let mut command: Vec<OsString> =
            vec!["restic".into(), "--quiet".into(), "--repo".into(), self.repository.clone().into()];
        command.extend(arguments.iter().map(OsString::from));
        command
    }
}

impl Keeper for Restic {
    fn name(&self) -> &'static str {
        "restic"
    }

    fn forget(&mut self) -> Result<()> {
        remove_directory(&self.repository)?;
        self.runner.prepare(&self.command(&["init"]))
    }

    fn checkpoint(&mut self) -> Result<Cost> {
        Ok(self.runner.measure(&self.command(&["backup", "--exclude", ".decree", "."]))?.0)
    }

    fn store_size(&self) -> Result<DiskSize> {
        DiskSize::of(&self.repository)
    }
}
