//! What routines print, as text that is safe to show anywhere: no escape sequences, no control characters, nothing
//! that turns the direction of writing.

use std::iter::Peekable;
use std::str::Chars;

/// Text without escape sequences and without control characters but newline and tab. What would turn the direction of
/// writing, and so hide what a line says, is shown as U+FFFD.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Steps over the rest of an escape sequence. One that does not end on its line takes nothing with it.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            chars.next_if(|c| matches!(c, '@'..='~'));
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            let mut ahead = chars.clone();
            let mut before = '\0';
            for c in ahead.by_ref() {
                match c {
                    '\n' => return,
                    '\u{7}' => break,
                    '\\' if before == '\u{1b}' => break,
                    c => before = c,
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

/// A line as a terminal would have it in the end: if it was written over, what it was last.
pub fn line(line: &str) -> String {
    let line = line.trim_end_matches(['\r', '\n']);
    plain(line.rsplit('\r').next().unwrap_or(line)).trim_end().to_owned()
}

/// One line that can stand anywhere, in a CI runner's log too: no line breaks, nothing that a runner takes for a command.
pub fn one_line(text: &str) -> String {
    let line = plain(text)
        .split(['\n', '\t'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    no_command(&line)
}

/// A line that a CI runner does not take for a command: these stand behind blanks at the beginning, or in brackets anywhere.
pub fn no_command(line: &str) -> String {
    let line = line.replace("##[", "#\u{200b}#[");
    let blanks = line.len() - line.trim_start().len();
    match line[blanks..].strip_prefix("::") {
        Some(rest) => format!("{}:\u{200b}:{rest}", &line[..blanks]),
        None => line,
    }
}

/// The last lines of a log as a terminal would have them in the end: of a line that was written over, what it was last.
pub fn last_lines(log: &str, count: usize) -> Vec<String> {
    let mut lines: Vec<String> = log.trim_end().rsplit('\n').take(count).map(line).collect();
    lines.reverse();
    if lines == [""] { Vec::new() } else { lines }
}

/// The longest beginning that has at most `room` bytes and ends between two characters.
pub fn cut(text: &str, room: usize) -> &str {
    let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_control_characters_go() {
        for (text, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://x\u{1b}\\link", "xlink"),
            ("\u{1b}(Ba\u{1b}7b\u{1b}", "ab"),
            ("never ends \u{1b}]0;\nnext", "never ends ]0;\nnext"),
            ("a\0b\u{8}c\u{85}\td\r\n", "abc\td\n"),
            ("if x\u{202e} // {", "if x\u{fffd} // {"),
        ] {
            assert_eq!(plain(text), expected, "{text:?}");
        }
    }

    #[test]
    fn one_line_gives_no_commands_and_has_no_breaks() {
        assert_eq!(one_line("a\n::error::b\r\n\tc\u{1b}]0;t\u{7}"), "a ::error::b c");
        assert_eq!(one_line("  ::error::x"), ":\u{200b}:error::x");
        assert_eq!(one_line("x ##[group]y"), "x #\u{200b}#[group]y");
        assert_eq!(one_line("search::ranks … FAILED"), "search::ranks … FAILED");
    }

    #[test]
    fn the_last_lines_are_what_a_terminal_shows_in_the_end() {
        assert_eq!(last_lines("one\r\ntwo\r50 %\r100 %\nthree\n\n", 2), ["100 %", "three"]);
        assert!(last_lines("\n", 3).is_empty());
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("", 9)), ("a", "aé", ""));
    }
}
