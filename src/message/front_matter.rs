//! A text with optional YAML front matter: a message or a spec.
//!
//! ```text
//! ---
//! routine: develop
//! target_branch: main
//! ---
//! What is to be done.
//! ```
//!
//! The body is never looked at and comes back byte for byte. Fields keep their order, and their text: a number that is not
//! written as a computer would (`1.10`, `0x1F`, `1e3`) is taken as text, since it is passed on as text.

use serde_yaml::{Mapping, Value};

use crate::yaml::{Mistake, Node, ScalarKind, Tree, Value as Parsed};

/// The fields that decree fills in and reads itself; any other is the routine's.
pub const STANDARD_KEYS: &[&str] = &["id", "chain", "seq", "type", "routine", "input_file"];

/// A text in its two parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The front matter; all keys are text.
    pub fields: Mapping,
    /// Everything after it.
    pub body: String,
}

impl Document {
    /// Takes a text apart. One that does not begin with a line `---` is all body.
    pub fn parse(text: &str) -> Result<Document, Mistake> {
        let Some(rest) = after_opening(text) else {
            return Ok(Document { fields: Mapping::new(), body: text.to_owned() });
        };
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            let next = end + line.len();
            if matches!(line.trim_end(), "---" | "...") {
                let fields = fields(&rest[..end])?;
                return Ok(Document { fields, body: rest[next..].to_owned() });
            }
            end = next;
        }
        Err(Mistake::new(1, "the front matter that begins here is not closed")
            .hint("end it with a line '---'; a text without front matter must not begin with one"))
    }

    /// The whole text.
    pub fn render(&self) -> String {
        if self.fields.is_empty() {
            // A body that looks like front matter must not become it.
            let opening = if after_opening(&self.body).is_some() { "---\n---\n" } else { "" };
            return format!("{opening}{}", self.body);
        }
        let yaml = serde_yaml::to_string(&self.fields).expect("keys are text and values came from YAML");
        format!("---\n{yaml}---\n{}", self.body)
    }

    /// A field as text; `None` if it is not there, empty, a list or a mapping.
    pub fn get_text(&self, key: &str) -> Option<String> {
        self.fields.get(key).and_then(text)
    }

    /// Takes a field away.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.fields.shift_remove(key)
    }

    /// Sees to it that a field says this; one that does, in whatever way it is written, stays as it is.
    pub fn fill(&mut self, key: &str, text: &str) {
        if self.get_text(key).as_deref() != Some(text) {
            let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
            let value = number.map_or_else(|| Value::String(text.to_owned()), Value::from);
            self.fields.insert(key.into(), value);
        }
    }

    /// Sets a field to a text; one that is there keeps its place.
    pub fn set(&mut self, key: &str, text: impl Into<String>) {
        self.fields.insert(key.into(), Value::String(text.into()));
    }
}

/// A value as text, numbers and truth values too; `None` for nothing, lists and mappings.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => None,
    }
}

/// What comes after the first line, if that is `---`. A byte order mark before it does not count.
fn after_opening(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    (first.trim_end() == "---").then_some(rest)
}

fn fields(yaml: &str) -> Result<Mapping, Mistake> {
    // The opening line is the first of the text.
    let shift = |mistake: Mistake| Mistake { line: mistake.line + 1, ..mistake };
    let tree = Tree::parse(yaml).map_err(shift)?;
    let here = |node: &Node, message: String| shift(Mistake::new(tree.line_of(node), message));
    let entries = match &tree.root.value {
        Parsed::Null => return Ok(Mapping::new()),
        Parsed::Map(entries) => entries,
        _ => {
            let message =
                format!("front matter must be a mapping of keys to values, not {}", tree.root.shown());
            return Err(here(&tree.root, message));
        }
    };
    let mut fields = Mapping::with_capacity(entries.len());
    for (key, value) in entries {
        let Parsed::Scalar(ScalarKind::Text, name) = &key.value else {
            return Err(here(key, format!("a key must be text, not {}", key.shown())));
        };
        let value = plain(value, &here)?;
        if fields.insert(Value::String(name.clone()), value).is_some() {
            return Err(here(key, format!("'{name}' is there twice")));
        }
    }
    Ok(fields)
}

