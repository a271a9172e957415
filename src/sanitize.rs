//! Makes untrusted text safe to print: no escape sequences, no control characters, no bidirectional overrides, no workflow
//! commands.

use std::iter::Peekable;
use std::str::Chars;

/// Removes escape sequences and all control characters but newline and tab. Bidirectional overrides, which can make a line
/// look like another one, become U+FFFD.
pub fn strip_controls(text: &str) -> String {
    strip_controls_but(text, |c| matches!(c, '\n' | '\t'))
}

fn strip_controls_but(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            c if is_kept(c) => out.push(c),
            c if c.is_control() => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Skips the rest of an escape sequence. One that does not end on its line removes nothing else.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            chars.next_if(|c| matches!(c, '@'..='~'));
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            let mut ahead = chars.clone();
            let mut previous = '\0';
            for c in ahead.by_ref() {
                match c {
                    '\n' => return,
                    '\u{7}' => break,
                    '\\' if previous == '\u{1b}' => break,
                    c => previous = c,
                }
            }
            *chars = ahead;
        }
        _ => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// The final state of a line on a terminal: what follows the last carriage return that is not part of an escape sequence.
pub fn final_line(line: &str) -> String {
    let line = strip_controls_but(line.trim_end_matches(['\r', '\n']), is_layout);
    after_last_return(&line)
}

fn is_layout(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\t')
}

fn after_last_return(line: &str) -> String {
    line.rsplit('\r').next().unwrap_or(line).trim_end().to_owned()
}

/// Joins the text into one line that is safe anywhere, also in a CI log: no line breaks, no workflow command.
pub fn one_line(text: &str) -> String {
    let line = strip_controls(text)
        .split(['\n', '\t'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    escape_command(&line)
}

/// Breaks workflow commands with a zero-width space. A CI runner reads `::command::` after leading blanks, and `##[command]`
/// anywhere in a line.
pub fn escape_command(line: &str) -> String {
    let line = line.replace("##[", "#\u{200b}#[");
    let blanks = line.len() - line.trim_start().len();
    match line[blanks..].strip_prefix("::") {
        Some(rest) => format!("{}:\u{200b}:{rest}", &line[..blanks]),
        None => line,
    }
}

/// The last lines of a log, each in its final state on a terminal. Escape sequences are removed from the whole text, because only
/// there it shows which of them never end.
pub fn last_lines(log: &str, count: usize) -> Vec<String> {
    let log = strip_controls_but(log, is_layout);
    let lines = log.trim_end().rsplit('\n').take(count);
    let mut lines: Vec<String> = lines.map(|line| after_last_return(line.trim_end_matches('\r'))).collect();
    lines.reverse();
    if lines == [""] { Vec::new() } else { lines }
}

/// The longest prefix of at most `limit` bytes that ends between two characters.
pub fn truncate(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// The longest suffix of at most `limit` bytes that begins between two characters.
pub fn suffix(text: &str, limit: usize) -> &str {
    let start = (text.len().saturating_sub(limit)..=text.len()).find(|at| text.is_char_boundary(*at));
    &text[start.unwrap_or(text.len())..]
}

/// The last of these lines that have at most `limit` bytes together, with their line breaks. Of the first one that does not fit
/// the end is kept, after an ellipsis: it may have the reason, and what follows only a few closing words.
pub fn limit_lines(mut lines: Vec<String>, limit: usize) -> Vec<String> {
    let mut left = limit;
    let mut kept = 0;
    for line in lines.iter().rev() {
        if line.len() >= left {
            break;
        }
        left -= line.len() + 1;
        kept += 1;
    }
    let mut kept = lines.split_off(lines.len() - kept);
    let end = lines.last().map_or("", |line| suffix(line, left.saturating_sub('…'.len_utf8() + 1)));
    if !end.is_empty() {
        kept.insert(0, format!("…{end}"));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        for (text, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://x\u{1b}\\link", "xlink"),
            ("\u{1b}(Ba\u{1b}7b\u{1b}", "ab"),
            ("never ends \u{1b}]0;\nnext", "never ends ]0;\nnext"),
            ("a\0b\u{8}c\u{85}\td\r\n", "abc\td\n"),
            ("if x\u{202e} // {", "if x\u{fffd} // {"),
        ] {
            assert_eq!(strip_controls(text), expected, "{text:?}");
        }
    }

    #[test]
    fn one_line_has_no_commands_and_no_breaks() {
        assert_eq!(one_line("a\n::error::b\r\n\tc\u{1b}]0;t\u{7}"), "a ::error::b c");
        assert_eq!(one_line("  ::error::x"), ":\u{200b}:error::x");
        assert_eq!(one_line("x ##[group]y"), "x #\u{200b}#[group]y");
        assert_eq!(one_line("search::ranks … FAILED"), "search::ranks … FAILED");
    }

    #[test]
    fn the_last_lines_are_what_a_terminal_finally_shows() {
        assert_eq!(last_lines("one\r\ntwo\r50 %\r100 %\nthree\n\n", 2), ["100 %", "three"]);
        assert_eq!(last_lines("\u{1b}]0;a\rb\u{7}c\n\u{1b}P never\nd", 3), ["c", "P never", "d"]);
        assert!(last_lines("\n", 3).is_empty());
    }

    #[test]
    fn lines_are_limited_by_their_bytes_from_the_end() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(limit_lines(lines("one\ntwo\nthree"), 100), ["one", "two", "three"]);
        assert_eq!(limit_lines(lines("one\ntwo\nthree"), 10), ["two", "three"]);
        assert_eq!(limit_lines(lines("one\ntwo\nthree"), 9), ["three"]);
        assert_eq!(limit_lines(lines("one\nééééé"), 9), ["…éé"]);
        assert_eq!(limit_lines(lines("one\nthe reason\nend"), 14), ["…reason", "end"]);
        assert!(limit_lines(Vec::new(), 9).is_empty());
        for limit in 4..40 {
            let limited = limit_lines(lines(&"é€x\n".repeat(20)), limit);
            assert!(
                limited.iter().map(|line| line.len() + 1).sum::<usize>() <= limit,
                "{limit}: {limited:?}"
            );
        }
    }

    #[test]
    fn text_is_truncated_between_characters() {
        assert_eq!((suffix("éa", 2), suffix("éa", 3), suffix("", 9)), ("a", "éa", ""));
        assert_eq!((truncate("aé", 2), truncate("aé", 3), truncate("", 9)), ("a", "aé", ""));
    }
}
