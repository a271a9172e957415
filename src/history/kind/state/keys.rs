//! The parts of decree's own state, by the names that people give them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::project::Layout;
use crate::suggest::{closest, did_you_mean};

/// Variables are named with this before them.
const VARIABLE: &str = "env:";

/// A part of decree's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Messages that wait.
    Inbox,
    /// Messages that were carried out.
    Done,
    /// Messages that could not be.
    Dead,
    /// What is processed.
    Tracker,
    /// The settings.
    Config,
}

impl Area {
    /// All there are.
    pub const ALL: [Area; 5] = [Area::Inbox, Area::Done, Area::Dead, Area::Tracker, Area::Config];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Area::Inbox => "inbox",
            Area::Done => "done",
            Area::Dead => "dead",
            Area::Tracker => "tracker",
            Area::Config => "config",
        }
    }

    /// The file that it is, or the directory whose files it is.
    pub fn path(self, layout: &Layout) -> PathBuf {
        match self {
            Area::Inbox => layout.inbox(),
            Area::Done => layout.done(),
            Area::Dead => layout.dead(),
            Area::Tracker => layout.tracker(),
            Area::Config => layout.config(),
        }
    }

    /// Whether it is files in a directory.
    pub fn is_dir(self) -> bool {
        matches!(self, Area::Inbox | Area::Done | Area::Dead)
    }

    /// The area that a path, relative to the project, belongs to: a file of exactly this name, or one directly in a directory.
    pub fn of(path: &[u8], layout: &Layout) -> Option<Area> {
        let path = layout.root().join(Path::new(OsStr::from_bytes(path)));
        // Nothing that leads anywhere else.
        let plain = path.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        let in_place = |area: &&Area| match area.is_dir() {
            true => path.parent() == Some(&area.path(layout)) && path.file_name().is_some(),
            false => path == area.path(layout),
        };
        Area::ALL.iter().filter(|_| plain).find(in_place).copied()
    }
}

/// Some parts, and some variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateKeys {
    /// Which files.
    pub areas: BTreeSet<Area>,
    /// Which variables.
    pub variables: BTreeSet<String>,
}

impl StateKeys {
    /// What somebody typed; nothing means all files and no variable.
    pub fn typed(words: &[String]) -> Result<StateKeys> {
        let mut keys = StateKeys::default();
        if words.is_empty() {
            keys.areas.extend(Area::ALL);
        }
        for word in words {
            if let Some(name) = word.strip_prefix(VARIABLE) {
                keys.variables.insert(variable(name)?);
                continue;
            }
            let Some(area) = Area::ALL.iter().find(|area| area.word() == word) else {
                return Err(unknown(word));
            };
            keys.areas.insert(*area);
        }
        Ok(keys)
    }

    /// The same, to be read again.
    pub fn words(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|name| format!("{VARIABLE}{name}"));
        self.areas.iter().map(|area| area.word().to_owned()).chain(variables).collect()
    }

    /// What of this another one has not.
    pub fn beyond(&self, other: &StateKeys) -> Vec<String> {
        let more =
            StateKeys { areas: &self.areas - &other.areas, variables: &self.variables - &other.variables };
        more.words()
    }
}

fn variable(name: &str) -> Result<String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => Ok(name.to_owned()),
        false => {
            Err(Error::new(ErrorKind::Usage, format!("'{}' is no name of a variable", name.escape_debug())))
        }
    }
}

fn unknown(word: &str) -> Error {
    let names: Vec<&str> = Area::ALL.iter().map(|area| area.word()).collect();
    let error = Error::new(ErrorKind::Usage, format!("a snapshot has no part '{}'", word.escape_debug()))
        .detail(format!("it has {}, and {VARIABLE}NAME for a variable of the environment", names.join(", ")));
    match closest(word, names.iter().copied()) {
        Some(name) => error.hint(did_you_mean(name)),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Result<StateKeys> {
        StateKeys::typed(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let all = typed(&[]).unwrap();
        assert_eq!(all.areas.len(), 5);
        assert_eq!(StateKeys::typed(&all.words()).unwrap(), all);
        let some = typed(&["dead", "env:MODE", "inbox"]).unwrap();
        assert_eq!(some.words(), ["inbox", "dead", "env:MODE"]);
        assert_eq!(some.beyond(&all), ["env:MODE"]);
        for wrong in ["boxes", "env:", "env:A=B", "env:1", "", "../x"] {
            assert!(typed(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_has_one_area_or_none() {
        let layout = Layout::new("/project".into());
        let area = |path: &str| Area::of(path.as_bytes(), &layout);
        assert_eq!(area(".decree/inbox/a.md"), Some(Area::Inbox));
        assert_eq!(area(".decree/inbox/done/a.md"), Some(Area::Done));
        assert_eq!(area(".decree/inbox/dead/a.md"), Some(Area::Dead));
        assert_eq!(area(".decree/config.yml"), Some(Area::Config));
        assert_eq!(area("specs/processed-spec.md"), Some(Area::Tracker));
        for other in [
            "",
            ".decree/inbox",
            ".decree/inbox/../lock",
            ".decree/lock",
            "src/a",
            "/etc/passwd",
            ".decree/inbox/x/y",
        ] {
            assert_eq!(area(other), None, "{other}");
        }
    }
}
