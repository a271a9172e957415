//! A decree project: its directory, the layout of its files, its config and its lock.

mod config;
mod layout;
mod lock;
mod own_dirs;
mod routine_name;
pub mod templates;
mod units;

use std::path::{Path, PathBuf};

pub use config::{Budget, Commands, Config, Database, Hooks, OnNoChange, Policy, Router, SensitiveConfig};
pub use layout::{Layout, shown_in_project};
pub use lock::Lock;
pub use routine_name::RoutineName;
pub use units::{TIME_EXAMPLES, parse_duration, parse_size};

use crate::checkpoint::path::DECREE_DIR;
use crate::checkpoint::restore::{self, RecoveredRestore, RestoreLog};
use crate::checkpoint::sensitive::Sensitive;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic;

/// A project, with its settings.
pub struct Project {
    pub layout: Layout,
    pub config: Config,
}

impl Project {
    /// The project that contains `start`: the nearest directory upwards that has a `.decree/`.
    pub fn find(start: &Path) -> Result<Project> {
        let layout = Self::find_layout(start)?;
        let config = Config::read(&layout.config())?;
        Ok(Project { layout, config })
    }

    /// Like [`Project::find`], but a config that is broken is no failure: what it says as far as it can be read, and what is wrong.
    pub fn find_despite_config(start: &Path) -> Result<(Project, Option<Error>)> {
        let layout = Self::find_layout(start)?;
        let (config, mistake) = match Config::read(&layout.config()) {
            Ok(config) => (config, None),
            Err(error) => (Config::read_what_is_valid(&layout.config()), Some(error)),
        };
        Ok((Project { layout, config }, mistake))
    }

    fn find_layout(start: &Path) -> Result<Layout> {
        let start = start.canonicalize().at("open", start)?;
        let root = start.ancestors().find(|dir| dir.join(DECREE_DIR).is_dir()).ok_or_else(|| {
            Error::project(format!(
                "{} is not in a decree project: no .decree/ here or above",
                start.display()
            ))
            .hint("`decree init` creates one")
        })?;
        refuse_home(root)?;
        Ok(Layout::new(root.to_owned()))
    }

    /// Whether `decree init` made this project and its config is gone since.
    pub fn misses_config(&self) -> bool {
        self.layout.gitignore().exists() && self.layout.config().symlink_metadata().is_err()
    }

    /// The checkpoint engine for this project.
    pub fn workspace(&self) -> Result<Workspace> {
        let sensitive = Sensitive::new(&self.config.sensitive.exclude, &self.config.sensitive.allow);
        let layout = &self.layout;
        let (store, cache, scratch) = (layout.store(), layout.stat_cache(), layout.scratch());
        let workspace = Workspace::new(layout.root(), &store, &cache, &scratch, sensitive)?;
        Ok(if layout.owns_store() { workspace } else { workspace.with_external_store() })
    }

    /// Locks the project for a command that changes it.
    pub fn lock(&self, command: &str) -> Result<Lock> {
        let lock = Lock::take(&self.layout.lock(), command)?;
        own_dirs::prepare(&self.layout)?;
        Ok(lock)
    }

    /// Finishes or undoes restores that a killed decree left, and removes its temporary files. The caller holds the lock.
    pub fn finish_restores(
        &self,
        workspace: &Workspace,
        log: &dyn RestoreLog,
        lock: &Lock,
    ) -> Result<Vec<RecoveredRestore>> {
        if lock.follows_kill() {
            workspace.forget_cache();
        }
        let recovered = restore::recover(workspace.root(), &self.layout.scratch(), log)?;
        workspace.store().remove_stale();
        atomic::sweep(&self.layout.decree());
        for dir in [self.layout.checkpoints(), self.layout.runs()] {
            atomic::sweep(&dir);
            // There may be tens of thousands.
            let entries =
                lock.follows_kill().then(|| std::fs::read_dir(&dir).into_iter().flatten().flatten());
            for entry in entries.into_iter().flatten() {
                atomic::sweep(&entry.path());
            }
        }
        for dir in [self.layout.inbox(), self.layout.done(), self.layout.dead()] {
            atomic::sweep_among_others(&dir);
        }
        atomic::sweep_target(&self.layout.tracker());
        lock.note_swept();
        Ok(recovered)
    }

    /// Refuses a queue that leads elsewhere, before a message is written to it.
    pub fn check_queue(&self) -> Result<()> {
        own_dirs::check_queue(&self.layout)
    }

    /// Whether a killed decree left a restore that has to be finished or undone.
    pub fn has_unfinished_restore(&self) -> bool {
        restore::is_recovery_needed(&self.layout.scratch())
    }
}

/// Rejects a home directory or the root of the file system: a checkpoint of all of it is always a mistake.
pub fn refuse_home(root: &Path) -> Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    let kind = match root.parent() {
        None => "the root of the file system",
        Some(_) if home.as_deref() == Some(root) => "your home directory",
        Some(_) => return Ok(()),
    };
    Err(Error::project(format!("{} is {kind}: decree does not work on all of it", root.display()))
        .hint("create the project in a subdirectory"))
}
