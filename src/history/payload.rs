//! What a checkpoint is of: its type, what it was made for, and what proves that it holds that.
//!
//! These are plain values, as `checkpoint.json` has them. [`super::kind`] saves, verifies, restores and describes them.

mod databases;
mod state_keys;

pub use databases::{
    DatabaseState, DatabaseTarget, DatabaseTargets, SavedDatabase, combined_hash, parse_targets, sqlite_path,
};
pub use state_keys::StateKeys;

use serde::{Deserialize, Serialize};

use super::scope::Scope;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::git::stash::Stash;

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

/// What a checkpoint holds: what it was made for, and what its type needs to find and prove it.
#[derive(Clone, Debug)]
pub enum CheckpointPayload {
    /// The manifest is in the checkpoint's directory.
    Tree(Scope),
    /// The same, and an entry of git's.
    Stash(Scope, Stash),
    State {
        keys: StateKeys,
        /// The hash of [`CheckpointPayload::STATE_FILE`].
        sha256: String,
    },
    Databases(Vec<SavedDatabase>),
}

impl CheckpointPayload {
    /// The file of a state snapshot, in a checkpoint's directory.
    pub const STATE_FILE: &str = "state.json";

    pub fn kind(&self) -> CheckpointKind {
        match self {
            CheckpointPayload::Tree(_) => CheckpointKind::FileBackup,
            CheckpointPayload::Stash(..) => CheckpointKind::GitStash,
            CheckpointPayload::State { .. } => CheckpointKind::StateSnapshot,
            CheckpointPayload::Databases(_) => CheckpointKind::DatabaseSavepoint,
        }
    }

    /// What the checkpoint was made for, as words of `--scope`; none for all of the tree.
    pub fn scope(&self) -> Vec<String> {
        match self {
            CheckpointPayload::Tree(scope) | CheckpointPayload::Stash(scope, _) => scope.patterns().to_vec(),
            CheckpointPayload::State { keys, .. } => keys.words(),
            CheckpointPayload::Databases(list) => list.iter().map(|saved| saved.name.clone()).collect(),
        }
    }

    /// The part of the tree that it was made for.
    pub fn tree_scope(&self) -> Option<&Scope> {
        match self {
            CheckpointPayload::Tree(scope) | CheckpointPayload::Stash(scope, _) => Some(scope),
            CheckpointPayload::State { .. } | CheckpointPayload::Databases(_) => None,
        }
    }

    pub fn stash(&self) -> Option<&Stash> {
        match self {
            CheckpointPayload::Stash(_, stash) => Some(stash),
            CheckpointPayload::Tree(_)
            | CheckpointPayload::State { .. }
            | CheckpointPayload::Databases(_) => None,
        }
    }

    pub fn databases(&self) -> &[SavedDatabase] {
        match self {
            CheckpointPayload::Databases(list) => list,
            CheckpointPayload::Tree(_) | CheckpointPayload::Stash(..) | CheckpointPayload::State { .. } => {
                &[]
            }
        }
    }

    /// Whether it holds values of the environment, which only the shell that calls decree can restore.
    pub fn holds_environment(&self) -> bool {
        matches!(self, CheckpointPayload::State { keys, .. } if !keys.variables.is_empty())
    }

    /// The files in the checkpoint's directory that hold it.
    pub fn files(&self) -> Vec<String> {
        match self {
            CheckpointPayload::Tree(_) | CheckpointPayload::Stash(..) => {
                vec![CheckpointDir::MANIFEST.to_owned()]
            }
            CheckpointPayload::State { .. } => vec![CheckpointPayload::STATE_FILE.to_owned()],
            CheckpointPayload::Databases(list) => {
                let held = list.iter().enumerate().filter(|(_, saved)| saved.held != DatabaseState::Nothing);
                held.map(|(number, _)| SavedDatabase::file(number)).collect()
            }
        }
    }
}
