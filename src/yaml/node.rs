//! The tree that a YAML text becomes.

use std::hash::{Hash, Hasher};

/// A value and the line in which it begins. Two nodes are equal if their values are, wherever they stand.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// Counted from one. The nodes of an alias have the lines of its anchor.
    pub line: usize,
    pub value: YamlValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum YamlValue {
    /// An empty value, `~` or `null`.
    Null,
    /// A scalar as it is written in the file, without quotes.
    Scalar(ScalarKind, String),
    List(Vec<YamlNode>),
    /// Keys and values in their order; a key may occur twice.
    Map(Vec<(YamlNode, YamlNode)>),
}

/// What YAML takes a scalar for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarKind {
    /// Quoted, or neither a number nor a boolean.
    Text,
    /// An integer or a float in any notation of YAML 1.2.
    Number,
    Bool,
}

impl PartialEq for YamlNode {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for YamlNode {}

impl Hash for YamlNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl YamlNode {
    /// How an error message names the value: a scalar in quotes, cut to one short line.
    pub fn describe(&self) -> String {
        match &self.value {
            YamlValue::Null => "nothing".into(),
            YamlValue::Scalar(_, text) => format!("'{}'", shorten(text)),
            YamlValue::List(_) => "a list".into(),
            YamlValue::Map(_) => "a mapping".into(),
        }
    }

    /// How many levels of lists and mappings there are, and about how many bytes a copy takes.
    pub(super) fn measure(&self) -> (usize, usize) {
        let below = |(height, bytes): (usize, usize), node: &YamlNode| {
            let (more_height, more_bytes) = node.measure();
            (height.max(more_height), bytes + more_bytes)
        };
        let (height, bytes) = match &self.value {
            YamlValue::Null => return (0, 64),
            YamlValue::Scalar(_, text) => return (0, 64 + text.len()),
            YamlValue::List(items) => items.iter().fold((0, 64), below),
            YamlValue::Map(entries) => {
                entries.iter().fold((0, 64), |sum, (key, value)| below(below(sum, key), value))
            }
        };
        (height + 1, bytes)
    }
}

impl YamlValue {
    /// A scalar as text, numbers and booleans too; `None` for an empty value, a list or a mapping.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            YamlValue::Scalar(_, text) => Some(text),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Map(_) => None,
        }
    }
}

/// One line of at most forty characters.
fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.trim_end().len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

/// What a plain scalar means, by the core schema of YAML 1.2.
pub(super) fn resolve(text: &str) -> YamlValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => YamlValue::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => {
            YamlValue::Scalar(ScalarKind::Bool, text.to_owned())
        }
        _ if is_number(text) => YamlValue::Scalar(ScalarKind::Number, text.to_owned()),
        _ => YamlValue::Scalar(ScalarKind::Text, text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = unsigned.strip_prefix(prefix) {
            return !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        }
    }
    match unsigned {
        ".inf" | ".Inf" | ".INF" => true,
        ".nan" | ".NaN" | ".NAN" => unsigned.len() == text.len(),
        // `parse` would accept a second sign.
        _ if unsigned.starts_with(['+', '-']) || has_leading_zero(text) => false,
        _ => unsigned.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

/// `007`: digits, but text to YAML 1.2. YAML 1.1 reads it as an octal number.
pub(super) fn has_leading_zero(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|byte| byte.is_ascii_digit())
}
