//! Text in addresses and in hidden marks.

use std::fmt::Write;

/// Every byte that is not kept as `%XX`. As `%` is never kept, two texts are never the same afterwards.
pub fn percent(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte != b'%' && byte.is_ascii_graphic() && keep(byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// A value in the query of an address, or a part of its path.
pub fn component(text: &str) -> String {
    percent(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_one_part_of_an_address() {
        assert_eq!(component("octo:fix/a b&c=d#1%é"), "octo%3Afix%2Fa%20b%26c%3Dd%231%25%C3%A9");
    }
}
