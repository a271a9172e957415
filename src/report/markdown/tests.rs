//! The budget and the fences, whatever the content.

use proptest::prelude::*;

use super::{BUDGET, render};
use crate::pipeline::{
    AttemptRecord, Ending, FileChange, MessageSummary, RevertRecord, RunRecord, Summary, Verdict,
};
use crate::report::Report;
use crate::report::diff::{Diff, FileDiff};
use crate::report::model::{AttemptLog, Excerpt};

const ID: &str = "2026111603120000-0";

/// A report of one change and one failure whose texts are all untrusted.
fn report(name: &str, path: &str, lines: &[String], log: &str) -> Report {
    let mut summary = Summary::new("process");
    let file = FileChange { path: path.to_owned(), added: 3, removed: 1, binary: false };
    let run = RunRecord {
        name: name.to_owned(),
        spec: Some("specs/x".to_owned()),
        kept: true,
        warnings: vec![name.to_owned()],
        ..RunRecord::default()
    };
    summary.add(MessageSummary {
        id: Some(ID.to_owned()),
        run,
        files: vec![file.clone(), file],
        run_dir: Some("x".to_owned()),
        ..MessageSummary::without_run(String::new(), Verdict::Success)
    });
    let attempt = AttemptRecord {
        number: 1,
        clean_slate: true,
        ending: Ending::Exit { code: 1 },
        reason: name.to_owned(),
        exit_code: Some(1),
        duration_ms: 1000,
        files: 2,
        added: 3,
        removed: 1,
        headline: path.to_owned(),
        usage: None,
    };
    let run = RunRecord {
        name: path.to_owned(),
        reason: path.to_owned(),
        attempts: vec![attempt],
        reverted: Some(RevertRecord { paths: 2, verified: 78_622, ..RevertRecord::default() }),
        ..RunRecord::default()
    };
    summary.add(MessageSummary {
        id: Some(format!("`{name}`")),
        run,
        run_dir: Some("x".to_owned()),
        ..MessageSummary::without_run(String::new(), Verdict::FailedReverted)
    });
    let mut report = Report::new(summary);
    let hunk = |lines: &[String]| {
        lines.iter().fold("@@ -1 +1 @@\n".to_owned(), |text, line| format!("{text}+{line}\n"))
    };
    let (a, b) = lines.split_at(lines.len() / 2);
    let file = |hunks| FileDiff {
        path: path.to_owned(),
        note: String::new(),
        head: format!("diff --git a/{path} b/{path}\n"),
        hunks,
    };
    report.runs[0].diff =
        Some(Diff { files: vec![file(vec![hunk(a), hunk(b)]), file(vec![hunk(lines)])], cut: false });
    let end = Excerpt { text: log.to_owned(), left_out: 0 };
    report.runs[1].logs.push(AttemptLog { attempt: 1, end });
    report
}

/// The text outside of code fences. Panics if a fence is not closed.
fn outside_fences(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let marks = line.len() - line.trim_start_matches('`').len();
        if marks < 3 {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let fence = "`".repeat(marks);
        let closed = lines.by_ref().any(|line| {
            let run = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            assert!(run < marks || line == fence, "{line:?} within {fence}");
            line == fence
        });
        assert!(closed, "a fence is open in\n{text}");
    }
    out
}

