//! The folded sections: a diff, or the reason of a failure. They share the room fairly; each fits into its part, or is omitted.

use std::fmt::Write;

use super::escape::{fence, inline};
use crate::checkpoint::quote;
use crate::humanize::count;
use crate::message::MessageId;
use crate::pipeline::{FileChange, MessageSummary};
use crate::report::diff::{Diff, FileDiff};
use crate::sanitize::{last_lines, strip_controls, truncate};

/// How many lines of a log are shown.
const LOG_LINES: usize = 20;
/// The longest line of a log, in bytes.
const LOG_LINE: usize = 400;
/// How many attempts are listed.
const ATTEMPTS: usize = 10;
/// How many paths the title of a section names.
const PATHS: usize = 3;
/// The longest name or path, in characters.
pub const NAME: usize = 100;
/// The longest sentence, in characters.
const SENTENCE: usize = 300;
/// A hunk is shown in part only if this many lines of it fit.
const WORTH_IT: usize = 5;

pub enum Fold<'r> {
    /// The changes of a message that was kept.
    Change(&'r MessageSummary, &'r Diff),
    /// The reason of a failure, and the end of its log.
    Failure(&'r MessageSummary, Option<&'r str>),
}

impl Fold<'_> {
    pub fn size_hint(&self) -> usize {
        match self {
            Fold::Change(_, diff) => 500 + diff.files.iter().map(size).sum::<usize>(),
            Fold::Failure(_, log) => 1000 + log.map_or(0, |log| log.len().min(LOG_LINES * LOG_LINE)),
        }
    }

    /// Renders at most `room` bytes; an empty text if the section does not fit even without content.
    pub fn render(&self, room: usize) -> String {
        match self {
            Fold::Change(message, diff) => change(message, diff, room),
            Fold::Failure(message, log) => failure(message, *log, room),
        }
    }
}

/// Renders one piece per entry of `sizes`, together at most `room` bytes. Small pieces get the size they ask for; the others
/// divide the rest evenly, and room that one does not use goes to the next.
pub fn share(room: usize, sizes: &[usize], mut piece: impl FnMut(usize, usize) -> String) -> Vec<String> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|index| sizes[*index]);
    let mut pieces = vec![String::new(); sizes.len()];
    let mut rest = room;
    for (done, index) in order.into_iter().enumerate() {
        let part = rest / (sizes.len() - done);
        let text = piece(index, part);
        debug_assert!(text.len() <= part, "{} of {part} bytes", text.len());
        if text.len() <= part {
            rest -= text.len();
            pieces[index] = text;
        }
    }
    pieces
}

/// The message's id if it is valid: only then is it safe in a command.
pub fn id(message: &MessageSummary) -> Option<String> {
    message.id.as_deref().and_then(MessageId::parse).map(|id| id.to_string())
}

fn folded(title: &str, body: &str) -> String {
    // Without the empty line, Markdown would not be parsed inside the HTML element.
    format!("<details><summary>{title}</summary>\n\n{body}\n</details>\n\n")
}

fn size(file: &FileDiff) -> usize {
    file.head.len() + file.note.len() + file.hunks.iter().map(String::len).sum::<usize>() + 8
}

fn change(message: &MessageSummary, diff: &Diff, room: usize) -> String {
    let title = format!("{}: {}", inline(&message.run.name, NAME), inline_paths(&message.files));
    let files: Vec<Vec<String>> = diff.files.iter().map(parts).collect();
    let marks = files.iter().flatten().map(|part| fence(part)).max().unwrap_or_else(|| "```".to_owned());
    let body = |text: &str, note: &str| folded(&title, &format!("{marks}diff\n{text}{marks}\n{note}"));
    let total = message.files.len().max(diff.files.len());
    let longest_note = left_out(message, total, total);
    let Some(free) = room.checked_sub(body("", &longest_note).len()) else {
        return String::new();
    };
    let sizes: Vec<usize> = files.iter().map(|parts| parts.iter().map(String::len).sum()).collect();
    let mut whole = 0;
    let pieces = share(free, &sizes, |index, room| {
        let (text, complete) = shown_parts(&files[index], room);
        whole += usize::from(complete && !(diff.cut && index + 1 == files.len()));
        text
    });
    let shown = pieces.iter().filter(|piece| !piece.is_empty()).count();
    if shown == 0 {
        return String::new();
    }
    body(&pieces.concat(), &left_out(message, total - shown, shown - whole.min(shown)))
}

fn inline_paths(files: &[FileChange]) -> String {
    let one = |file: &FileChange| {
        let path = inline(&quote::one_line(&file.path), NAME);
        if file.binary {
            format!("{path} binary")
        } else {
            format!("{path} +{} −{}", file.added, file.removed)
        }
    };
    let mut named: Vec<String> = files.iter().take(PATHS).map(one).collect();
    if files.len() > PATHS {
        named.push(format!("{} more", files.len() - PATHS));
    }
    named.join(", ")
}

/// The header and the hunks of a file, each ending with a newline.
fn parts(file: &FileDiff) -> Vec<String> {
    let mut head = strip_controls(&file.head);
    if !file.note.is_empty() || file.hunks.is_empty() {
        let note = if file.note.is_empty() { "no lines changed" } else { &file.note };
        let _ =
            writeln!(head, "# {}: {}", strip_controls(&quote::one_line(&file.path)), strip_controls(note));
    }
    let mut parts = vec![head];
    parts.extend(file.hunks.iter().map(|hunk| strip_controls(hunk)));
    for part in &mut parts {
        if !part.is_empty() && !part.ends_with('\n') {
            part.push('\n');
        }
    }
    parts
}

