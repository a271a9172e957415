//! The C-style quoting of file names that git and GNU patch share.
//!
//! A name is any bytes but NUL and `/`. A text format that cannot contain a name as it is
//! contains it in double quotes, with backslash escapes for
//! control characters and three octal digits for other bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Quotes a name, double quotes included. Bytes above 0x7f stay as they are if the whole name is UTF-8.
pub fn quoted(name: &[u8]) -> String {
    let utf8 = std::str::from_utf8(name).is_ok();
    let mut out = Vec::with_capacity(name.len() + 2);
    out.push(b'"');
    for &byte in name {
        match escape_letter(byte) {
            Some(letter) => out.extend([b'\\', letter]),
            None if byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8) => {
                out.extend(format!("\\{byte:03o}").into_bytes());
            }
            None => out.push(byte),
        }
    }
    out.push(b'"');
    String::from_utf8(out).expect("bytes that are not UTF-8 were escaped")
}

/// A path in a `diff --git`, `---` or `+++` line: quoted if git or patch would misread it.
///
/// A space needs quotes: without them patch takes the wrong name from sections that have
/// no `---` line, such as mode changes and empty files.
pub fn in_diff_header(prefix: &str, path: &[u8]) -> String {
    let plain = path.iter().all(|&byte| byte > 0x20 && byte != 0x7f && byte != b'"' && byte != b'\\');
    let full = [prefix.as_bytes(), path].concat();
    match String::from_utf8(full) {
        Ok(text) if plain => text,
        Ok(text) => quoted(text.as_bytes()),
        Err(error) => quoted(error.as_bytes()),
    }
}

/// A path as a JSON string: quoted only if it is not UTF-8 or begins with a double quote.
pub fn in_json(path: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with('"') => Cow::Borrowed(text),
        _ => Cow::Owned(quoted(path)),
    }
}

/// Decodes what [`in_json`] encoded.
pub fn from_json(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.starts_with('"') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    match unquote(text.as_bytes())? {
        (name, []) => Some(Cow::Owned(name)),
        _ => None,
    }
}

/// A path for messages and in sentences of answers: quoted if it is not safe to print, or could be taken for a path that is quoted. So
/// no two paths look the same, and [`from_json`] decodes it.
pub fn for_people(path: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(path) {
        Ok(text) if !text.starts_with('"') && !text.chars().any(char::is_control) => Cow::Borrowed(text),
        _ => Cow::Owned(quoted(path)),
    }
}

/// A path that [`in_json`] encoded, for messages. Anything else that is named like one, such as a database, is shown on one line.
pub fn json_for_people(text: &str) -> Cow<'_, str> {
    match from_json(text) {
        Some(path) => Cow::Owned(for_people(&path).into_owned()),
        None => one_line(text),
    }
}

/// A text for messages on one line: control characters become visible escapes.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Parses a quoted name at the start of `text`; returns it and what follows the closing quote.
pub fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&letter, tail) = rest.split_first()?;
                if let Some(plain) = unescape_letter(letter) {
                    name.push(plain);
                    rest = tail;
                } else {
                    let digits = rest.get(..3)?;
                    name.push(octal(digits)?);
                    rest = &rest[3..];
                }
            }
            0..0x20 | 0x7f => return None,
            _ => name.push(byte),
        }
    }
}

fn octal(digits: &[u8]) -> Option<u8> {
    let mut value: u16 = 0;
    for &digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return None;
        }
        value = value * 8 + u16::from(digit - b'0');
    }
    u8::try_from(value).ok()
}

const LETTERS: [(u8, u8); 9] = [
    (0x07, b'a'),
    (0x08, b'b'),
    (b'\t', b't'),
    (b'\n', b'n'),
    (0x0b, b'v'),
    (0x0c, b'f'),
    (b'\r', b'r'),
    (b'"', b'"'),
    (b'\\', b'\\'),
];

fn escape_letter(byte: u8) -> Option<u8> {
    LETTERS.iter().find(|(b, _)| *b == byte).map(|(_, l)| *l)
}

fn unescape_letter(letter: u8) -> Option<u8> {
    LETTERS.iter().find(|(_, l)| *l == letter).map(|(b, _)| *b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_quoted_the_way_git_quotes_them() {
        assert_eq!(quoted(b"a\tb\n\"c\\"), r#""a\tb\n\"c\\""#);
        assert_eq!(quoted(b"caf\xe9\x01"), r#""caf\351\001""#);
        assert_eq!(quoted("café".as_bytes()), "\"café\"");
        assert_eq!(in_diff_header("a/", b"x.rs"), "a/x.rs");
        assert_eq!(in_diff_header("a/", b"x y"), "\"a/x y\"");
    }

    #[test]
    fn broken_quoting_is_refused() {
        for text in [r#""abc"#, r#""\8""#, r#""\40""#, r#""\777""#, "\"a\nb\"", "abc"] {
            assert_eq!(unquote(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives_quoting(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = quoted(&name);
            prop_assert_eq!(unquote(text.as_bytes()), Some((name.clone(), &[][..])));
            let json = in_json(&name);
            let back = from_json(&json).expect("what in_json wrote can be read");
            prop_assert_eq!(&*back, &name[..]);
            let shown = for_people(&name);
            let back = from_json(&shown).expect("what for_people wrote can be read");
            prop_assert_eq!(&*back, &name[..]);
        }
    }
}
