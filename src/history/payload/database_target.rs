//! The databases that a savepoint can hold, by name or path.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::project::{Config, Layout, Project};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatabaseTarget {
    /// An SQLite file, by its path relative to the project.
    Sqlite(String),
    /// A name below `databases:` in the config.
    Named(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseTargets(pub BTreeSet<DatabaseTarget>);

impl DatabaseTarget {
    /// The word of `--scope` and `checkpoint.json`. A path has a slash in it, which a name of the config never has.
    pub fn word(&self) -> String {
        match self {
            DatabaseTarget::Sqlite(path) if path.contains('/') => path.clone(),
            DatabaseTarget::Sqlite(path) => format!("./{path}"),
            DatabaseTarget::Named(name) => name.clone(),
        }
    }

    pub fn stored(word: &str) -> DatabaseTarget {
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

impl DatabaseTargets {
    /// Reads the words of `--scope`, typed in `directory`: names of the config, and paths. None means all of the config.
    pub fn typed(words: &[String], project: &Project, directory: &Path) -> Result<DatabaseTargets> {
        let Project { layout, config } = project;
        if words.is_empty() && config.databases.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "no database is named").hint(
                "`--scope data/app.db` for an SQLite file; `databases:` in .decree/config.yml has commands for others",
            ));
        }
        if words.is_empty() {
            return Ok(config.databases.keys().map(|name| DatabaseTarget::Named(name.clone())).collect());
        }
        words.iter().map(|word| target(word, layout, config, directory)).collect()
    }
}

impl FromIterator<DatabaseTarget> for DatabaseTargets {
    fn from_iter<T: IntoIterator<Item = DatabaseTarget>>(targets: T) -> Self {
        DatabaseTargets(targets.into_iter().collect())
    }
}

fn target(word: &str, layout: &Layout, config: &Config, directory: &Path) -> Result<DatabaseTarget> {
    if config.databases.contains_key(word) {
        return Ok(DatabaseTarget::Named(word.to_owned()));
    }
    let wrong = |why: &str| {
        let names: Vec<&str> = config.databases.keys().map(String::as_str).collect();
        let error =
            Error::new(ErrorKind::Usage, format!("'{}' cannot be a database: {why}", word.escape_debug()));
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
    let mut inner = PathBuf::new();
    let below = typed.strip_prefix(layout.root()).map_err(|_| wrong("it is not in the project"))?;
    for part in below.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            Component::CurDir => {}
            Component::ParentDir if inner.pop() => {}
            _ => return Err(wrong("it is not in the project")),
        }
    }
    let text = inner
        .to_str()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| wrong("it is not the path of a file, in UTF-8"))?;
    if text == ".decree" || text.starts_with(".decree/") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let targets = DatabaseTargets(
            [
                DatabaseTarget::Sqlite("app.db".into()),
                DatabaseTarget::Sqlite("data/app.db".into()),
                DatabaseTarget::Named("main".into()),
            ]
            .into(),
        );
        let words: Vec<String> = targets.0.iter().map(DatabaseTarget::word).collect();
        assert_eq!(words, ["./app.db", "data/app.db", "main"]);
        assert_eq!(
            words.iter().map(|word| DatabaseTarget::stored(word)).collect::<DatabaseTargets>(),
            targets
        );
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
