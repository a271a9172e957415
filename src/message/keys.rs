//! The front matter keys that decree reads: the one table of their names, of where each may stand and of what its value must be.

use super::front_matter::Document;
use crate::project::TIME_EXAMPLES;
use crate::suggest::{did_you_mean, one_edit_away};
use crate::yaml::{Mistake, ScalarKind, YamlNode, YamlValue};

/// The text whose front matter is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Spec,
    Message,
}

/// A key that decree reads.
struct FrontMatterKey {
    name: &'static str,
    in_spec: bool,
    in_message: bool,
    value: ValueType,
}

/// What a value must be. An empty value is the same as a missing key.
#[derive(Clone, Copy)]
enum ValueType {
    /// Text that is not a number or a boolean.
    Text(&'static str),
    /// Text or a number.
    Scalar(&'static str),
    /// A number that fits a position in a chain, or text that is checked later.
    Seq,
    /// Written by decree.
    Any,
}

const fn key(name: &'static str, in_spec: bool, in_message: bool, value: ValueType) -> FrontMatterKey {
    FrontMatterKey { name, in_spec, in_message, value }
}

const KEYS: [FrontMatterKey; 10] = [
    key("id", false, true, ValueType::Text("an id such as '2025022514320000-0'")),
    key("chain", false, true, ValueType::Scalar("the 16 digits of a chain")),
    key("seq", false, true, ValueType::Seq),
    key("type", false, true, ValueType::Text("'spec' or 'task'")),
    key("input_file", false, true, ValueType::Text("a path")),
    key("routine", true, true, ValueType::Text("the name of a routine")),
    key("timeout", true, true, ValueType::Scalar(TIME_EXAMPLES)),
    key("verify", true, false, ValueType::Text("a command")),
    key("error", false, true, ValueType::Any),
    key("verdict", false, true, ValueType::Any),
];

/// Whether a spec's front matter takes the key.
pub fn is_spec_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.in_spec && key.name == name)
}

/// A typing mistake in a shorter key would be a guess.
const SHORTEST_KEY_MEANT: usize = 5;

/// A key that neither decree nor the routine reads.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownKey {
    pub name: String,
    /// The line in its file.
    pub line: usize,
    /// The key of decree's that it is one typing mistake away from.
    pub meant: Option<&'static str>,
}

fn known(kind: DocumentKind) -> impl Iterator<Item = &'static FrontMatterKey> {
    KEYS.iter().filter(move |key| match kind {
        DocumentKind::Spec => key.in_spec,
        DocumentKind::Message => key.in_message,
    })
}

/// Rejects a value that is not what its key takes.
pub fn check_values(document: &Document, kind: DocumentKind) -> Result<(), Mistake> {
    for (name, node) in &document.fields {
        if let Some(key) = known(kind).find(|key| key.name == name) {
            check_value(key, node)?;
        }
    }
    Ok(())
}

/// Rejects a list or a mapping for a parameter of the routine, which is text.
pub fn check_parameters(document: &Document, is_parameter: impl Fn(&str) -> bool) -> Result<(), Mistake> {
    let is_scalar = |node: &YamlNode| matches!(node.value, YamlValue::Null | YamlValue::Scalar(..));
    let bad = document.fields.iter().find(|(name, node)| is_parameter(name) && !is_scalar(node));
    bad.map_or(Ok(()), |(name, node)| {
        Err(must_be(name, "a single value: a parameter of a routine is text", node))
    })
}

/// The keys that neither decree nor the routine reads, in their order.
pub fn unknown_keys(
    document: &Document,
    kind: DocumentKind,
    is_parameter: impl Fn(&str) -> bool,
) -> Vec<UnknownKey> {
    let is_known = |name: &str| known(kind).any(|key| key.name == name) || is_parameter(name);
    let meant = |name: &str| {
        let long = known(kind).map(|key| key.name).filter(|key| key.len() >= SHORTEST_KEY_MEANT);
        one_edit_away(name, long)
    };
    let unknown = document.fields.iter().filter(|(name, _)| !is_known(name));
    unknown
        .map(|(name, node)| UnknownKey { name: name.clone(), line: node.line, meant: meant(name) })
        .collect()
}