/// As many whole hunks of a file as fit, and whether that is all. If not even the first hunk fits, as in a large new file, its
/// first lines.
fn shown_parts(parts: &[String], room: usize) -> (String, bool) {
    if parts.iter().map(String::len).sum::<usize>() <= room {
        return (parts.concat(), true);
    }
    let (head, hunks) = parts.split_first().expect("a file has a head");
    let note = |lines: usize, hunks: usize| match (lines, hunks) {
        (0, hunks) => format!("… {} left out\n", count(hunks, "hunk")),
        (lines, 0) => format!("… {} of this hunk left out\n", count(lines, "line")),
        (lines, hunks) => {
            format!("… {} of this hunk and {} left out\n", count(lines, "line"), count(hunks, "hunk"))
        }
    };
    let longest = note(parts.iter().map(String::len).sum(), hunks.len()).len();
    let Some(mut free) = room.checked_sub(head.len() + longest) else {
        return (String::new(), false);
    };
    let mut fits = |text: &&str| match free.checked_sub(text.len()) {
        Some(rest) => {
            free = rest;
            true
        }
        None => false,
    };
    let whole: Vec<&str> = hunks.iter().map(String::as_str).take_while(&mut fits).collect();
    if !whole.is_empty() {
        return ([head, &*whole.concat(), &note(0, hunks.len() - whole.len())].concat(), false);
    }
    let lines = hunks.first().map_or_else(Vec::new, |first| first.split_inclusive('\n').collect());
    let shown: Vec<&str> = lines.iter().copied().take_while(fits).collect();
    if shown.len() < WORTH_IT {
        return (String::new(), false);
    }
    let note = note(lines.len() - shown.len(), hunks.len() - 1);
    ([head, &*shown.concat(), &note].concat(), false)
}

/// Names what is omitted from a diff, and the commands that show it.
fn left_out(message: &MessageSummary, files: usize, in_part: usize) -> String {
    let what = match (files, in_part) {
        (0, 0) => return String::new(),
        (0, part) => format!("{} shown in part", count(part, "file")),
        (files, 0) => format!("{} left out", count(files, "file")),
        (files, part) => format!("{} left out, {part} shown in part", count(files, "file")),
    };
    match id(message) {
        Some(id) => {
            format!(
                "\n{what}. Whole diff: `decree diff {id}`; apply it in another checkout: `decree apply {id}`\n"
            )
        }
        None => format!("\n{what}.\n"),
    }
}

fn failure(message: &MessageSummary, log: Option<&str>, room: usize) -> String {
    let title = format!("{}: why it failed", inline(&message.run.name, NAME));
    let mut text = format!("{}\n", why(message));
    let earlier = message.run.attempts.len().saturating_sub(ATTEMPTS);
    if earlier > 0 {
        let _ = write!(text, "\n- {}\n", count(earlier, "earlier attempt"));
    } else if !message.run.attempts.is_empty() {
        text.push('\n');
    }
    for attempt in message.run.attempts.iter().skip(earlier) {
        let slate = if attempt.clean_slate { " (clean slate)" } else { "" };
        let reason = inline(&attempt.reason, SENTENCE);
        let _ = write!(text, "- attempt {}{slate}: {reason}", attempt.number);
        if !attempt.headline.is_empty() {
            let _ = write!(text, " · {}", inline(&attempt.headline, SENTENCE));
        }
        text.push('\n');
    }
    let next = next_steps(message);
    let body = |log: &str| folded(&title, &format!("{text}{log}{next}"));
    if body("").len() > room {
        return String::new();
    }
    let mut lines = log.map_or_else(Vec::new, |log| last_lines(log, LOG_LINES));
    for line in &mut lines {
        if line.len() > LOG_LINE {
            *line = format!("{}…", truncate(line, LOG_LINE));
        }
    }
    while !lines.is_empty() {
        let end = lines.join("\n");
        let marks = fence(&end);
        let whole = body(&format!("\nThe end of the log:\n\n{marks}text\n{end}\n{marks}\n"));
        if whole.len() <= room {
            return whole;
        }
        lines.remove(0);
    }
    body("")
}

fn why(message: &MessageSummary) -> String {
    let reason = Some(inline(&message.run.reason, SENTENCE)).filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or_else(|| message.verdict.word().to_owned());
    match &message.run.reverted {
        Some(put_back) => {
            let files = count(put_back.verified as usize, "file");
            let except = inline(&put_back.exceptions(), SENTENCE);
            format!("**{reason}**; the tree is reverted to its checkpoint{except}, {files} verified.")
        }
        None => format!("**{reason}**"),
    }
}

fn next_steps(message: &MessageSummary) -> String {
    let Some(id) = id(message).filter(|_| message.run_dir.is_some()) else {
        return String::new();
    };
    if message.run.attempts.last().is_some_and(|attempt| attempt.files > 0) {
        format!(
            "\nIts changes: `decree diff {id}`; apply them anyway: `decree apply {id}`; try again: `decree retry {id}`\n"
        )
    } else {
        format!("\nTry again: `decree retry {id}`\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_whole_and_large_ones_share_the_rest() {
        let sizes = [100, 3, 50, 7];
        let pieces = share(40, &sizes, |index, room| "x".repeat(sizes[index].min(room)));
        let rendered: Vec<usize> = pieces.iter().map(String::len).collect();
        assert_eq!(rendered, [15, 3, 15, 7]);
    }
}
