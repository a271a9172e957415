//! YAML for programs: every string is quoted, so that no reader takes one for a time, a number or a boolean.

use std::fmt::Write as _;

use serde_json::Value;

pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

/// Writes the whole document, or at a depth above 0 what follows a key or a dash.
fn write(out: &mut String, value: &Value, depth: usize) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (name(key) + ":", value)).collect(),
        Value::Array(list) => list.iter().map(|value| ("-".to_owned(), value)).collect(),
        _ => Vec::new(),
    };
    if depth > 0 {
        out.push(if entries.is_empty() { ' ' } else { '\n' });
    }
    for (lead, value) in &entries {
        *out += &"  ".repeat(depth);
        *out += lead;
        write(out, value, depth + 1);
    }
    if entries.is_empty() {
        let scalar = value.as_str().map_or_else(|| value.to_string(), quoted);
        *out += &format!("{scalar}\n");
    }
}

/// A key without quotes if no version of YAML gives it another meaning; `on` and `yes` are booleans in YAML 1.1.
fn name(key: &str) -> String {
    let is_plain = key.len() > 3 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if is_plain && !matches!(key, "null" | "true" | "false") { key.to_owned() } else { quoted(key) }
}

/// In double quotes, with escapes for every character that YAML does not allow as it is.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if !is_printable(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether a reader takes the character as it is. Line separators and byte order marks are not control characters,
/// but readers disagree about them.
pub(super) fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn another_reader_reads_what_was_written() {
        let value = json!({
            "created_at": "2026-11-16T03:12:00Z", "no": "no", "y": "1e3", "n": null, "empty": {}, "none": [],
            "number": 0.5, "true": true, "list": ["a: b", "- c", "", ["deep", { "x y": "#" }], "\u{7f}\u{85}\u{1b}\"\\\n\u{2028}é🦀"],
        });
        let text = emit(&value);
        assert_eq!(yaml_serde::from_str::<Value>(&text).unwrap(), value, "{text}");
        assert!(text.contains("created_at: \"2026-11-16T03:12:00Z\"\n"), "{text}");
    }
}
