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
//! Blank lines may come before it. After them `---` may also be a Markdown line, so that there a block is front matter only if it is
//! closed and is a mapping, or begins like one.
//!
//! The body is never interpreted and is written back byte for byte. Fields keep their order, and their text: a number
//! that is not in its shortest form (`1.10`, `0x1F`, `1e3`) is taken as text, since it is passed on as text.

use std::collections::HashSet;

use crate::yaml::{self, Mistake, ScalarKind, YamlNode, YamlValue};

/// Front matter and body of a message or a spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The front matter in its order; no key occurs twice. The line of a field that was parsed is that of its key in the text.
    pub fields: Vec<(String, YamlNode)>,
    /// Everything after the front matter.
    pub body: String,
}

impl Document {
    /// Splits a text. One whose first line that is not blank is not `---` is all body.
    pub fn parse(text: &str) -> Result<Document, Mistake> {
        let all_body = || Ok(Document { fields: Vec::new(), body: text.to_owned() });
        let Some((opening, rest)) = after_opening(text) else { return all_body() };
        let is_first = opening == 1;
        let Some((block, body)) = until_closing(rest) else {
            if !is_first {
                return all_body();
            }
            return Err(Mistake::new(1, "the front matter that begins here is not closed")
                .hint("end it with a line '---'; a text without front matter must not begin with one"));
        };
        match parse_fields(block, opening) {
            Ok(fields) if is_first || !fields.is_empty() => Ok(Document { fields, body: body.to_owned() }),
            Err(mistake) if is_first || begins_with_key(block) => Err(mistake),
            _ => all_body(),
        }
    }

    /// The text that [`Document::parse`] reads as this document.
    pub fn render(&self) -> String {
        if self.fields.is_empty() {
            // A body that looks like front matter must not become it.
            let is_body = Document::parse(&self.body).is_ok_and(|again| again.body.len() == self.body.len());
            let opening = if is_body { "" } else { "---\n---\n" };
            return format!("{opening}{}", self.body);
        }
        let yaml = yaml::render(self.fields.iter().map(|(key, node)| (key.as_str(), &node.value)));
        format!("---\n{yaml}---\n{}", self.body)
    }

    pub fn get(&self, key: &str) -> Option<&YamlValue> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, node)| &node.value)
    }

    /// A field as text; `None` if it is missing, empty, a list or a mapping.
    pub fn get_text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(YamlValue::as_text).map(str::to_owned)
    }

    pub fn remove(&mut self, key: &str) {
        self.fields.retain(|(name, _)| name != key);
    }

    /// Sets a field unless it has this text already, in whatever notation.
    pub fn fill(&mut self, key: &str, text: &str) {
        if self.get(key).and_then(YamlValue::as_text) != Some(text) {
            let is_number = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
            let kind = if is_number { ScalarKind::Number } else { ScalarKind::Text };
            self.insert(key, YamlValue::Scalar(kind, text.to_owned()));
        }
    }

    /// Sets a field to a text; an existing field keeps its place.
    pub fn set(&mut self, key: &str, text: impl Into<String>) {
        self.insert(key, YamlValue::Scalar(ScalarKind::Text, text.into()));
    }

    fn insert(&mut self, key: &str, value: YamlValue) {
        match self.fields.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => old.value = value,
            None => self.fields.push((key.to_owned(), YamlNode { line: 0, value })),
        }
    }
}

/// The number of the first line that is not blank, and the text after it, if that line is `---`. A byte order mark does not count.
fn after_opening(text: &str) -> Option<(usize, &str)> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    for number in 1.. {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if !line.trim().is_empty() {
            return (line.trim_end() == "---").then_some((number, after));
        }
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    None
}

