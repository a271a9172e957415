//! Chooses a routine for a message.
//!
//! The built-in router compares words, needs no network and is deterministic. For an external router (an AI tool, which may
//! wrap its answer in prose) this module writes the prompt and parses the reply; the pipeline runs the command.

use std::collections::{BTreeMap, BTreeSet};

use super::discovery::{Routine, RoutineKind, Routines};
use crate::message::MessageName;
use crate::project::RoutineName;
use crate::stemming::{is_stop_word, stem, words};

/// How many characters of a message an external router gets: its beginning says what it is about.
const PROMPT_LIMIT: usize = 8_000;

/// The routine whose name and description share most words with the message; `None` if none shares any.
///
/// A word has more weight the fewer routines have it. Of equals, the first by name.
pub fn rank(message: &str, routines: &Routines) -> Option<RoutineName> {
    let wanted = stems(message);
    let candidates: Vec<(&Routine, BTreeSet<String>)> = routines
        .iter()
        .map(|routine| (routine, stems(&format!("{} {}", routine.name, routine.description))))
        .collect();
    let mut frequency: BTreeMap<&str, u32> = BTreeMap::new();
    for word in candidates.iter().flat_map(|(_, words)| words) {
        *frequency.entry(word).or_default() += 1;
    }
    let weight = |word: &String| {
        let rarity = candidates.len() as f64 / f64::from(frequency[word.as_str()]);
        // Integers, because the order of adding them does not matter.
        ((1.0 + rarity).ln() * 1000.0).round() as u64
    };
    let mut best: Option<(u64, &Routine)> = None;
    for (routine, words) in &candidates {
        let score: u64 = words.intersection(&wanted).map(weight).sum();
        if score > best.map_or(0, |(score, _)| score) {
            best = Some((score, routine));
        }
    }
    best.map(|(_, routine)| routine.name.clone())
}

fn stems(text: &str) -> BTreeSet<String> {
    words(text).filter(|word| !is_stop_word(word)).map(|word| stem(&word)).collect()
}

/// The prompt that asks an external router for a routine.
pub fn prompt_for_routine(routines: &Routines, message: &str) -> String {
    let mut prompt = String::from("Choose the routine that fits this task best.\n\nRoutines:\n");
    for routine in routines.iter() {
        let description = routine.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let separator = if description.is_empty() { "" } else { ": " };
        prompt.push_str(&format!("- {}{separator}{description}\n", routine.name));
    }
    prompt.push_str("\nTask:\n");
    prompt.push_str(beginning(message));
    prompt.push_str("\n\nRespond with ONLY the name of the routine.\n");
    prompt
}

/// The prompt that asks an external router for a message's name.
pub fn prompt_for_name(message: &str) -> String {
    format!(
        "Summarize this task as a kebab-case name under 5 words. Respond with ONLY the name.\n\nTask:\n{}\n",
        beginning(message)
    )
}

fn beginning(message: &str) -> &str {
    let message = message.trim();
    message.char_indices().nth(PROMPT_LIMIT).map_or(message, |(end, _)| &message[..end])
}

/// The routine that a reply names: the whole reply, perhaps in quotes, or the only routine on its last non-empty line.
pub fn parse_routine_reply(reply: &str, routines: &Routines) -> Option<RoutineName> {
    let known = |text: &str| routines.names().find(|name| name.as_str() == text).cloned();
    if let Some(name) = known(unquoted(reply)) {
        return Some(name);
    }
    let line = last_line(reply)?;
    if let Some(name) = known(unquoted(line)) {
        return Some(name);
    }
    let is_separator = |c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.');
    let mut named: Vec<RoutineName> = line
        .split(is_separator)
        .filter_map(|word| known(word).or_else(|| known(without_extension(word))))
        .collect();
    named.dedup();
    match named.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The message name that a reply gives: its last line, if that is not a whole sentence.
pub fn parse_name_reply(reply: &str) -> Option<MessageName> {
    let line = unquoted(last_line(reply)?);
    // `Name: fix-auth` and `**fix-auth**` are names; prose is not.
    let line = line.rsplit_once(": ").map_or(line, |(_, name)| unquoted(name));
    match line.split_whitespace().count() {
        1..=6 => MessageName::kebab(line),
        _ => None,
    }
}

/// Turns `review.sh`, and `review.` at the end of a sentence, into `review`.
fn without_extension(word: &str) -> &str {
    let word = word.trim_matches(['.', '-', '_']);
    RoutineKind::ALL.iter().find_map(|kind| word.strip_suffix(kind.extension())).unwrap_or(word)
}

fn last_line(reply: &str) -> Option<&str> {
    reply.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("```"))
}