/// Why a message cannot have this key, if it is one that only specs have: ignored, it would switch off what it stands for.
pub fn misplaced_key(name: &str) -> Option<String> {
    let is_of_specs = KEYS.iter().any(|key| key.name == name && !key.in_message);
    is_of_specs.then(|| {
        format!("'{name}' is not a key of messages; write it in a spec's front matter, or set {name} in .decree/config.yml")
    })
}

impl UnknownKey {
    /// `unknown key 'verfy'; did you mean 'verify'?`
    pub fn describe(&self) -> String {
        let hint = self.meant.map_or(String::new(), |meant| format!("; {}", did_you_mean(meant)));
        format!("unknown key '{}'{hint}", self.name)
    }
}

fn check_value(key: &FrontMatterKey, node: &YamlNode) -> Result<(), Mistake> {
    let name = key.name;
    match (&node.value, key.value) {
        (YamlValue::Null, _) | (_, ValueType::Any) => Ok(()),
        (YamlValue::Scalar(_, text), _) if text.contains('\0') => {
            Err(Mistake::new(node.line, format!("'{name}' must not contain a NUL")))
        }
        (YamlValue::Scalar(_, text), ValueType::Seq) => {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if is_number && text.parse::<u32>().is_err() {
                return Err(must_be(name, &format!("a whole number up to {}", u32::MAX), node));
            }
            Ok(())
        }
        (YamlValue::Scalar(ScalarKind::Text, _), ValueType::Text(_))
        | (YamlValue::Scalar(ScalarKind::Text | ScalarKind::Number, _), ValueType::Scalar(_)) => Ok(()),
        (YamlValue::Scalar(_, literal), ValueType::Text(expected)) => {
            let mistake = must_be(name, &format!("text, {expected}"), node);
            Err(mistake.hint(format!("put it in quotes if it is meant as text: \"{literal}\"")))
        }
        (_, ValueType::Text(expected)) => Err(must_be(name, &format!("text, {expected}"), node)),
        (_, ValueType::Scalar(expected)) => Err(must_be(name, expected, node)),
        (_, ValueType::Seq) => Err(must_be(name, "a whole number", node)),
    }
}

fn must_be(name: &str, expected: &str, node: &YamlNode) -> Mistake {
    Mistake::new(node.line, format!("'{name}' must be {expected}, not {}", node.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(&format!("---\n{text}\n---\n")).unwrap()
    }

    #[test]
    fn a_value_of_the_wrong_type_is_rejected_with_its_line() {
        for (text, line, why) in [
            ("a: 1\nverify: ['false']", 3, "'verify' must be text, a command, not a list"),
            ("verify:\n  - a", 2, "'verify' must be text, a command, not a list"),
            ("verify: true", 2, "'verify' must be text, a command, not 'true'"),
            ("routine: {a: b}", 2, "'routine' must be text, the name of a routine, not a mapping"),
            ("timeout: true", 2, &format!("'timeout' must be {TIME_EXAMPLES}, not 'true'")),
        ] {
            let mistake = check_values(&parse(text), DocumentKind::Spec).unwrap_err();
            assert_eq!((mistake.line, mistake.message.as_str()), (line, why), "{text}");
        }
        let mistake = check_values(&parse("seq: 99999999999999999999"), DocumentKind::Message).unwrap_err();
        assert!(mistake.message.starts_with("'seq' must be a whole number up to 4294967295"), "{mistake:?}");
        for text in ["verify:", "timeout: 30", "timeout: 1h", "routine: x", "seq: [1]", "other: [1]"] {
            assert_eq!(check_values(&parse(text), DocumentKind::Spec), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_one_edit_away_from_a_known_one_is_a_mistake() {
        let of = |text: &str| unknown_keys(&parse(text), DocumentKind::Spec, |name| name == "branch");
        for (text, meant) in [
            ("verfy: x", Some("verify")),
            ("Verify: x", Some("verify")),
            ("VERIFY: x", Some("verify")),
            ("veirfy: x", Some("verify")),
            ("rutine: x", Some("routine")),
            ("timeuot: x", Some("timeout")),
            ("time-out: x", Some("timeout")),
            ("priority: x", None),
            ("chains: x", None),
        ] {
            let found = of(text);
            assert_eq!((found.len(), found[0].meant, found[0].line), (1, meant, 2), "{text}");
        }
        assert_eq!(of("branch: x\nverify: y\nroutine: z\ntimeout: 1s"), []);
    }
}
