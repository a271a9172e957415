//! Reads the lines that most entries have, several times faster than a JSON parser: a revert reads a manifest of a million.
//!
//! It accepts only files whose line has exactly the form in which decree writes it, and no quoting. All others are left to the parser.

use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::tree::{Entry, Tree, TreeBuilder};

/// Decodes lines that each end with `,\n`; `None` if one of them has another form or is malformed.
pub fn decode_plain(lines: &[u8]) -> Option<Tree> {
    let mut tree = TreeBuilder::default();
    let lines = lines.strip_suffix(b"\n")?;
    for line in lines.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b",")?;
        let (path, node) = plain_file(line)?;
        let path = TreePath::new(path).ok()?;
        if !tree.push(Entry::at(&path, node, Attributes::none())) {
            return None;
        }
    }
    Some(tree.finish())
}

/// The path and node of a line such as `"src/main.rs":{"sha256":"…","size":12,"mode":"644"}`.
fn plain_file(line: &[u8]) -> Option<(&[u8], Node)> {
    let line = line.strip_prefix(b"\"")?;
    let end = line.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    let (path, rest) = line.split_at(end);
    let rest = rest.strip_prefix(b"\":{\"sha256\":\"")?;
    let (hash, rest) = rest.split_at_checked(64)?;
    let rest = rest.strip_prefix(b"\",\"size\":")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (size, rest) = rest.split_at(digits);
    let mode = rest.strip_prefix(b",\"mode\":\"")?.strip_suffix(b"\"}")?;
    std::str::from_utf8(path).ok()?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    if size.first() == Some(&b'0') && size.len() > 1 {
        return None;
    }
    Some((
        path,
        Node::File {
            hash: ContentHash::from_hex(text(hash)?)?,
            size: text(size)?.parse().ok()?,
            mode: FileMode::parse(text(mode)?)?,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::text::{decode, decode_json};
    use super::*;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn line(path: &str, size: &str, mode: &str) -> String {
        format!("\"{path}\":{{\"sha256\":\"{HASH}\",\"size\":{size},\"mode\":\"{mode}\"}},\n")
    }

    #[test]
    fn plain_lines_are_what_the_parser_says_they_are() {
        let lines =
            [line("a/b", "0", "644"), line("a/ä ö", "18446744073709551615", "4755"), line("z", "7", "0")];
        let text = lines.concat();
        let plain = decode_plain(text.as_bytes()).expect("all of them are plain");
        assert_eq!(plain.len(), 3);
        assert_eq!(Some(plain), decode_json(text.as_bytes()));
    }

    #[test]
    fn other_lines_are_left_to_the_parser() {
        let odd = [
            line("a\\tb", "1", "644"),
            line("\\\"a\\\\377\\\"", "1", "644"),
            line("a\u{1}b", "1", "644"),
            line("../a", "1", "644"),
            line("a", "01", "644"),
            line("a", "", "644"),
            line("a", "-1", "644"),
            line("a", "18446744073709551616", "644"),
            line("a", "1", "648"),
            line("a", "1", ""),
            line("a", "1", "644\",\"attributes\":\"user.x:YQ=="),
            line("a", "1", "644").replace(HASH, &HASH.replace('b', "B")),
            line("a", "1", "644").replace("sha256", "sha512"),
            "\"a\":{\"type\":\"dir\",\"mode\":\"700\"},\n".to_owned(),
            [line("b", "1", "644"), line("a", "1", "644")].concat(),
            [line("a", "1", "644"), line("a", "1", "644")].concat(),
            line("a", "1", "644").replace(",\n", "\n"),
            line("a", "1", "644").replace("\":{", "\" : {"),
            String::new(),
        ];
        for text in odd {
            assert_eq!(decode_plain(text.as_bytes()), None, "{text}");
            assert_eq!(decode(text.as_bytes()), decode_json(text.as_bytes()), "{text}");
        }
        let mut bytes = line("a?", "1", "644").into_bytes();
        bytes[2] = 0xff;
        assert_eq!(decode_plain(&bytes), None);
        // Two entries without a comma between them are no JSON.
        let text = [line("a", "1", "644").replace(",\n", "\n"), line("b", "1", "644")].concat();
        assert_eq!((decode_plain(text.as_bytes()), decode_json(text.as_bytes())), (None, None));
    }
}
