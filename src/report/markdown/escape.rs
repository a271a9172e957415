//! Escaping of untrusted text in Markdown.

use crate::sanitize::strip_controls;

/// An invisible character that keeps GitHub from turning text into a mention or a link. GitHub does so after Markdown and
/// HTML are resolved, so escaping alone would not help.
const BREAK: char = '\u{200b}';

/// Renders text on one line that has no meaning in Markdown, table cells or HTML, and neither mentions nor links. Truncates it
/// to `longest` characters.
pub fn inline(text: &str, longest: usize) -> String {
    let text = strip_controls(text);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim().chars().enumerate().peekable();
    while let Some((number, c)) = chars.next() {
        if number == longest {
            out.push('…');
            break;
        }
        match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => out.push(' '),
            // Backslashes do not escape inside an HTML block; entities work everywhere.
            '&' | '<' | '>' | '"' | '\'' | '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                out.push_str(&format!("&#{};", c as u32));
            }
            '@' | '#' | '!' => out.extend([c, BREAK]),
            ':' if chars.peek().is_some_and(|(_, next)| *next == '/') => out.extend([c, BREAK]),
            '.' if out.ends_with("www") || out.ends_with("WWW") => out.extend([BREAK, c]),
            '-' if out.ends_with("GH") || out.ends_with("gh") => out.extend([c, BREAK]),
            c => out.push(c),
        }
    }
    out
}

/// A code fence that nothing in the text can close.
pub fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_only_text() {
        for (text, expected) in [
            ("a|b`c`", "a&#124;b&#96;c&#96;"),
            ("<b>&lt;[x](y)", "&#60;b&#62;&#38;lt;&#91;x&#93;(y)"),
            ("@octocat fixes #12", "@\u{200b}octocat fixes #\u{200b}12"),
            ("https://x.y www.x.y GH-1", "https:\u{200b}//x.y www\u{200b}.x.y GH-\u{200b}1"),
            ("two\nlines\u{1b}[31m", "two lines"),
        ] {
            assert_eq!(inline(text, 100), expected);
        }
        assert_eq!(inline("abcdef", 3), "abc…");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_its_content() {
        assert_eq!(fence(""), "```");
        assert_eq!(fence("a ```` b ```"), "`````");
    }
}
