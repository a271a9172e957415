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
use super::scope::{Known, Scope};
use crate::error::Result;
use crate::project::Project;
use database::Targets;
use state::Keys;

/// By which means something is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Kind {
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

impl Kind {
    /// As answers and records have it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::FileBackup => "file_backup",
            Kind::GitStash => "git_stash",
            Kind::StateSnapshot => "state_snapshot",
            Kind::DatabaseSavepoint => "database_savepoint",
        }
    }

    /// Whether it holds the tree, so that a diff with it can be made.
    pub fn holds_tree(self) -> bool {
        matches!(self, Kind::FileBackup | Kind::GitStash)
    }

    pub(super) fn is_file_backup(&self) -> bool {
        *self == Kind::FileBackup
    }
}

/// What is to be saved, or put back, and by which means.
#[derive(Clone, Debug)]
pub enum Aim {
    /// A part of the tree.
    Tree(Scope),
    /// The same, and git's index.
    Stash(Scope),
    /// A part of decree's own state.
    State(Keys),
    /// Databases.
    Databases {
        /// Which.
        targets: Targets,
        /// Whatever is there, also if it is no database: something else takes its place.
        as_it_is: bool,
    },
}

impl Default for Aim {
    fn default() -> Self {
        Aim::Tree(Scope::default())
    }
}

impl Aim {
    /// What somebody typed in `directory`; nothing typed means all there is. `known` tells of paths that are not there any more.
    pub fn typed(
        kind: Kind,
        words: &[String],
        project: &Project,
        directory: &Path,
        known: &Known<'_>,
    ) -> Result<Aim> {
        let scope = || Scope::typed(words, project.layout.root(), directory, known);
        Ok(match kind {
            Kind::FileBackup => Aim::Tree(scope()?),
            Kind::GitStash => Aim::Stash(scope()?),
            Kind::StateSnapshot => Aim::State(Keys::typed(words)?),
            Kind::DatabaseSavepoint => {
                Aim::Databases { targets: Targets::typed(words, project, directory)?, as_it_is: false }
            }
        })
    }

    /// What a checkpoint was made for.
    pub fn stored(record: &CheckpointRecord) -> Result<Aim> {
        Ok(match record.kind {
            Kind::FileBackup => Aim::Tree(Scope::stored(record.scope.clone())),
            Kind::GitStash => Aim::Stash(Scope::stored(record.scope.clone())),
            Kind::StateSnapshot => Aim::State(Keys::typed(&record.scope)?),
            Kind::DatabaseSavepoint => {
                Aim::Databases { targets: Targets::stored(&record.scope), as_it_is: false }
            }
        })
    }

    /// By which means.
    pub fn kind(&self) -> Kind {
        match self {
            Aim::Tree(_) => Kind::FileBackup,
            Aim::Stash(_) => Kind::GitStash,
            Aim::State(_) => Kind::StateSnapshot,
            Aim::Databases { .. } => Kind::DatabaseSavepoint,
        }
    }

    /// To be written down.
    pub fn words(&self) -> Vec<String> {
        match self {
            Aim::Tree(scope) | Aim::Stash(scope) => scope.patterns().to_vec(),
            Aim::State(keys) => keys.words(),
            Aim::Databases { targets, .. } => targets.words(),
        }
    }
}
