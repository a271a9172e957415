//! YAML for people: block style, with quotes only where a plain scalar would not be read as the same text.

use super::emit::{is_printable, quoted};
use super::node::{ScalarKind, YamlNode, YamlValue, has_leading_zero, resolve};

/// Readers accept a key on one line up to 1024 characters; a longer one needs a `?`.
const LONGEST_KEY: usize = 128;

/// A mapping as a YAML document. Lists are not indented below their key.
pub fn render<'a>(entries: impl IntoIterator<Item = (&'a str, &'a YamlValue)>) -> String {
    entries.into_iter().map(|(key, value)| entry(&plain_or_quoted(key), value, 0)).collect()
}

fn entry(key: &str, value: &YamlValue, indent: usize) -> String {
    let key = if key.len() > LONGEST_KEY || key.starts_with(['[', '{']) {
        format!("? {key}\n{}:", spaces(indent))
    } else {
        format!("{key}:")
    };
    let below = if matches!(value, YamlValue::Map(_)) { indent + 2 } else { indent };
    match block(value, below) {
        Some(block) => format!("{key}\n{}{block}", spaces(below)),
        None => key + &after_indicator(value, indent),
    }
}

/// The lines of a collection that is not empty. The first is not indented: it may follow a dash.
fn block(value: &YamlValue, indent: usize) -> Option<String> {
    let entries: Vec<String> = match value {
        YamlValue::Map(entries) => entries
            .iter()
            .map(|(key, value)| entry(&flow(&key.value, plain_or_quoted), &value.value, indent))
            .collect(),
        YamlValue::List(items) => {
            items.iter().map(|item| format!("-{}", after_indicator(&item.value, indent))).collect()
        }
        YamlValue::Null | YamlValue::Scalar(..) => Vec::new(),
    };
    (!entries.is_empty()).then(|| entries.join(&spaces(indent)))
}

/// What follows a `-` or a `:`, to the end of its line.
fn after_indicator(value: &YamlValue, indent: usize) -> String {
    match (value, block(value, indent + 2)) {
        (_, Some(block)) => format!(" {block}"),
        (YamlValue::Scalar(ScalarKind::Text, text), _) if is_literal(text) => literal(text, indent + 2),
        (scalar, _) => format!(" {}\n", flow(scalar, plain_or_quoted)),
    }
}

/// A value on one line; text in the way of `text_style`.
fn flow(value: &YamlValue, text_style: fn(&str) -> String) -> String {
    // Within brackets a comma or a bracket ends a plain scalar.
    let inner = |node: &YamlNode| flow(&node.value, quoted);
    match value {
        YamlValue::Null => "null".into(),
        YamlValue::Scalar(ScalarKind::Text, text) => text_style(text),
        YamlValue::Scalar(_, raw) => raw.clone(),
        YamlValue::List(items) => format!("[{}]", items.iter().map(inner).collect::<Vec<_>>().join(", ")),
        YamlValue::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("? {} : {}", inner(key), inner(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether several lines of text can be written as a block without an indentation indicator.
fn is_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with(['\n', ' '])
        && text.chars().all(|c| c == '\n' || is_printable(c))
}

fn literal(text: &str, indent: usize) -> String {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let chomping = match (body.len() < text.len(), body.ends_with('\n')) {
        (false, _) => "-",
        (true, false) => "",
        (true, true) => "+",
    };
    let mut out = format!(" |{chomping}\n");
    for line in body.split('\n') {
        if !line.is_empty() {
            out += &spaces(indent);
        }
        out += line;
        out.push('\n');
    }
    out
}

fn plain_or_quoted(text: &str) -> String {
    if !text.chars().all(is_printable) {
        quoted(text)
    } else if is_plain(text) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Whether a printable text is read as itself without quotes, outside of brackets.
fn is_plain(text: &str) -> bool {
    let is_other_type = !matches!(resolve(text), YamlValue::Scalar(ScalarKind::Text, _));
    let is_indicator = text.starts_with(|c| "#,[]{}&*!|>'\"%@`".contains(c))
        || text.starts_with("---")
        || text.starts_with("...")
        || matches!(text, "?" | ":" | "-")
        || ["? ", ": ", "- "].iter().any(|start| text.starts_with(start));
    let ends_early = text.contains(": ") || text.ends_with(':') || text.contains(" #");
    let loses_space = text.starts_with(' ') || text.ends_with(' ');
    !(is_other_type || has_leading_zero(text) || is_indicator || ends_early || loses_space)
}

fn spaces(count: usize) -> String {
    " ".repeat(count)
}
