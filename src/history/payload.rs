//! What a checkpoint is of: its type, what it was made for, and what proves that it holds that.
//!
//! These are plain values, as `checkpoint.json` has them. [`super::kind`] saves, verifies, restores and describes them.

mod databases;
mod state_keys;

pub use databases::{
    DatabaseState, DatabaseTarget, DatabaseTargets, SavedDatabase, combined_hash, sqlite_path,
};
pub use state_keys::StateKeys;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::scope::{PathExists, Scope};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;
use crate::git::stash::Stash;
use crate::project::Project;

/// The type of a checkpoint: `--type`, and `type` in answers and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// The tree, in decree's own store
    #[default]
    FileBackup,
    /// The tree and git's index, with an entry in `git stash list`; neither is touched
    GitStash,
    /// decree's inbox, done and dead messages, tracker, config, and environment variables that --scope names
    StateSnapshot,
    /// SQLite files, copied while they are in use, and databases that the config has commands for
    DatabaseSavepoint,
}

impl CheckpointKind {
    /// The word that answers and records use.
    pub fn word(self) -> &'static str {
        match self {
            CheckpointKind::FileBackup => "file_backup",
            CheckpointKind::GitStash => "git_stash",
            CheckpointKind::StateSnapshot => "state_snapshot",
            CheckpointKind::DatabaseSavepoint => "database_savepoint",
        }
    }

    /// Whether it holds the tree, so that a diff with it can be made.
    pub fn holds_tree(self) -> bool {
        matches!(self, CheckpointKind::FileBackup | CheckpointKind::GitStash)
    }

    pub(super) fn is_file_backup(&self) -> bool {
        *self == CheckpointKind::FileBackup
    }
}

/// What to save, or to restore.
#[derive(Clone, Debug)]
pub enum CheckpointTarget {
    /// A checkpoint of the tree always holds all of it; the scope is what a rollback restores.
    Tree(Scope),
    /// The same, and git's index.
    Stash(Scope),
    State(StateKeys),
    Databases(DatabaseTargets),
}

impl CheckpointTarget {
    /// Reads the words of `--scope`, typed in `directory`; none means everything. `known` knows paths that no longer exist.
    pub fn typed(
        kind: CheckpointKind,
        words: &[String],
        project: &Project,
        directory: &Path,
        known: &PathExists<'_>,
    ) -> Result<CheckpointTarget> {
        let scope = || Scope::typed(words, project.layout.root(), directory, known);
        Ok(match kind {
            CheckpointKind::FileBackup => CheckpointTarget::Tree(scope()?),
            CheckpointKind::GitStash => CheckpointTarget::Stash(scope()?),
            CheckpointKind::StateSnapshot => CheckpointTarget::State(StateKeys::typed(words)?),
            CheckpointKind::DatabaseSavepoint => {
                CheckpointTarget::Databases(databases::typed_targets(words, project, directory)?)
            }
        })
    }
}

/// What a checkpoint holds: what it was made for, and what its type needs to find and prove it.
#[derive(Clone, Debug)]
pub enum CheckpointPayload {
    /// The manifest is in the checkpoint's directory.
    Tree(Scope),
    /// The same, and an entry of git's.
    Stash(Scope, Stash),
    State {
        keys: StateKeys,
        /// The hash of `state.json`.
        sha256: String,
    },
    Databases(Vec<SavedDatabase>),
}

impl CheckpointPayload {
    pub fn kind(&self) -> CheckpointKind {
        match self {
            CheckpointPayload::Tree(_) => CheckpointKind::FileBackup,
            CheckpointPayload::Stash(..) => CheckpointKind::GitStash,
            CheckpointPayload::State { .. } => CheckpointKind::StateSnapshot,
            CheckpointPayload::Databases(_) => CheckpointKind::DatabaseSavepoint,
        }
    }

    /// What the checkpoint was made for.
    pub fn target(&self) -> CheckpointTarget {
        match self {
            CheckpointPayload::Tree(scope) => CheckpointTarget::Tree(scope.clone()),
            CheckpointPayload::Stash(scope, _) => CheckpointTarget::Stash(scope.clone()),
            CheckpointPayload::State { keys, .. } => CheckpointTarget::State(keys.clone()),
            CheckpointPayload::Databases(list) => {
                CheckpointTarget::Databases(list.iter().map(SavedDatabase::target).collect())
            }
        }
    }

    /// The same as words of `--scope`; none for all of the tree.
    pub fn scope(&self) -> Vec<String> {
        match self {
            CheckpointPayload::Tree(scope) | CheckpointPayload::Stash(scope, _) => scope.patterns().to_vec(),
            CheckpointPayload::State { keys, .. } => keys.words(),
            CheckpointPayload::Databases(list) => list.iter().map(|saved| saved.name.clone()).collect(),
        }
    }

    pub fn stash(&self) -> Option<&Stash> {
        match self {
            CheckpointPayload::Stash(_, stash) => Some(stash),
            _ => None,
        }
    }

    pub fn databases(&self) -> &[SavedDatabase] {
        match self {
            CheckpointPayload::Databases(list) => list,
            _ => &[],
        }
    }

    /// The files in the checkpoint's directory that hold it.
    pub fn files(&self) -> Vec<String> {
        match self {
            CheckpointPayload::Tree(_) | CheckpointPayload::Stash(..) => {
                vec![CheckpointDir::MANIFEST.to_owned()]
            }
            CheckpointPayload::State { .. } => vec!["state.json".to_owned()],
            CheckpointPayload::Databases(list) => {
                let held = list.iter().enumerate().filter(|(_, saved)| saved.held != DatabaseState::Nothing);
                held.map(|(number, _)| SavedDatabase::file(number)).collect()
            }
        }
    }
}
