//! A report as JUnit XML, which every CI can show: one test case per message.
//!
//! XML 1.0 cannot represent most control characters, not even escaped, so they are dropped.

use std::fmt::Write;

use super::model::{Report, RunFiles};
use super::text::verdict_words;
use crate::pipeline::{MessageOutcome, MessageSummary};
use crate::sanitize::{last_lines, strip_controls};

/// How many lines of the log a failure contains.
const LINES: usize = 100;

pub fn render(report: &Report) -> String {
    let summary = &report.summary;
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{}\"",
        summary.messages.len(),
        summary.reverted,
        seconds(summary.duration_ms),
    );
    // Jenkins' schema allows `skipped` only on the inner element.
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"decree\" {counts}>\n  \
         <testsuite name=\"decree {}\" {counts} skipped=\"{}\" timestamp=\"{}\">\n",
        attribute(&summary.command),
        summary.skipped,
        attribute(summary.started_at.trim_end_matches('Z')),
    );
    for (message, files) in report.messages() {
        case(&mut out, message, files);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, message: &MessageSummary, files: &RunFiles) {
    let (name, time) = (attribute(&message.run.name), seconds(message.run.duration_ms));
    let _ = write!(out, "    <testcase classname=\"decree\" name=\"{name}\" time=\"{time}\"");
    let summary = format!("{}: {}", verdict_words(message), message.run.reason);
    let summary = summary.trim_end_matches([':', ' ']);
    match message.outcome() {
        MessageOutcome::Kept => out.push_str("/>\n"),
        MessageOutcome::Skipped => {
            let _ = writeln!(out, ">\n      <skipped>{}</skipped>\n    </testcase>", content(summary));
        }
        MessageOutcome::Reverted => {
            let kind = message.verdict.word();
            let _ = writeln!(
                out,
                ">\n      <failure message=\"{}\" type=\"{kind}\">{}</failure>\n    </testcase>",
                attribute(summary),
                content(&failure_text(message, files))
            );
        }
    }
}

/// How each attempt ended, the commands to run next, and the end of the log.
fn failure_text(message: &MessageSummary, files: &RunFiles) -> String {
    let mut text = super::text::failure(message, super::text::Paint(false));
    let lines = files.last_log().map_or_else(Vec::new, |log| last_lines(log, LINES));
    if !lines.is_empty() {
        let _ = write!(text, "\nthe end of the log:\n{}\n", lines.join("\n"));
    }
    text
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Whether XML 1.0 can represent the character.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn content(text: &str) -> String {
    let text: String = strip_controls(text).chars().filter(|c| is_char(*c)).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn attribute(text: &str) -> String {
    content(text).replace('"', "&quot;").replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::{Summary, Verdict};
    use crate::report::model::{AttemptLog, Excerpt};

    fn failed(name: &str, log: &str) -> Report {
        let mut summary = Summary::new("process");
        let mut message = MessageSummary::without_run(name.to_owned(), Verdict::FailedReverted);
        name.clone_into(&mut message.run.reason);
        summary.add(message);
        summary.add(MessageSummary::without_run("later".to_owned(), Verdict::Skipped));
        let mut report = Report::new(summary);
        let end = Excerpt { text: log.to_owned(), left_out: 0 };
        report.runs[0].logs.push(AttemptLog { attempt: 1, end });
        report
    }

    #[test]
    fn a_hostile_log_is_still_xml_and_is_read_back() {
        let log = "]]> <![CDATA[ &amp; </failure> \0 \u{1b}[31mred\u{1b}[0m \u{ffff} \u{fffe} \u{b}last";
        let text = render(&failed("a<b>\"&\n'c", log));
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let case = document.descendants().find(|node| node.has_tag_name("testcase")).unwrap();
        assert_eq!(case.attribute("name"), Some("a<b>\"&\n'c"));
        let failure = case.first_element_child().unwrap();
        assert_eq!(failure.attribute("type"), Some("failed-reverted"));
        assert!(failure.text().unwrap().contains("]]> <![CDATA[ &amp; </failure>  red   last"), "{text}");
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("skipped")).count(), 1);
    }

    proptest! {
        #[test]
        fn whatever_a_routine_prints_the_document_is_xml(name in any::<String>(), log in any::<String>()) {
            let text = render(&failed(&name, &log));
            prop_assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
        }
    }
}
