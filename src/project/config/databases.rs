//! Parses `databases:`, a mapping from names that the user chooses to the same set of keys.

use std::collections::BTreeSet;

use super::keys::{Set, assign, duration, non_empty, set_key};
use super::settings::{Config, Database};
use crate::suggest::{closest, did_you_mean};
use crate::yaml::{Mistake, ScalarKind, YamlNode, YamlValue};

pub(super) const SECTION: &str = "databases";
/// The maximum length of a name, which is also part of file names.
const MAX_NAME_BYTES: usize = 64;

const KEYS: [(&str, Set<Database>); 4] = [
    ("save", |d, v| assign(&mut d.save, non_empty(v))),
    ("restore", |d, v| assign(&mut d.restore, non_empty(v))),
    ("fingerprint", |d, v| assign(&mut d.fingerprint, non_empty(v))),
    ("timeout", |d, v| assign(&mut d.timeout, duration(v))),
];

pub(super) fn read(key: &YamlNode, value: &YamlNode, config: &mut Config) -> Result<(), Mistake> {
    let entries = match &value.value {
        YamlValue::Null => return Ok(()),
        YamlValue::Map(entries) => entries,
        _ => {
            let message = format!("'{SECTION}' must be a mapping, not {}", value.describe());
            return Err(Mistake::new(key.line, message).hint("its keys are names of databases"));
        }
    };
    for (key, value) in entries {
        let mistake = |message: String| Mistake::new(key.line, message);
        let YamlValue::Scalar(_, name) = &key.value else {
            return Err(mistake(format!("'{SECTION}' has a name that is {}", key.describe())));
        };
        if !is_name(name) {
            return Err(mistake(format!("{} is not a name for a database", key.describe()))
                .hint("lower-case letters, digits, '_' and '-'"));
        }
        let database = read_one(name, key, value)?;
        if config.databases.insert(name.clone(), database).is_some() {
            return Err(mistake(format!("'{SECTION}.{name}' is defined twice")));
        }
    }
    Ok(())
}

/// Names are arguments on the command line and parts of file names.
fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    name.bytes().all(plain) && !name.is_empty() && !name.starts_with('-') && name.len() <= MAX_NAME_BYTES
}

/// Parses the keys of one database; `name_node` is where mistakes about the whole entry are reported.
fn read_one(name: &str, name_node: &YamlNode, value: &YamlNode) -> Result<Database, Mistake> {
    let full = format!("{SECTION}.{name}");
    let words = KEYS.map(|(word, _)| word);
    let YamlValue::Map(entries) = &value.value else {
        let message = format!("'{full}' must be a mapping, not {}", value.describe());
        return Err(Mistake::new(name_node.line, message).hint(format!("its keys: {}", words.join(", "))));
    };
    let mut database = Database::default();
    let mut seen = BTreeSet::new();
    for (key, value) in entries {
        let mistake = |message: String| Mistake::new(key.line, message);
        let known = match &key.value {
            YamlValue::Scalar(ScalarKind::Text, word) => KEYS.iter().find(|(known, _)| known == word),
            _ => None,
        };
        let Some((word, set)) = known else {
            let word = key.describe().trim_matches('\'').to_owned();
            let hint = match closest(&word, words) {
                Some(meant) => did_you_mean(&format!("{full}.{meant}")),
                None => format!("the keys here: {}", words.join(", ")),
            };
            return Err(mistake(format!("unknown key '{full}.{word}'")).hint(hint));
        };
        if !seen.insert(word) {
            return Err(mistake(format!("'{full}.{word}' is defined twice")));
        }
        set_key((&format!("{full}.{word}"), *set), key, value, &mut database)?;
    }
    for (word, command) in [("save", &database.save), ("restore", &database.restore)] {
        if command.is_empty() {
            let message = format!("'{full}' has no command '{word}'");
            let hint = "both 'save' and 'restore' are needed, or a checkpoint could not be restored";
            return Err(Mistake::new(name_node.line, message).hint(hint));
        }
    }
    Ok(database)
}
