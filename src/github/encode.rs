//! Percent-encoding, for URLs and for the hidden markers in comments.

use std::fmt::Write;

/// Encodes every byte that `keep` rejects as `%XX`. `%` itself is always encoded, so the encoding is unambiguous.
pub fn percent(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte != b'%' && byte.is_ascii_graphic() && keep(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Encodes a query value or one segment of a URL's path.
pub fn component(text: &str) -> String {
    percent(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_one_segment_of_a_url() {
        assert_eq!(component("octo:fix/a b&c=d#1%é"), "octo%3Afix%2Fa%20b%26c%3Dd%231%25%C3%A9");
    }
}
