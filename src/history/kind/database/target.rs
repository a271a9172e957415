//! Which databases.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::project::{Config, Layout, Project};

/// One database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DatabaseTarget {
    /// An SQLite file, by its path from the project on.
    Sqlite(String),
    /// One of the config, by its name.
    Named(String),
}

/// Some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseTargets(pub BTreeSet<DatabaseTarget>);

impl DatabaseTarget {
    /// As people call it. A path has a slash in it, which a name of the config has not.
    pub fn word(&self) -> String {
        match self {
            DatabaseTarget::Sqlite(path) if path.contains('/') => path.clone(),
            DatabaseTarget::Sqlite(path) => format!("./{path}"),
            DatabaseTarget::Named(name) => name.clone(),
        }
    }

    /// Without what tells it from others.
    pub fn name(&self) -> &str {
        match self {
            DatabaseTarget::Sqlite(name) | DatabaseTarget::Named(name) => name,
        }
    }
}

impl DatabaseTargets {
    /// What somebody typed in `directory`: names of the config, and paths. Nothing typed means all that the config has.
    pub fn typed(words: &[String], project: &Project, directory: &Path) -> Result<DatabaseTargets> {
        let Project { layout, config } = project;
        if words.is_empty() && config.databases.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "which database?").hint(
                "`--scope data/app.db` for an SQLite file; `databases:` in .decree/config.yml has commands for others",
            ));
        }
        let all = config.databases.keys().map(|name| DatabaseTarget::Named(name.clone()));
        Ok(DatabaseTargets(match words.is_empty() {
            true => all.collect(),
            false => {
                words.iter().map(|word| target(word, layout, config, directory)).collect::<Result<_>>()?
            }
        }))
    }

    /// What [`DatabaseTarget::word`] wrote.
    pub fn stored(words: &[String]) -> DatabaseTargets {
        let target = |word: &String| match word.strip_prefix("./").or(word.contains('/').then_some(word)) {
            Some(path) => DatabaseTarget::Sqlite(path.to_owned()),
            None => DatabaseTarget::Named(word.clone()),
        };
        DatabaseTargets(words.iter().map(target).collect())
    }

    /// To be written down.
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(DatabaseTarget::word).collect()
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
        match names.is_empty() {
            true => error.hint("the path of an SQLite file, or a name below 'databases:' in the config"),
            false => {
                error.hint(format!("the config has {}; or give the path of an SQLite file", names.join(", ")))
            }
        }
    };
    if word.is_empty() || word.contains(['\n', '\0', '*', '?']) {
        return Err(wrong("it is no path"));
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
        .ok_or_else(|| wrong("it is no file's path in UTF-8"))?;
    if text == ".decree" || text.starts_with(".decree/") {
        return Err(wrong("it is decree's own"));
    }
    Ok(DatabaseTarget::Sqlite(text.to_owned()))
}

/// Where an SQLite file is. No part of the way there may be a link: it could lead out of the project.
pub(super) fn place(layout: &Layout, path: &str) -> Result<PathBuf> {
    let mut place = layout.root().to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => place.push(name),
            _ => {
                return Err(Error::integrity(format!("'{}' is no path in the project", path.escape_debug())));
            }
        }
        if fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink()) {
            return Err(Error::failed(format!("{} is a link: that is not followed", layout.shown(&place)))
                .hint("name the file itself, if it is in the project"));
        }
    }
    Ok(place)
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
        assert_eq!(targets.words(), ["./app.db", "data/app.db", "main"]);
        assert_eq!(DatabaseTargets::stored(&targets.words()), targets);
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("data")).unwrap();
        let layout = Layout::new(dir.path().to_owned());
        assert!(place(&layout, "data/app.db").is_err() && place(&layout, "../app.db").is_err());
        assert_eq!(place(&layout, "new/app.db").unwrap(), dir.path().join("new/app.db"));
    }
}
