//! YAML that every reader takes for the same: strings always in quotes, so that nobody makes a time, a number or a truth of one.

use std::fmt::Write as _;

use serde_json::Value;

/// A value as a YAML document.
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                indent(out, depth);
                out.push_str(&name(key));
                out.push(':');
                below(out, value, depth + 1);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                indent(out, depth);
                out.push('-');
                below(out, value, depth + 1);
            }
        }
        scalar => {
            out.push_str(&flow(scalar));
            out.push('\n');
        }
    }
}

/// What follows a key or a dash.
fn below(out: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    out.push(if is_block { '\n' } else { ' ' });
    block(out, value, depth);
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// A key without quotes, if nobody can take it for anything else.
fn name(key: &str) -> String {
    let is_plain = key.len() > 3 && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match is_plain && !matches!(key, "null" | "true" | "false") {
        true => key.to_owned(),
        false => quoted(key),
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// In double quotes, with escapes for all that YAML does not let stand.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again_as_it_was() {
        let value = json!({
            "created_at": "2026-11-16T03:12:00Z", "no": "no", "y": "1e3", "n": null, "empty": {}, "none": [],
            "number": 0.5, "true": true, "list": ["a: b", "- c", "", ["deep", { "x y": "#" }], "\u{7f}\u{85}\u{1b}\"\\\n\u{2028}é🦀"],
        });
        let text = emit(&value);
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), value, "{text}");
        assert!(text.contains("created_at: \"2026-11-16T03:12:00Z\"\n"), "{text}");
    }
}
