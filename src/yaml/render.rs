//! YAML for people: block style, with quotes only where a plain scalar would not be read as the same text.

use super::emit::{is_printable, quoted};
use super::node::{ScalarKind, YamlNode, YamlValue};
use super::scalar::{has_leading_zero, resolve};

/// Readers accept a key on one line up to 1024 characters; a longer one needs a `?`.
const LONGEST_KEY: usize = 128;

/// A mapping as a YAML document. Lists are not indented below their key.
pub fn render<'a>(entries: impl IntoIterator<Item = (&'a str, &'a YamlValue)>) -> String {
    let mut out = String::new();
    for (key, value) in entries {
        entry(&mut out, &plain_or_quoted(key), value, 0);
    }
    out
}

fn entry(out: &mut String, key: &str, value: &YamlValue, indent: usize) {
    if key.len() > LONGEST_KEY || key.starts_with(['[', '{']) {
        *out += &format!("? {key}\n{}:", spaces(indent));
    } else {
        *out += &format!("{key}:");
    }
    match value {
        YamlValue::Map(entries) if !entries.is_empty() => block(out, value, indent + 2, true),
        YamlValue::List(items) if !items.is_empty() => block(out, value, indent, true),
        scalar => after_indicator(out, scalar, indent),
    }
}

/// Writes a collection, below the current line or from the current column on.
fn block(out: &mut String, value: &YamlValue, indent: usize, below: bool) {
    let mut lead = if below { format!("\n{}", spaces(indent)) } else { String::new() };
    let mut next = |out: &mut String| *out += &std::mem::replace(&mut lead, spaces(indent));
    match value {
        YamlValue::Map(entries) => {
            for (key, value) in entries {
                next(out);
                entry(out, &flow(&key.value, plain_or_quoted), &value.value, indent);
            }
        }
        YamlValue::List(items) => {
            for item in items {
                next(out);
                out.push('-');
                after_indicator(out, &item.value, indent);
            }
        }
        YamlValue::Null | YamlValue::Scalar(..) => after_indicator(out, value, indent),
    }
}

/// Writes what follows a `-` or a `:`, to the end of its line.
fn after_indicator(out: &mut String, value: &YamlValue, indent: usize) {
    out.push(' ');
    match value {
        YamlValue::Map(entries) if !entries.is_empty() => block(out, value, indent + 2, false),
        YamlValue::List(items) if !items.is_empty() => block(out, value, indent + 2, false),
        YamlValue::Scalar(ScalarKind::Text, text) if is_literal(text) => literal(out, text, indent + 2),
        scalar => *out += &format!("{}\n", flow(scalar, plain_or_quoted)),
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

fn literal(out: &mut String, text: &str, indent: usize) {
    let (body, ends_line) = match text.strip_suffix('\n') {
        Some(body) => (body, true),
        None => (text, false),
    };
    *out += match (ends_line, body.ends_with('\n')) {
        (false, _) => "|-\n",
        (true, false) => "|\n",
        (true, true) => "|+\n",
    };
    for line in body.split('\n') {
        if !line.is_empty() {
            *out += &spaces(indent);
        }
        *out += line;
        out.push('\n');
    }
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
