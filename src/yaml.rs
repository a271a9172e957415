//! YAML that knows its lines.
//!
//! `serde_yaml` tells where an error is, but not where a value is. So a value's place is asked for by parsing once more
//! and failing on purpose at that very value. It costs a second parse, but only when there is something to complain about,
//! and the line is right for every way of writing YAML.
//!
//! Scalars keep the text as it stands in the file: `1.10` is a number to YAML, but a version to whoever wrote it.

mod emit;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::error::Error;

pub use emit::emit;

/// What is wrong with a text, and in which of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from one.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Mistake {
    /// A mistake in a line.
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        Mistake { line, message: message.into(), hint: None }
    }

    /// Says what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// For bytes that are no text.
    pub fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> Self {
        let before = &bytes[..error.valid_up_to()];
        Mistake::new(memchr::memchr_iter(b'\n', before).count() + 1, "not UTF-8")
    }

    /// The error for the user: `file:line: message`.
    pub fn in_file(self, file: impl fmt::Display) -> Error {
        let error = Error::project(format!("{file}:{}: {}", self.line, self.message));
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// A parsed text.
#[derive(Debug)]
pub struct Tree<'a> {
    text: &'a str,
    /// What it says; [`Value::Null`] if it is empty.
    pub root: Node,
}

/// A value and its place.
#[derive(Debug)]
pub struct Node {
    /// Counted in the order of the text.
    id: usize,
    /// What it is.
    pub value: Value,
}

/// What a node is. Numbers and truth values are the text that stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// Text, quoted or not.
    Text,
    /// A whole number or a fraction.
    Number,
    /// `true` or `false`.
    Bool,
}

/// A value.
#[derive(Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// One word, number or text.
    Scalar(ScalarKind, String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values in their order; a key may be there twice.
    Map(Vec<(Node, Node)>),
}

impl<'a> Tree<'a> {
    /// Parses; the mistake is YAML's own.
    pub fn parse(text: &'a str) -> Result<Self, Mistake> {
        let mut first = Pass::default();
        let root = first.run(text)?;
        if !first.literal.contains(&true) {
            return Ok(Tree { text, root });
        }
        // Once more, with numbers and truth values as text.
        let mut second = Pass { as_text: first.literal, ..Pass::default() };
        Ok(Tree { text, root: second.run(text)? })
    }

    /// The line in which a node begins.
    pub fn line_of(&self, node: &Node) -> usize {
        let mut pass = Pass { stop_at: Some(node.id), ..Pass::default() };
        pass.run(self.text).err().map_or(1, |mistake| mistake.line)
    }
}

impl Node {
    /// How the value is called in an error.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Scalar(_, text) => format!("'{}'", shorten(text)),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
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

/// A text may not become larger than this by repeating itself through aliases.
const BUDGET: usize = 16 << 20;

/// Beyond this a text is no longer settings.
pub const MAX_TEXT: usize = 1 << 20;

/// The parser takes 128 levels, but looks at all of them first, in quadratic time.
const MAX_OPEN: usize = 256;

#[derive(Default)]
struct Pass {
    next: usize,
    spent: usize,
    /// By node: whether it is a number or a truth value.
    literal: Vec<bool>,
    /// By node: whether to take it as text, since an earlier pass found it to be a literal.
    as_text: Vec<bool>,
    /// Fail here, to learn the line.
    stop_at: Option<usize>,
}

impl Pass {
    fn run(&mut self, text: &str) -> Result<Node, Mistake> {
        if text.len() > MAX_TEXT {
            return Err(Mistake::new(1, format!("more than {} KiB of YAML", MAX_TEXT >> 10)));
        }
        if let Some(line) = too_deep(text) {
            return Err(Mistake::new(line, "not valid YAML: nested too deeply"));
        }
        Seed(self)
            .deserialize(serde_yaml::Deserializer::from_str(text))
            .map_err(|error| mistake(&error, text))
    }

    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.spent = self.spent.saturating_add(bytes);
        match self.spent > BUDGET {
            true => Err(E::custom("it repeats itself too often")),
            false => Ok(()),
        }
    }
}