/// The line with which a text nearly opens front matter, and the first key below it: ` ---` or `----` would make the text all body.
pub fn mistaken_opening(text: &str) -> Option<(usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| line.trim().is_empty());
    let (at, opening) = lines.next()?;
    let is_border = opening.trim().len() > 1 && opening.trim().bytes().all(|byte| byte == b'-');
    let below = lines.map(|(_, line)| line).find(|line| !line.trim().is_empty())?;
    (is_border && opening.trim_end() != "---" && begins_with_key(below.trim_start()))
        .then_some((at + 1, below.split_once(':')?.0.trim()))
}

/// What is before the line that closes front matter, and what is after it.
fn until_closing(rest: &str) -> Option<(&str, &str)> {
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let next = end + line.len();
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&rest[..end], &rest[next..]));
        }
        end = next;
    }
    None
}

/// Whether the first line of a block that says something is `key:`, with or without a value: then a mistake in it is one in front
/// matter, and not prose between two Markdown lines.
fn begins_with_key(block: &str) -> bool {
    let says_something = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let Some((key, value)) = block.lines().find(says_something).and_then(|line| line.split_once(':')) else {
        return false;
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !key.is_empty() && key.chars().all(is_word) && (value.is_empty() || value.starts_with([' ', '\t', '\r']))
}

/// The fields of front matter whose opening line has this number; errors and fields have the lines of the whole text.
fn parse_fields(block: &str, opening: usize) -> Result<Vec<(String, YamlNode)>, Mistake> {
    let mut fields =
        fields_of(block).map_err(|mistake| Mistake { line: mistake.line + opening, ..mistake })?;
    for (_, node) in &mut fields {
        node.line += opening;
    }
    Ok(fields)
}

fn fields_of(text: &str) -> Result<Vec<(String, YamlNode)>, Mistake> {
    let mut root = yaml::parse(text)?;
    normalize(&mut root)?;
    let entries = match root.value {
        YamlValue::Null => return Ok(Vec::new()),
        YamlValue::Map(entries) => entries,
        _ => {
            let message =
                format!("front matter must be a mapping of keys to values, not {}", root.describe());
            return Err(Mistake::new(root.line, message));
        }
    };
    let field = |(key, value): (YamlNode, YamlNode)| match key.value {
        YamlValue::Scalar(ScalarKind::Text, name) => Ok((name, YamlNode { line: key.line, ..value })),
        _ => Err(Mistake::new(key.line, format!("a key must be text, not {}", key.describe()))),
    };
    entries.into_iter().map(field).collect()
}

/// Makes text of every literal that another program would write differently, and rejects a key that occurs twice.
fn normalize(node: &mut YamlNode) -> Result<(), Mistake> {
    match &mut node.value {
        YamlValue::Null => {}
        YamlValue::Scalar(kind, text) => {
            if !is_canonical(text) {
                *kind = ScalarKind::Text;
            }
        }
        YamlValue::List(items) => items.iter_mut().try_for_each(normalize)?,
        YamlValue::Map(entries) => {
            for (key, value) in entries.iter_mut() {
                normalize(key)?;
                normalize(value)?;
            }
            let mut seen = HashSet::new();
            if let Some((key, _)) = entries.iter().find(|(key, _)| !seen.insert(key)) {
                return Err(Mistake::new(key.line, format!("{} is defined twice", key.describe())));
            }
        }
    }
    Ok(())
}

/// Whether a literal is written as a program would write its value, so that nothing is lost when it is one.
fn is_canonical(literal: &str) -> bool {
    let is_integer = literal.parse::<i64>().is_ok_and(|number| number.to_string() == literal)
        || literal.parse::<u64>().is_ok_and(|number| number.to_string() == literal);
    let is_float = || literal.parse::<f64>().is_ok_and(|number| format!("{number:?}") == literal);
    matches!(literal, "true" | "false" | ".inf" | "-.inf" | ".nan") || is_integer || is_float()
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
    fn fields_and_body_are_split() {
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
            "\n---\na: b\n",
            "\n---\n---\n",
            "\n---\nprose\n---\n",
            "\n---\nsay it: [\n---\n",
            "\n",
            " \n\t",
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
    fn blank_lines_before_front_matter_are_skipped_and_counted() {
        for text in
            ["\n---\na: b\n---\nbody", " \r\n\t\n---\na: b\n---\nbody", "\u{feff}\n---\na: b\n...\nbody"]
        {
            let document = parse(text);
            assert_eq!((document.get_text("a").as_deref(), document.body.as_str()), (Some("b"), "body"));
            let key = 1 + text.lines().position(|line| line == "a: b").unwrap();
            assert_eq!(document.fields[0].1.line, key, "{text:?}");
        }
        assert_eq!(mistake("\n\n---\na: 1\na: 2\n---\n"), (5, "'a' is defined twice".into()));
        assert_eq!(mistake("\n---\n# why\n\na: [1\n---\n").0, 5);
        // What must stay body is protected when it is written.
        for body in ["\n---\na: b\n---\n", "\n---\na: [\n---\n"] {
            let document = Document { body: body.to_owned(), ..Document::default() };
            assert_eq!(parse(&document.render()), document);
        }
    }

    #[test]
    fn mistakes_have_the_line_of_the_whole_text() {
        assert_eq!(mistake("---\na: b\n").0, 1);
        assert_eq!(mistake("---").1, "the front matter that begins here is not closed");
        assert_eq!(mistake("---\na: 1\nb: 2\na: 3\n---\n"), (4, "'a' is defined twice".into()));
        assert_eq!(mistake("---\na: 1\n2: b\n---\n"), (3, "a key must be text, not '2'".into()));
        assert_eq!(
            mistake("---\n\n- a\n---\n"),
            (3, "front matter must be a mapping of keys to values, not a list".into())
        );
        assert_eq!(mistake("---\na: 1\nb: [1\nc: 2\n---\n").0, 3);
        assert_eq!(mistake("---\na: {b: 1, b: 2}\n---\n"), (2, "'b' is defined twice".into()));
        assert_eq!(mistake("---\r\na: 1\r\na: 2\r\n---\r\n").0, 3);
        assert_eq!(mistake("---\n\tx: 1\n---\n").0, 2);
    }

    #[test]
    fn hostile_front_matter_is_an_error_and_not_a_crash() {
        for open in ["[", "{a: ", "- ", "? "] {
            let (_, message) = mistake(&format!("---\nx: 1\ny:\n{}\n---\n", open.repeat(100_000)));
            assert!(message.contains("nested too deeply"), "{open:?}: {message}");
        }
        let aliases = format!("---\na: &a [{}]\nb: [{}]\n---\n", "x,".repeat(9999), "*a,".repeat(9999));
        assert_eq!(mistake(&aliases), (3, "not valid YAML: its aliases expand to too much text".into()));
        let long = "x".repeat(1 << 19);
        assert_eq!(parse(&format!("---\na: {long}\n---\n")).get_text("a"), Some(long));
        assert_eq!(
            mistake(&format!("---\na: {}\n---\n", "x".repeat(1 << 20))).1,
            "more than 1024 KiB of YAML"
        );
        let many: String = (0..90_000).map(|i| format!("k{i}: v\n")).collect();
        assert_eq!(mistake(&format!("---\n{many}k0: x\n---\n")), (90_002, "'k0' is defined twice".into()));
        assert_eq!(mistake("---\na: {[1, x]: 1, [1, x]: 2}\n---\n").1, "a list is defined twice");
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
        fn any_text_comes_back_as_it_was(keys in prop::collection::vec("\\PC{1,12}|[a-z]{1,5}", 0..5), values in prop::collection::vec("(?s).{0,30}|[ \t\r\n:#'\"-]{0,8}|[0-9._eExXo+-]{1,8}|true|null|~|yes|---|", 5), body in "(?s).{0,60}|[ \n]{0,3}---\n.{0,9}(\n---\n)?") {
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
