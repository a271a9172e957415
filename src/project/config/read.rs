//! Parses a config file by the table of keys, and reports the first mistake with its line.

use std::collections::BTreeSet;
use std::path::Path;

use super::databases;
use super::keys::{KEYS, set_key};
use super::settings::Config;
use crate::error::{Error, IoContext, Result};
use crate::fs::untrusted;
use crate::project::layout::shown_in_project;
use crate::suggest::{closest, did_you_mean};
use crate::yaml::{self, Mistake, ScalarKind, YamlNode, YamlValue};

/// The section that names likely secrets.
const SENSITIVE: &str = "sensitive";

impl Config {
    /// Reads the file; a missing or empty one yields the defaults. A link to nothing is not missing: the settings that it stands for
    /// would be dropped.
    pub fn read(path: &Path) -> Result<Config> {
        if path.symlink_metadata().if_exists().at("read", path)?.is_none() {
            return Ok(Config::default());
        }
        untrusted::regular_file(path).map_err(|why| {
            Error::project(format!("{} cannot be read: {why}", shown_in_project(path).display()))
                .hint("put the config back, or remove what is there: `decree init` writes a new one")
        })?;
        let bytes = untrusted::read(path).at("read", path)?;
        let result = match std::str::from_utf8(&bytes) {
            Ok(text) => Config::parse(text),
            Err(error) => Err(Mistake::not_utf8(&bytes, error)),
        };
        result.map_err(|mistake| mistake.in_file(shown_in_project(path).display()))
    }

    /// The settings in a broken file that are valid; every other has its default. `sensitive` is searched for even in a file that is
    /// no YAML, because it decides which files are likely secrets.
    pub fn read_what_is_valid(path: &Path) -> Config {
        let mut config = Config::default();
        let bytes = untrusted::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let root = yaml::parse(text).or_else(|_| yaml::parse(&section_text(text, SENSITIVE)));
        if let Ok(YamlNode { value: YamlValue::Map(entries), .. }) = &root {
            for entry in entries {
                let mut with_it = config.clone();
                if read_section(std::slice::from_ref(entry), "", &mut with_it).is_ok() {
                    config = with_it;
                }
            }
        }
        config
    }

    /// Parses the text of a file. A key without a value has its default.
    pub fn parse(text: &str) -> Result<Config, Mistake> {
        let root = yaml::parse(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        let mut config = Config::default();
        let settings = match &root.value {
            YamlValue::Null => &[][..],
            YamlValue::Map(entries) => entries,
            _ => {
                let message = format!("must be a mapping of keys to values, not {}", root.describe());
                return Err(Mistake::new(root.line, message));
            }
        };
        read_section(settings, "", &mut config)?;
        Ok(config)
    }
}

/// The lines of a top-level section: from its key to the next line at the left margin.
fn section_text(text: &str, section: &str) -> String {
    let is_key = |line: &&str| line.strip_prefix(section).is_some_and(|rest| rest.starts_with(':'));
    let mut lines = text.lines().skip_while(|line| !is_key(line));
    let mut found: Vec<&str> = lines.next().into_iter().collect();
    found.extend(lines.take_while(|line| line.is_empty() || line.starts_with([' ', '\t', '#', '-'])));
    found.join("\n")
}

/// Parses the entries of a section (prefix `budget.`) or of the whole file (empty prefix).
fn read_section(entries: &[(YamlNode, YamlNode)], prefix: &str, config: &mut Config) -> Result<(), Mistake> {
    let mut seen = BTreeSet::new();
    for (key, value) in entries {
        let YamlValue::Scalar(ScalarKind::Text, word) = &key.value else {
            return Err(unknown(key, prefix, key.describe().trim_matches('\'')));
        };
        let name = format!("{prefix}{word}");
        if !seen.insert(word) {
            return Err(Mistake::new(key.line, format!("'{name}' is defined twice")));
        }
        if let Some((_, set)) = KEYS.iter().find(|(known, _)| *known == name && !word.contains('.')) {
            set_key((&name, *set), key, value, config)?;
        } else if prefix.is_empty() && word == databases::SECTION {
            databases::read(key, value, config)?;
        } else if prefix.is_empty() && sections().any(|section| section == word) {
            match &value.value {
                YamlValue::Null => {}
                YamlValue::Map(entries) => read_section(entries, &format!("{word}."), config)?,
                _ => {
                    let keys = names(&format!("{word}.")).join(", ");
                    let message = format!("'{name}' must be a mapping, not {}", value.describe());
                    return Err(Mistake::new(key.line, message).hint(format!("its keys: {keys}")));
                }
            }
        } else {
            return Err(unknown(key, prefix, word));
        }
    }
    Ok(())
}

fn unknown(key: &YamlNode, prefix: &str, word: &str) -> Mistake {
    let mistake = Mistake::new(key.line, format!("unknown key '{prefix}{word}'"));
    let here = names(prefix);
    if let Some(meant) = closest(word, here.iter().copied()) {
        return mistake.hint(did_you_mean(&format!("{prefix}{meant}")));
    }
    // A known key in the wrong section.
    let mut known = KEYS.iter().map(|(name, _)| *name);
    let elsewhere = known.find(|name| *name == word || name.rsplit('.').next() == Some(word));
    mistake.hint(match elsewhere.map(|name| (name, name.split_once('.'))) {
        Some((name, Some((section, last)))) if name == word => format!("write '{last}' below '{section}:'"),
        Some((name, None)) => format!("'{name}' is a top-level key: write it at the left margin"),
        Some((name, _)) => did_you_mean(name),
        None => format!("the keys here: {}", here.join(", ")),
    })
}

/// The keys below a prefix, and at the top level also the sections.
fn names(prefix: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (key, _) in KEYS {
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        let name = rest.split('.').next().unwrap_or(rest);
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    if prefix.is_empty() {
        names.push(databases::SECTION);
    }
    names
}

fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter_map(|(key, _)| key.split_once('.')).map(|(section, _)| section)
}

#[cfg(test)]
mod tests;
