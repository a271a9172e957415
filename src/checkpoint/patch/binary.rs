//! The contents of a binary block: base64 in comment lines.

use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::notes::BASE64_LINE;
use crate::fs::atomic::fill;

/// The number of content bytes in a full line.
pub const LINE_BYTES: usize = BASE64_LINE / 4 * 3;
/// The length of a full line: `# `, the characters, the newline.
pub const LINE_LEN: usize = 2 + BASE64_LINE + 1;

/// The length of all lines of a content of this size.
///
/// A damaged diff may state an absurd size. The result is then as absurd, and the diff is rejected as truncated.
pub fn encoded_len(size: u64) -> u64 {
    let full = size / LINE_BYTES as u64;
    let rest = size % LINE_BYTES as u64;
    let last = match rest {
        0 => 0,
        rest => 3 + rest.div_ceil(3) * 4,
    };
    full.saturating_mul(LINE_LEN as u64).saturating_add(last)
}

/// Writes a content as comment lines; returns the size of the content.
pub fn encode(out: &mut impl Write, content: &mut impl Read) -> io::Result<u64> {
    let mut raw = vec![0; LINE_BYTES * 1024];
    let mut text = String::with_capacity(BASE64_LINE);
    let mut size = 0;
    loop {
        let filled = fill(content, &mut raw)?;
        size += filled as u64;
        for line in raw[..filled].chunks(LINE_BYTES) {
            text.clear();
            STANDARD.encode_string(line, &mut text);
            writeln!(out, "# {text}")?;
        }
        if filled < raw.len() {
            return Ok(size);
        }
    }
}

/// Decodes one line, given without its newline.
pub fn decode_line(line: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(line.strip_prefix(b"# ")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_76_characters_and_their_length_is_known_beforehand() {
        for size in [0, 1, 2, 3, 56, 57, 58, 114, 115, 60_000] {
            let content: Vec<u8> = (0..size).map(|n| (n * 7) as u8).collect();
            let mut out = Vec::new();
            assert_eq!(encode(&mut out, &mut &content[..]).unwrap(), size as u64);
            assert_eq!(out.len() as u64, encoded_len(size as u64), "{size}");
            let mut back = Vec::new();
            for line in out.split_inclusive(|&b| b == b'\n') {
                assert!(line.len() <= LINE_LEN);
                back.extend(decode_line(&line[..line.len() - 1]).unwrap());
            }
            assert_eq!(back, content);
        }
    }
}
