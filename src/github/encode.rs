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

/// What a runner takes as the text of a command such as `::notice::`.
pub fn command_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_one_part_of_an_address() {
        assert_eq!(component("octo:fix/a b&c=d#1%é"), "octo%3Afix%2Fa%20b%26c%3Dd%231%25%C3%A9");
    }

    /// CMT-09.
    #[test]
    fn a_commands_text_stays_on_its_line() {
        assert_eq!(command_data("50%\r\nof it"), "50%25%0D%0Aof it");
    }
}
