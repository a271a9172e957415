//! What a checkpoint can be of. Each kind knows how to save, to check, and to go back:
//!
//! - [`tree`]: the tree, in decree's own store
//! - [`stash`]: the tree, and beside it an entry that plain git can restore
//! - [`state`]: decree's own queue and settings, and named values of the environment
//! - [`database`]: databases, each by its own means

pub mod database;
pub mod stash;
pub mod state;
pub mod tree;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::record::CheckpointRecord;
use super::scope::{PathExists, Scope};
use crate::error::Result;
use crate::project::Project;
use database::DatabaseTargets;
use state::StateKeys;

/// By which means something is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// The tree, in decree's own store
    #[default]
    FileBackup,
    /// The tree and git's index; besides an entry of `git stash list`, made without touching anything
    GitStash,
    /// decree's inbox, done and dead letters, tracker, config, and environment values that --scope names
    StateSnapshot,
    /// SQLite files, copied while they are in use, and databases that the config has commands for
    DatabaseSavepoint,
}

impl CheckpointKind {
    /// As answers and records have it.
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

/// What is to be saved, or put back, and by which means.
#[derive(Clone, Debug)]
pub enum CheckpointTarget {
    /// A part of the tree.
    Tree(Scope),
    /// The same, and git's index.
    Stash(Scope),
    /// A part of decree's own state.
    State(StateKeys),
    /// Databases.
    Databases {
        /// Which.
        targets: DatabaseTargets,
        /// Whatever is there, also if it is no database: something else takes its place.
        as_it_is: bool,
    },
}

impl Default for CheckpointTarget {
    fn default() -> Self {
        CheckpointTarget::Tree(Scope::default())
    }
}

impl CheckpointTarget {
    /// What somebody typed in `directory`; nothing typed means all there is. `known` tells of paths that are not there any more.
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
            CheckpointKind::DatabaseSavepoint => CheckpointTarget::Databases {
                targets: DatabaseTargets::typed(words, project, directory)?,
                as_it_is: false,
            },
        })
    }

    /// What a checkpoint was made for.
    pub fn stored(record: &CheckpointRecord) -> Result<CheckpointTarget> {
        Ok(match record.kind {
            CheckpointKind::FileBackup => CheckpointTarget::Tree(Scope::stored(record.scope.clone())),
            CheckpointKind::GitStash => CheckpointTarget::Stash(Scope::stored(record.scope.clone())),
            CheckpointKind::StateSnapshot => CheckpointTarget::State(StateKeys::typed(&record.scope)?),
            CheckpointKind::DatabaseSavepoint => CheckpointTarget::Databases {
                targets: DatabaseTargets::stored(&record.scope),
                as_it_is: false,
            },
        })
    }

    /// By which means.
    pub fn kind(&self) -> CheckpointKind {
        match self {
            CheckpointTarget::Tree(_) => CheckpointKind::FileBackup,
            CheckpointTarget::Stash(_) => CheckpointKind::GitStash,
            CheckpointTarget::State(_) => CheckpointKind::StateSnapshot,
            CheckpointTarget::Databases { .. } => CheckpointKind::DatabaseSavepoint,
        }
    }

    /// To be written down.
    pub fn words(&self) -> Vec<String> {
        match self {
            CheckpointTarget::Tree(scope) | CheckpointTarget::Stash(scope) => scope.patterns().to_vec(),
            CheckpointTarget::State(keys) => keys.words(),
            CheckpointTarget::Databases { targets, .. } => targets.words(),
        }
    }
}