/// Removes surrounding quotes, backticks and asterisks, and a final full stop.
fn unquoted(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '*' | '“' | '”'))
        .trim_end_matches('.')
        .trim_matches(['`', '"', '\'', '*'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routines(list: &[(&str, &str)]) -> Routines {
        let dir = tempfile::tempdir().unwrap();
        for (name, description) in list {
            let comment: String = description.lines().map(|line| format!("# {line}\n")).collect();
            std::fs::write(dir.path().join(format!("{name}.sh")), comment).unwrap();
        }
        Routines::discover(&[dir.path().to_owned()], false).unwrap()
    }

    fn usual() -> Routines {
        routines(&[
            ("develop", "Implements a change in the code.\nRuns the tests."),
            ("review", "Reviews the code of a branch and writes comments."),
            ("docs", "Writes documentation."),
            ("rust-develop", "Implements a change in Rust code with cargo."),
        ])
    }

    fn ranked(message: &str) -> Option<String> {
        rank(message, &usual()).map(|name| name.to_string())
    }

    fn reply(text: &str) -> Option<String> {
        parse_routine_reply(text, &usual()).map(|name| name.to_string())
    }

    #[test]
    fn the_routine_whose_description_fits_is_chosen() {
        assert_eq!(ranked("Please review the current branch").as_deref(), Some("review"));
        assert_eq!(ranked("write the documentation of the API").as_deref(), Some("docs"));
        assert_eq!(ranked("Implementing a parser in Rust").as_deref(), Some("rust-develop"));
        assert_eq!(ranked("tests are failing").as_deref(), Some("develop"));
    }

    #[test]
    fn nothing_in_common_is_no_choice_and_equals_go_by_name() {
        assert_eq!(ranked("the a of"), None);
        assert_eq!(ranked(""), None);
        assert_eq!(ranked("zebra"), None);
        assert_eq!(rank("x", &routines(&[])), None);
        let equal = routines(&[("b", "Fixes bugs."), ("a", "Fixes bugs.")]);
        assert_eq!(rank("fix a bug", &equal).unwrap().as_str(), "a");
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one() {
        let three = routines(&[("a", "code change"), ("b", "code change"), ("c", "code zebra")]);
        assert_eq!(rank("change zebra", &three).unwrap().as_str(), "c");
    }

    #[test]
    fn a_reply_may_be_wrapped_in_prose() {
        for text in [
            "review",
            " review\n",
            "`review`",
            "\"review\".",
            "**review**",
            "I looked at it.\nThis touches docs and develop.\n\nThe best routine is `review`.\n\n",
            "Use review, since review fits.",
            "```\nreview\n```",
            ".decree/routines/review.sh",
        ] {
            assert_eq!(reply(text).as_deref(), Some("review"), "{text:?}");
        }
        assert_eq!(reply("rust-develop").as_deref(), Some("rust-develop"));
        assert_eq!(reply("I choose rust-develop.").as_deref(), Some("rust-develop"));
    }

    #[test]
    fn a_reply_that_names_several_or_none_is_rejected() {
        for text in ["", "\n\n", "review or docs", "reviewer", "review\nI cannot decide", "REVIEW?!x"] {
            assert_eq!(reply(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_name_is_read_from_a_reply() {
        let name = |text: &str| parse_name_reply(text).map(|name| name.to_string());
        for text in [
            "fix-auth",
            "`fix-auth`\n",
            "Sure!\n\nFix Auth",
            "Name: **fix-auth**",
            "```\nfix-auth\n```",
            "\"fix-auth\".",
        ] {
            assert_eq!(name(text).as_deref(), Some("fix-auth"), "{text:?}");
        }
        for text in ["", "```\n```", "...", "I am sorry, but I cannot help you with that today"] {
            assert_eq!(name(text), None, "{text:?}");
        }
    }

    #[test]
    fn prompts_contain_the_task_and_the_routines() {
        let prompt = prompt_for_routine(&usual(), "do x\n");
        assert!(prompt.contains("- develop: Implements a change in the code. Runs the tests.\n"), "{prompt}");
        assert!(prompt.contains("\nTask:\ndo x\n"), "{prompt}");
        assert!(prompt_for_name(&"é".repeat(100_000)).len() < 20_000);
    }
}