/// Panics if untrusted text could be parsed as anything but text.
fn assert_only_text(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
    let outside = outside_fences(text);
    let tags = ["<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"];
    for tag in tags {
        assert_eq!(outside.matches(tag).count(), outside.matches(&tag.replace('/', "")).count(), "{text}");
    }
    let bare = tags.iter().fold(outside.clone(), |text, tag| text.replace(tag, ""));
    assert!(!bare.contains(['<', '>', '[', ']', '~', '\\']), "{bare}");
    for (at, c) in bare.char_indices().filter(|(_, c)| matches!(c, '@' | '#')) {
        let next = bare[at + 1..].chars().next();
        assert!(
            next.is_none_or(|next| matches!(next, '\u{200b}' | '#' | ' ' | '\n') || bare[..at].ends_with('&')),
            "{c} {bare}"
        );
    }
    assert!(!bare.contains("://") && !bare.contains("www."), "{bare}");
    for line in outside.lines().filter(|line| line.starts_with("| ")) {
        assert_eq!(line.matches('|').count(), 6, "{line}");
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("```".to_owned()),
        Just("`````".to_owned()),
        Just("</details>".to_owned()),
        Just("</summary>".to_owned()),
        Just("<!--".to_owned()),
        Just("@octocat".to_owned()),
        Just("#123".to_owned()),
        Just("https://example.org".to_owned()),
        Just("www.example.org".to_owned()),
        Just("[a](b)".to_owned()),
        Just("|".to_owned()),
        Just("\u{1b}[31m".to_owned()),
        Just("\0".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("é…🦀".to_owned()),
        "[ -~]{0,20}",
        any::<String>(),
    ];
    prop::collection::vec(word, 0..6).prop_map(|words| words.concat())
}

/// Hostile lines of a diff, without newlines.
fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(hostile().prop_map(|line| line.replace('\n', " ")), 0..60)
}

proptest! {
    #[test]
    fn it_never_exceeds_its_budget_and_untrusted_text_stays_text(
        name in hostile(),
        path in hostile(),
        lines in lines(),
        log in hostile(),
        budget in 0usize..6000,
    ) {
        let report = report(&name, &path.replace('\n', " "), &lines, &log);
        let text = render(&report, budget);
        prop_assert!(text.len() <= budget, "{} of {budget}", text.len());
        assert_only_text(&text);
        assert_only_text(&render(&report, BUDGET));
    }
}

fn numbered(lines: usize) -> Vec<String> {
    (0..lines).map(|number| format!("line {number}")).collect()
}

#[test]
fn the_budget_is_used_and_omissions_name_the_command() {
    let report = report("01-x", "src/a.rs", &numbered(5000), "boom\n");
    let text = render(&report, 8000);
    assert!((7000..=8000).contains(&text.len()), "{}", text.len());
    for part in
        ["hunk left out", "shown in part", &format!("`decree apply {ID}`"), "boom", "78,622 files verified"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let whole = render(&self::report("01-x", "src/a.rs", &numbered(50), "boom\n"), BUDGET);
    assert!(!whole.contains("left out") && !whole.contains("in part"), "{whole}");
}

#[test]
fn if_not_all_rows_fit_failed_ones_are_shown() {
    let mut summary = Summary::new("process");
    for number in 0..2000 {
        let kept = number != 1500;
        let verdict = if kept { Verdict::Success } else { Verdict::TimedOut };
        let mut message = MessageSummary::without_run(format!("{number:04}-spec"), verdict);
        message.run.kept = kept;
        summary.add(message);
    }
    let text = render(&Report::new(summary), 10_000);
    assert!(text.len() <= 10_000 && text.contains("1500-spec") && text.contains("more |"), "{text}");
    assert!(text.starts_with("### decree: 1,999 of 2,000 messages kept, 1 dead letter\n"), "{text}");
}

#[test]
fn one_verified_file_is_singular() {
    let mut report = report("01-x", "src/a.rs", &numbered(5), "boom\n");
    report.summary.messages[1].run.reverted = Some(RevertRecord { verified: 1, ..RevertRecord::default() });
    let text = render(&report, BUDGET);
    assert_eq!(text.matches("1 file verified").count(), 2, "the row and the section:\n{text}");
    assert!(report.headline().starts_with("1 of 1 spec and 0 of 1 message kept"), "{}", report.headline());
}

#[test]
fn an_empty_line_follows_every_summary() {
    let text = render(&report("01-x", "src/a.rs", &numbered(5), "boom\n"), BUDGET);
    assert_eq!(text.matches("</summary>\n\n").count(), 2, "{text}");
}
