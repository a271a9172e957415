//! The only place that knows what is where in `.decree/`.

use std::path::{Path, PathBuf};

/// Paths of a project.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// For the project at `root`.
    pub fn new(root: PathBuf) -> Self {
        Layout { root }
    }

    /// The project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// decree's own data.
    pub fn decree(&self) -> PathBuf {
        self.root.join(".decree")
    }

    /// The settings.
    pub fn config(&self) -> PathBuf {
        self.decree().join("config.yml")
    }

    /// What git shall not see of decree's own data.
    pub fn gitignore(&self) -> PathBuf {
        self.decree().join(".gitignore")
    }

    /// Held by the decree that is working here.
    pub fn lock(&self) -> PathBuf {
        self.decree().join("lock")
    }

    /// A directory a run.
    pub fn runs(&self) -> PathBuf {
        self.decree().join("runs")
    }

    /// A directory a checkpoint.
    pub fn checkpoints(&self) -> PathBuf {
        self.decree().join("checkpoints")
    }

    /// Work in progress; nothing in it outlives a command, but for the journal of one that was killed.
    pub fn scratch(&self) -> PathBuf {
        self.decree().join("tmp")
    }

    /// What is known of files. It belongs to this tree, so it stays even if the store is elsewhere and shared.
    pub fn stat_cache(&self) -> PathBuf {
        let store = self.decree().join("store");
        match self.store() == store {
            true => store.join("stat-cache"),
            false => self.decree().join("stat-cache"),
        }
    }

    /// Content; `DECREE_STORE` moves it.
    pub fn store(&self) -> PathBuf {
        match std::env::var_os("DECREE_STORE") {
            Some(path) if !path.is_empty() => self.root.join(path),
            _ => self.decree().join("store"),
        }
    }

    /// Whether the content is where this project alone puts it: not elsewhere, and not behind a link.
    pub fn owns_store(&self) -> bool {
        let own = self.decree().join("store");
        let is_plain = match (self.decree().canonicalize(), own.canonicalize()) {
            (Ok(decree), Ok(store)) => store == decree.join("store"),
            _ => own.symlink_metadata().is_err(),
        };
        self.store() == own && is_plain
    }

    /// The specs.
    pub fn specs(&self) -> PathBuf {
        self.root.join("specs")
    }

    /// What is processed already, one file name a line.
    pub fn tracker(&self) -> PathBuf {
        self.specs().join("processed-spec.md")
    }

    /// The project's own routines.
    pub fn routines(&self) -> PathBuf {
        self.decree().join("routines")
    }

    /// What is to be done at certain times.
    pub fn cron(&self) -> PathBuf {
        self.decree().join("cron")
    }

    /// Messages that wait.
    pub fn inbox(&self) -> PathBuf {
        self.decree().join("inbox")
    }

    /// Messages that were carried out.
    pub fn done(&self) -> PathBuf {
        self.inbox().join("done")
    }

    /// Messages that could not be.
    pub fn dead(&self) -> PathBuf {
        self.inbox().join("dead")
    }

    /// The run that is under way, while one is.
    pub fn running(&self) -> PathBuf {
        self.decree().join("running.json")
    }

    /// A rollback of decree's own state that has begun.
    pub fn pending(&self) -> PathBuf {
        self.decree().join("rolling-back.json")
    }

    /// The command that is being guarded, while one is.
    pub fn guarding(&self) -> PathBuf {
        self.decree().join("guarding.json")
    }

    /// What the last command did.
    pub fn summary(&self) -> PathBuf {
        self.decree().join("summary.json")
    }

    /// What was put back, brought back or deleted.
    pub fn audit(&self) -> PathBuf {
        self.decree().join("audit.jsonl")
    }

    /// Python for notebooks; `DECREE_VENV` moves it.
    pub fn venv(&self) -> PathBuf {
        match std::env::var_os("DECREE_VENV") {
            Some(path) if !path.is_empty() => self.root.join(path),
            _ => self.own_venv(),
        }
    }

    /// Python for notebooks, where decree makes it if nobody says otherwise.
    pub fn own_venv(&self) -> PathBuf {
        self.decree().join("venv")
    }

    /// A path as people know it: relative to the project.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}