/// The value that YAML would make of it, unless that would lose what was written.
fn plain(node: &Node, here: &impl Fn(&Node, String) -> Mistake) -> Result<Value, Mistake> {
    Ok(match &node.value {
        Parsed::Null => Value::Null,
        Parsed::Scalar(ScalarKind::Text, text) => Value::String(text.clone()),
        Parsed::Scalar(_, raw) => match serde_yaml::from_str(raw) {
            Ok(value) if text(&value).as_ref() == Some(raw) => value,
            _ => Value::String(raw.clone()),
        },
        Parsed::List(items) => {
            Value::Sequence(items.iter().map(|item| plain(item, here)).collect::<Result<_, _>>()?)
        }
        Parsed::Map(entries) => {
            let mut map = Mapping::with_capacity(entries.len());
            for (key, value) in entries {
                if map.insert(plain(key, here)?, plain(value, here)?).is_some() {
                    return Err(here(key, format!("{} is there twice", key.shown())));
                }
            }
            Value::Mapping(map)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Document {
        Document::parse(text).unwrap()
    }

    fn mistake(text: &str) -> (usize, String) {
        let mistake = Document::parse(text).unwrap_err();
        (mistake.line, mistake.message)
    }

    #[test]
    fn fields_and_body_are_told_apart() {
        let document = parse("---\nroutine: develop\nseq: 0\n---\nDo it.\n---\nmore\n");
        assert_eq!(document.get_text("routine").as_deref(), Some("develop"));
        assert_eq!(document.get_text("seq").as_deref(), Some("0"));
        assert_eq!(document.get_text("nothing"), None);
        assert_eq!(document.body, "Do it.\n---\nmore\n");
    }

    #[test]
    fn every_way_to_write_the_border_is_accepted() {
        for text in [
            "---\na: b\n---\nbody",
            "\u{feff}---\na: b\n---\nbody",
            "---\r\na: b\r\n---\r\nbody",
            "---  \na: b\n... \nbody",
        ] {
            let document = parse(text);
            assert_eq!(
                (document.get_text("a").as_deref(), document.body.as_str()),
                (Some("b"), "body"),
                "{text:?}"
            );
        }
        assert_eq!(parse("---\na: b\n---").body, "");
        assert_eq!(parse("---\na: |\n  ---\n  x\n---\n").get_text("a").as_deref(), Some("---\nx\n"));
    }

    #[test]
    fn a_text_without_front_matter_is_all_body() {
        for text in [
            "",
            "x",
            "# Title\n\n---\n\nmore\n",
            " ---\na: b\n---\n",
            "----\n",
            "\n---\na: b\n---\n",
            "\u{feff}x",
        ] {
            let document = parse(text);
            assert!(document.fields.is_empty() && document.body == text, "{text:?}");
            assert_eq!(document.render(), text);
        }
        for text in ["---\n---\nx", "---\n\n# nothing\n---\nx", "---\n~\n---\nx"] {
            let document = parse(text);
            assert!(document.fields.is_empty() && document.body == "x", "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_told_with_the_line_of_the_whole_text() {
        assert_eq!(mistake("---\na: b\n").0, 1);
        assert_eq!(mistake("---").1, "the front matter that begins here is not closed");
        assert_eq!(mistake("---\na: 1\nb: 2\na: 3\n---\n"), (4, "'a' is there twice".into()));
        assert_eq!(mistake("---\na: 1\n2: b\n---\n"), (3, "a key must be text, not '2'".into()));
        assert_eq!(
            mistake("---\n\n- a\n---\n"),
            (3, "front matter must be a mapping of keys to values, not a list".into())
        );
        assert_eq!(mistake("---\na: 1\nb: [1\nc: 2\n---\n").0, 3);
        assert_eq!(mistake("---\na: {b: 1, b: 2}\n---\n"), (2, "'b' is there twice".into()));
        assert_eq!(mistake("---\r\na: 1\r\na: 2\r\n---\r\n").0, 3);
        assert_eq!(mistake("---\n\tx: 1\n---\n").0, 2);
    }

    #[test]
    fn ids_stay_exact_and_versions_stay_versions() {
        let document = parse("---\nchain: 2025022514320000\nversion: 1.10\nhex: 0x1F\nyes: True\n---\n");
        let text = |key| document.get_text(key).unwrap();
        assert_eq!(text("chain"), "2025022514320000");
        assert_eq!(
            (text("version"), text("hex"), text("yes")),
            ("1.10".into(), "0x1F".into(), "True".into())
        );
        let again = parse(&document.render());
        assert_eq!(again.get_text("version").as_deref(), Some("1.10"));
        assert_eq!(again, document);

        let mut document = Document::default();
        document.set("chain", "2025022514320000");
        document.set("flag", "true");
        assert_eq!(document.render(), "---\nchain: '2025022514320000'\nflag: 'true'\n---\n");
        assert_eq!(parse(&document.render()), document);
    }

    #[test]
    fn a_field_that_is_set_again_keeps_its_place() {
        let mut document = parse("---\na: 1\nlist: [x, 2]\nb: 2\n---\nbody");
        document.set("a", "new");
        document.set("c", "end");
        assert_eq!(document.render(), "---\na: new\nlist:\n- x\n- 2\nb: 2\nc: end\n---\nbody");
    }

    #[test]
    fn a_field_that_says_it_already_stays_as_it_is_written() {
        let mut document = parse("---\nseq: '0'\nchain: 2025022514320000\n---\n");
        let before = document.clone();
        document.fill("seq", "0");
        document.fill("chain", "2025022514320000");
        assert_eq!(document, before);
        document.fill("seq", "1");
        document.fill("version", "007");
        assert_eq!(document.render(), "---\nseq: 1\nchain: 2025022514320000\nversion: '007'\n---\n");
    }

    #[test]
    fn a_body_that_looks_like_front_matter_stays_body() {
        let document = parse("---\n---\n---\na: b\n---\n");
        assert!(document.fields.is_empty());
        assert_eq!(parse(&document.render()), document);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(keys in prop::collection::vec("\\PC{1,12}|[a-z]{1,5}", 0..5), values in prop::collection::vec("(?s).{0,30}|[ \t\r\n:#'\"-]{0,8}|[0-9._eExXo+-]{1,8}|true|null|~|yes|---|", 5), body in "(?s).{0,60}|---\n.{0,9}") {
            let mut document = Document { body, ..Document::default() };
            for (key, value) in keys.iter().zip(values) {
                document.set(key, value);
            }
            let text = document.render();
            let again = Document::parse(&text);
            prop_assert_eq!(again.as_ref(), Ok(&document), "{}", text);
        }

        #[test]
        fn no_text_breaks_the_parser(text in "(---|\u{feff}|[a:b\\[\\]{}&*!|>'\"%@`#, \t\r\n-]|\\PC){0,40}") {
            if let Ok(document) = Document::parse(&text) {
                prop_assert_eq!(Document::parse(&document.render()), Ok(document));
            }
            if let Ok(document) = Document::parse(&format!("---\n{text}\n---\n")) {
                prop_assert_eq!(Document::parse(&document.render()), Ok(document));
            }
        }
    }
}
