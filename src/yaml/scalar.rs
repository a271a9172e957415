//! What a plain scalar means, by the core schema of YAML 1.2.

use super::node::{ScalarKind, YamlValue};

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
