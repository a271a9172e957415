//! The parts of decree's own state that a snapshot can hold, by the words of `--scope`.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::history::own_files::Area;
use crate::suggest::{closest, did_you_mean};

/// The prefix of a variable of the environment.
const VARIABLE: &str = "env:";

/// Parts of decree's own files, and variables of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateKeys {
    pub areas: BTreeSet<Area>,
    pub variables: BTreeSet<String>,
}

impl StateKeys {
    /// Reads the words of `--scope`; none means all files and no variable.
    pub fn parse(words: &[String]) -> Result<StateKeys> {
        let mut keys = StateKeys::default();
        if words.is_empty() {
            keys.areas.extend(Area::STATE);
        }
        for word in words {
            if let Some(name) = word.strip_prefix(VARIABLE) {
                keys.variables.insert(variable(name)?);
                continue;
            }
            let Some(area) = Area::STATE.iter().find(|area| area.name() == word) else {
                return Err(unknown(word));
            };
            keys.areas.insert(*area);
        }
        Ok(keys)
    }

    /// Refuses a variable that is not set, as a path that does not exist is refused: it may be a typing mistake.
    pub fn refuse_unset(&self) -> Result<()> {
        let Some(unset) = self.variables.iter().find(|name| std::env::var_os(name).is_none()) else {
            return Ok(());
        };
        let names: Vec<String> =
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        let option = "`--allow-missing` accepts a variable that is set later";
        let hint = match closest(unset, names.iter().map(String::as_str)) {
            Some(name) => format!("{}; {option}", did_you_mean(&format!("{VARIABLE}{name}"))),
            None => option.to_owned(),
        };
        Err(Error::project(format!("scope '{VARIABLE}{unset}' matches nothing: the variable is not set"))
            .detail("no checkpoint was made")
            .hint(hint))
    }

    /// The words that [`StateKeys::parse`] reads.
    pub fn words(&self) -> Vec<String> {
        let variables = self.variables.iter().map(|name| format!("{VARIABLE}{name}"));
        self.areas.iter().map(|area| area.name().to_owned()).chain(variables).collect()
    }

    /// The words of this that `other` does not have.
    pub fn difference(&self, other: &StateKeys) -> Vec<String> {
        let more =
            StateKeys { areas: &self.areas - &other.areas, variables: &self.variables - &other.variables };
        more.words()
    }
}

fn variable(name: &str) -> Result<String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        return Ok(name.to_owned());
    }
    Err(Error::usage(format!("'{}' is not the name of an environment variable", name.escape_debug())))
}

fn unknown(word: &str) -> Error {
    let names: Vec<&str> = Area::STATE.iter().map(|area| area.name()).collect();
    let error = Error::usage(format!("a state snapshot has no part '{}'", word.escape_debug())).detail(
        format!("its parts are {}, and {VARIABLE}NAME for an environment variable", names.join(", ")),
    );
    match closest(word, names.iter().copied()) {
        Some(name) => error.hint(did_you_mean(name)),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<StateKeys> {
        StateKeys::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let all = parse(&[]).unwrap();
        assert_eq!(all.areas.len(), 5);
        assert_eq!(StateKeys::parse(&all.words()).unwrap(), all);
        let some = parse(&["dead", "env:MODE", "inbox"]).unwrap();
        assert_eq!(some.words(), ["inbox", "dead", "env:MODE"]);
        assert_eq!(some.difference(&all), ["env:MODE"]);
        for wrong in ["boxes", "env:", "env:A=B", "env:1", "", "../x"] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
