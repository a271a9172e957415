//! The databases that a savepoint can hold, by name or path, and what it holds of each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::DECREE_DIR;
use crate::database::commands::Dump;
use crate::database::sqlite;
use crate::error::{Error, Result};
use crate::history::scope::{ScopeWords, inner_path};
use crate::project::{Config, Layout};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatabaseTarget {
    /// An SQLite file, by its path relative to the project.
    Sqlite(String),
    /// A name below `databases:` in the config.
    Named(String),
}

pub type DatabaseTargets = BTreeSet<DatabaseTarget>;

impl DatabaseTarget {
    /// The word of `--scope` and `checkpoint.json`. A path has a slash in it, which a name of the config never has.
    pub fn word(&self) -> String {
        match self {
            DatabaseTarget::Sqlite(path) if path.contains('/') => path.clone(),
            DatabaseTarget::Sqlite(path) => format!("./{path}"),
            DatabaseTarget::Named(name) => name.clone(),
        }
    }

    pub fn from_record(word: &str) -> DatabaseTarget {
        match word.strip_prefix("./").or(word.contains('/').then_some(word)) {
            Some(path) => DatabaseTarget::Sqlite(path.to_owned()),
            None => DatabaseTarget::Named(word.to_owned()),
        }
    }

    /// The path or name alone, for messages.
    pub fn name(&self) -> &str {
        match self {
            DatabaseTarget::Sqlite(name) | DatabaseTarget::Named(name) => name,
        }
    }
}

/// Reads the words of `--scope`: names of the config, and paths. None means all of the config.
pub fn parse_targets(words: &ScopeWords, layout: &Layout, config: &Config) -> Result<DatabaseTargets> {
    if words.list.is_empty() && config.databases.is_empty() {
        return Err(Error::usage("no database is named").hint(
            "`--scope data/app.db` for an SQLite file; `databases:` in .decree/config.yml has commands for others",
        ));
    }
    if words.list.is_empty() {
        return Ok(config.databases.keys().map(|name| DatabaseTarget::Named(name.clone())).collect());
    }
    words.list.iter().map(|word| parse_target(word, layout, config, &words.directory)).collect()
}

fn parse_target(word: &str, layout: &Layout, config: &Config, directory: &Path) -> Result<DatabaseTarget> {
    if config.databases.contains_key(word) {
        return Ok(DatabaseTarget::Named(word.to_owned()));
    }
    let wrong = |why: &str| {
        let names: Vec<&str> = config.databases.keys().map(String::as_str).collect();
        let error = Error::usage(format!("'{}' cannot be a database: {why}", word.escape_debug()));
        if names.is_empty() {
            error.hint("give the path of an SQLite file, or a name below 'databases:' in the config")
        } else {
            error.hint(format!("the config has {}; or give the path of an SQLite file", names.join(", ")))
        }
    };
    if word.is_empty() || word.contains(['\n', '\0', '*', '?']) {
        return Err(wrong("it is not a path"));
    }
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let typed = directory.join(word);
    let inner = typed.strip_prefix(layout.root()).ok().and_then(inner_path);
    let inner = inner.ok_or_else(|| wrong("it is not in the project"))?;
    let text = inner
        .to_str()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| wrong("it is not the path of a file, in UTF-8"))?;
    if Path::new(text).starts_with(DECREE_DIR) {
        return Err(wrong("it is one of decree's own files"));
    }
    Ok(DatabaseTarget::Sqlite(text.to_owned()))
}

/// The path of an SQLite file. A link on the way is refused: it could lead out of the project.
pub fn sqlite_path(layout: &Layout, path: &str) -> Result<PathBuf> {
    let mut real = layout.root().to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => real.push(name),
            _ => {
                return Err(Error::integrity(format!(
                    "'{}' is not a path in the project",
                    path.escape_debug()
                )));
            }
        }
        if fs::symlink_metadata(&real).is_ok_and(|found| found.is_symlink()) {
            return Err(Error::failed(format!(
                "{} is a link, and links are not followed",
                layout.shown(&real)
            ))
            .hint("name the file that it leads to, if that is in the project"));
        }
    }
    Ok(real)
}

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
    /// The directory of the files, in a checkpoint's directory.
    pub const DIR: &str = "databases";

    /// The file of a savepoint's database, relative to the checkpoint's directory.
    pub fn file(number: usize) -> String {
        format!("{}/{number}", SavedDatabase::DIR)
    }

    pub fn target(&self) -> DatabaseTarget {
        DatabaseTarget::from_record(&self.name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let targets = [
            DatabaseTarget::Sqlite("app.db".into()),
            DatabaseTarget::Sqlite("data/app.db".into()),
            DatabaseTarget::Named("main".into()),
        ];
        let words = targets.clone().map(|target| target.word());
        assert_eq!(words, ["./app.db", "data/app.db", "main"]);
        assert_eq!(words.map(|word| DatabaseTarget::from_record(&word)), targets);
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("data")).unwrap();
        let layout = Layout::new(dir.path().to_owned());
        assert!(sqlite_path(&layout, "data/app.db").is_err() && sqlite_path(&layout, "../app.db").is_err());
        assert_eq!(sqlite_path(&layout, "new/app.db").unwrap(), dir.path().join("new/app.db"));
    }
}
