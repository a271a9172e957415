//! `databases:` has names of the user's own below it, each with the same keys.

use std::collections::BTreeSet;

use super::keys::{BadValue, ValueResult, duration, filled, put};
use super::settings::{Config, Database};
use crate::suggest::{closest, did_you_mean};
use crate::yaml::{Mistake, ScalarKind, YamlNode, YamlValue};

/// The section.
pub(super) const SECTION: &str = "databases";
/// Longer names are sentences.
const LONGEST: usize = 64;

type Set = fn(&mut Database, &YamlNode) -> ValueResult<()>;

const KEYS: [(&str, Set); 4] = [
    ("save", |d, v| put(&mut d.save, filled(v))),
    ("restore", |d, v| put(&mut d.restore, filled(v))),
    ("fingerprint", |d, v| put(&mut d.fingerprint, filled(v))),
    ("timeout", |d, v| put(&mut d.timeout, duration(v))),
];

/// Takes the section.
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
                .hint("small letters, digits, '_' and '-'"));
        }
        let database = one(name, key, value)?;
        if config.databases.insert(name.clone(), database).is_some() {
            return Err(mistake(format!("'{SECTION}.{name}' is there twice")));
        }
    }
    Ok(())
}

/// Names are words on the command line and in the names of files.
fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    name.bytes().all(plain) && !name.is_empty() && !name.starts_with('-') && name.len() <= LONGEST
}

fn one(name: &str, place: &YamlNode, value: &YamlNode) -> Result<Database, Mistake> {
    let full = format!("{SECTION}.{name}");
    let words = KEYS.map(|(word, _)| word);
    let YamlValue::Map(entries) = &value.value else {
        let message = format!("'{full}' must be a mapping, not {}", value.describe());
        return Err(Mistake::new(place.line, message).hint(format!("its keys: {}", words.join(", "))));
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
            return Err(mistake(format!("'{full}.{word}' is there twice")));
        }
        if matches!(value.value, YamlValue::Null) {
            continue;
        }
        set(&mut database, value).map_err(|BadValue { reason, hint, .. }| Mistake {
            hint,
            ..mistake(format!("'{full}.{word}' {reason}"))
        })?;
    }
    for (word, command) in [("save", &database.save), ("restore", &database.restore)] {
        if command.is_empty() {
            let message = format!("'{full}' has no command '{word}'");
            let hint = "what is saved has to be brought back: both 'save' and 'restore' are needed";
            return Err(Mistake::new(place.line, message).hint(hint));
        }
    }
    Ok(database)
}
