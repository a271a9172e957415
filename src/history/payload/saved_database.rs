//! What a savepoint holds of each database.

use serde::{Deserialize, Serialize};

use super::database_target::DatabaseTarget;
use crate::checkpoint::hash::ContentHash;
use crate::database::commands::Dump;
use crate::database::sqlite;

/// One database in a savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDatabase {
    /// The database, as [`DatabaseTarget::word`] writes it.
    pub name: String,
    pub held: DatabaseState,
}

/// What was saved of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseState {
    Sqlite(sqlite::DatabaseCopy),
    /// What a command from the config wrote.
    Dump(Dump),
    /// There was no file. Only a checkpoint that a rollback makes first has this.
    Nothing,
    /// There was a file, but not a database. Only a checkpoint that a rollback makes first has this.
    Bytes {
        bytes: u64,
        sha256: ContentHash,
        mode: u32,
    },
}

impl SavedDatabase {
    /// The file of a savepoint's database, relative to the checkpoint's directory.
    pub fn file(number: usize) -> String {
        format!("databases/{number}")
    }

    pub fn target(&self) -> DatabaseTarget {
        DatabaseTarget::stored(&self.name)
    }

    /// The size of its file.
    pub fn bytes(&self) -> u64 {
        match &self.held {
            DatabaseState::Sqlite(copy) => copy.bytes,
            DatabaseState::Dump(dump) => dump.bytes,
            DatabaseState::Bytes { bytes, .. } => *bytes,
            DatabaseState::Nothing => 0,
        }
    }

    /// The hash that the database has when its content is the saved one; `None` if there was no database.
    pub fn content(&self) -> Option<ContentHash> {
        match &self.held {
            DatabaseState::Sqlite(copy) => Some(copy.content),
            DatabaseState::Dump(dump) => dump.fingerprint,
            DatabaseState::Bytes { sha256, .. } => Some(*sha256),
            DatabaseState::Nothing => None,
        }
    }
}

/// The hash of several databases: of a line for each, in order.
pub fn combined_hash(contents: impl IntoIterator<Item = (String, Option<ContentHash>)>) -> ContentHash {
    let line = |(name, content): (String, Option<ContentHash>)| match content {
        Some(content) => format!("{content} {name}\n"),
        None => format!("absent {name}\n"),
    };
    ContentHash::of(contents.into_iter().map(line).collect::<String>().as_bytes())
}
