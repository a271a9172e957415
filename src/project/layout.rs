//! The paths of a project. No other module spells a path in `.decree/`.

use std::path::{Path, PathBuf};

use crate::checkpoint::path::{DECREE_DIR, TRACKER};

#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The names of the directories of letters in the inbox.
    pub const DONE: &str = "done";
    pub const DEAD: &str = "dead";

    /// The names of the runs' directory and of the summary, in decree's directory and in an artifact.
    pub const RUNS: &str = "runs";
    pub const SUMMARY: &str = "summary.json";

    pub fn new(root: PathBuf) -> Self {
        Layout { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of decree's own files.
    pub fn decree(&self) -> PathBuf {
        self.root.join(DECREE_DIR)
    }

    pub fn config(&self) -> PathBuf {
        self.decree().join("config.yml")
    }

    /// Keeps decree's own data out of git.
    pub fn gitignore(&self) -> PathBuf {
        self.decree().join(".gitignore")
    }

    /// Locked by the decree that works in this project.
    pub fn lock(&self) -> PathBuf {
        self.decree().join("lock")
    }

    /// Contains one directory per run.
    pub fn runs(&self) -> PathBuf {
        self.decree().join(Self::RUNS)
    }

    /// Contains one directory per checkpoint.
    pub fn checkpoints(&self) -> PathBuf {
        self.decree().join("checkpoints")
    }

    /// Second names of git's objects while a routine or a guarded command runs.
    pub fn git_objects(&self) -> PathBuf {
        self.decree().join("git-objects")
    }

    /// Second names of files in the tree that decree's output is redirected to, while a routine or a guarded command runs.
    pub fn outputs(&self) -> PathBuf {
        self.decree().join("outputs")
    }

    /// Temporary files. Nothing in it outlives a command, except for the journal of a killed one.
    pub fn scratch(&self) -> PathBuf {
        self.decree().join("tmp")
    }

    /// The cache of file hashes. It belongs to this tree, so it stays here even if the store is elsewhere and shared.
    pub fn stat_cache(&self) -> PathBuf {
        let store = self.own_store();
        if self.store() == store { store.join("stat-cache") } else { self.decree().join("stat-cache") }
    }

    /// File contents by hash; `DECREE_STORE` sets another directory.
    pub fn store(&self) -> PathBuf {
        match std::env::var_os("DECREE_STORE") {
            Some(path) if !path.is_empty() => self.root.join(path),
            _ => self.own_store(),
        }
    }

    /// The store of the project that has this file directly in its `.decree/`.
    pub fn store_beside(file: &Path) -> PathBuf {
        let root = file.parent().and_then(Path::parent).unwrap_or(Path::new(""));
        Layout::new(root.to_owned()).store()
    }

    /// The directory that `DECREE_STORE` names, if that is not the store that decree uses by default.
    pub fn named_store(&self) -> Option<PathBuf> {
        let store = self.store();
        (store != self.own_store()).then(|| store.canonicalize().unwrap_or(store))
    }

    /// The store that decree uses by default.
    pub fn own_store(&self) -> PathBuf {
        self.decree().join("store")
    }

    /// Whether the store belongs to this project alone: it is not elsewhere, and not behind a link.
    pub fn owns_store(&self) -> bool {
        let own = self.own_store();
        let is_real = match (self.decree().canonicalize(), own.canonicalize()) {
            (Ok(decree), Ok(store)) => store == decree.join("store"),
            _ => own.symlink_metadata().is_err(),
        };
        self.store() == own && is_real
    }

    pub fn specs(&self) -> PathBuf {
        self.root.join("specs")
    }

    /// The list of processed specs, one file name per line.
    pub fn tracker(&self) -> PathBuf {
        self.root.join(TRACKER)
    }

    /// The project's own routines, which have priority over shared ones.
    pub fn routines(&self) -> PathBuf {
        self.decree().join("routines")
    }

    /// Messages that are due at certain times.
    pub fn cron(&self) -> PathBuf {
        self.decree().join("cron")
    }

    /// Messages that wait to be carried out.
    pub fn inbox(&self) -> PathBuf {
        self.decree().join("inbox")
    }

    /// The names of the messages that wait, if they are many.
    pub fn waiting_list(&self) -> PathBuf {
        self.decree().join("waiting.json")
    }

    /// Second names of the messages that wait, which outlive a deleted inbox.
    pub fn waiting(&self) -> PathBuf {
        self.decree().join("waiting")
    }

    /// The same for the letters in `dead/`.
    pub fn waiting_dead(&self) -> PathBuf {
        self.waiting().join(Self::DEAD)
    }

    /// The same for the letters in `done/`.
    pub fn waiting_done(&self) -> PathBuf {
        self.waiting().join(Self::DONE)
    }

    /// Messages that were carried out.
    pub fn done(&self) -> PathBuf {
        self.inbox().join(Self::DONE)
    }

    /// Messages that could not be carried out.
    pub fn dead(&self) -> PathBuf {
        self.inbox().join(Self::DEAD)
    }

    /// Exists while a run is active.
    pub fn running(&self) -> PathBuf {
        self.decree().join("running.json")
    }

    /// Its time says when the last process of a run ended whose decree was killed.
    pub fn run_ended(&self) -> PathBuf {
        self.decree().join("run-ended")
    }

    /// Exists while a rollback of decree's own state is unfinished.
    pub fn pending(&self) -> PathBuf {
        self.decree().join("rolling-back.json")
    }

    /// Exists while a command runs under `decree guard`.
    pub fn guarding(&self) -> PathBuf {
        self.decree().join("guarding.json")
    }

    /// What is known of likely secrets and of settings in `.git`, while a run or a guarded command is not settled.
    pub fn held(&self) -> PathBuf {
        self.decree().join("held.json")
    }

    /// Exists while git's own state is still to be restored.
    pub fn git_pending(&self) -> PathBuf {
        self.decree().join("git-pending.json")
    }

    /// What [`Layout::guarding`] is renamed to if the rollback fails.
    pub fn guard_failed(&self) -> PathBuf {
        self.decree().join("guard-failed.json")
    }

    /// The summary of the last `process` or `run`.
    pub fn summary(&self) -> PathBuf {
        self.decree().join(Self::SUMMARY)
    }

    /// One audit entry per revert, rollback, apply or deletion.
    pub fn audit(&self) -> PathBuf {
        self.decree().join("audit.jsonl")
    }

    /// The Python environment for notebooks; `DECREE_VENV` sets another directory.
    pub fn venv(&self) -> PathBuf {
        match std::env::var_os("DECREE_VENV") {
            Some(path) if !path.is_empty() => self.root.join(path),
            _ => self.own_venv(),
        }
    }

    /// The Python environment that decree creates by default.
    pub fn own_venv(&self) -> PathBuf {
        self.decree().join("venv")
    }

    /// A path for messages: relative to the project.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// A path as messages show it: from `.decree` on, without the directories above.
pub fn shown_in_project(path: &Path) -> PathBuf {
    let decree = path.ancestors().find(|dir| dir.ends_with(DECREE_DIR));
    let above = decree.and_then(Path::parent).unwrap_or(Path::new(""));
    path.strip_prefix(above).unwrap_or(path).to_owned()
}