/// The line with more open brackets than any real text has, quoted or not.
fn too_deep(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let mut brackets = text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'[' | b'{' | b']' | b'}'));
    let (at, _) = brackets.find(|(_, byte)| {
        let opens = matches!(byte, b'[' | b'{');
        open = if opens { open + 1 } else { open.saturating_sub(1) };
        open > MAX_OPEN
    })?;
    Some(text[..at].matches('\n').count() + 1)
}

/// YAML's own errors in our words. Its places are in the text of the message too.
fn mistake(error: &serde_yaml::Error, text: &str) -> Mistake {
    let full = error.to_string();
    let message = full.split(" at line ").next().unwrap_or(&full);
    // What is never closed is noticed at the end of the text, but has to be mended where it begins.
    if let Some((what, line)) = unclosed(&full) {
        return Mistake::new(line, format!("not valid YAML: {message} for the {what} that begins here"));
    }
    let line = error.location().map_or(1, |place| place.line());
    let found = Mistake::new(line, format!("not valid YAML: {message}"));
    let blamed = text.lines().nth(line - 1).unwrap_or_default();
    let indent = &blamed[..blamed.len() - blamed.trim_start().len()];
    match indent.contains('\t') {
        true => found.hint("YAML is indented with spaces, not with tabs"),
        false => found,
    }
}

/// `…, while parsing a flow sequence at line 2 column 4`
fn unclosed(message: &str) -> Option<(&'static str, usize)> {
    let known = ["flow sequence", "flow mapping", "quoted scalar"];
    let (what, rest) = known.iter().find_map(|what| {
        let (_, rest) = message.split_once(&format!(" a {what} at line "))?;
        Some((*what, rest))
    })?;
    Some((what, rest.split(' ').next()?.parse().ok()?))
}

struct Seed<'p>(&'p mut Pass);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let pass = self.0;
        let id = pass.next;
        pass.next += 1;
        pass.literal.push(false);
        let literal = pass.as_text.get(id) == Some(&true);
        let visitor = NodeVisitor { pass, id, literal };
        if literal { deserializer.deserialize_str(visitor) } else { deserializer.deserialize_any(visitor) }
    }
}

struct NodeVisitor<'p> {
    pass: &'p mut Pass,
    id: usize,
    literal: bool,
}

impl NodeVisitor<'_> {
    fn enter<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        if self.pass.stop_at == Some(self.id) {
            return Err(E::custom("here"));
        }
        self.pass.spend(bytes + 64)
    }

    fn literal<E: serde::de::Error>(mut self, kind: ScalarKind, text: String) -> Result<Node, E> {
        self.enter(text.len())?;
        self.pass.literal[self.id] = true;
        Ok(Node { id: self.id, value: Value::Scalar(kind, text) })
    }
}

impl<'de> Visitor<'de> for NodeVisitor<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML without tags")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Node, E> {
        self.literal(ScalarKind::Bool, value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Node, E> {
        self.literal(ScalarKind::Number, value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Node, E> {
        self.literal(ScalarKind::Number, value.to_string())
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Node, E> {
        self.literal(ScalarKind::Number, value.to_string())
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Node, E> {
        self.literal(ScalarKind::Number, value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        self.literal(ScalarKind::Number, value.to_string())
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Node, E> {
        self.enter(text.len())?;
        let kind = match self.literal {
            true if matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") => {
                ScalarKind::Bool
            }
            true => ScalarKind::Number,
            false => ScalarKind::Text,
        };
        Ok(Node { id: self.id, value: Value::Scalar(kind, text.to_owned()) })
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<Node, E> {
        self.enter(0)?;
        Ok(Node { id: self.id, value: Value::Null })
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Node, A::Error> {
        self.enter(0)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Seed(self.pass))? {
            items.push(item);
        }
        Ok(Node { id: self.id, value: Value::List(items) })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Node, A::Error> {
        self.enter(0)?;
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(Seed(self.pass))? {
            entries.push((key, map.next_value_seed(Seed(self.pass))?));
        }
        Ok(Node { id: self.id, value: Value::Map(entries) })
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(A::Error::custom("tags like `!this` have no meaning here"))
    }
}

#[cfg(test)]
mod tests;
