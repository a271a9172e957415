//! Assembles the HTML page from template, style, script and the JSON that the script reads.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::humanize::{count, duration};
use crate::message::MessageId;
use crate::pipeline::{AttemptRecord, Ending, FileChange, MessageOutcome, MessageSummary};
use crate::report::diff::FileDiff;
use crate::report::model::{Report, RunFiles};
use crate::report::text::{Paint, closing, cost, verdict_words};
use crate::sanitize::strip_controls;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("dom.js"),
    include_str!("ansi.js"),
    include_str!("diff.js"),
    include_str!("view.js"),
    include_str!("search.js"),
];

pub fn render(report: &Report) -> String {
    let script = format!("\"use strict\";\n{{\n{}}}\n", SCRIPTS.concat());
    let title = escape(&format!("decree: {}", report.headline()));
    let text = escape(&strip_controls(&closing(&report.summary, Paint(false))));
    let data = page_data(report).to_string();
    fill(&[
        ("{policy}", &policy(STYLE, &script)),
        ("{title}", &title),
        ("{style}", STYLE),
        ("{title}", &title),
        ("{text}", &text),
        ("{data}", &in_script(&data)),
        ("{script}", &script),
    ])
}

/// Replaces the placeholders, in order. Only the template is searched, never an inserted value.
fn fill(values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = TEMPLATE;
    for (placeholder, value) in values {
        let (before, after) = rest.split_once(placeholder).expect("the template has it, in this order");
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The content security policy: the page loads nothing and runs only its own script.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(style),
        hash(script)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes JSON for a script element, so that nothing in it can close the element or start a comment.
fn in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 8);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

fn page_data(report: &Report) -> Value {
    let summary = &report.summary;
    let mut facts = vec![
        format!("decree {} {}", summary.decree, summary.command),
        summary.started_at.replace('T', " "),
        duration(summary.duration()),
    ];
    facts.extend(cost(summary.usage.usd));
    let messages = report.messages().map(|(summary, files)| message(summary, files));
    json!({"facts": facts, "messages": messages.collect::<Vec<_>>()})
}

fn message(summary: &MessageSummary, found: &RunFiles) -> Value {
    let run = &summary.run;
    let tone = match summary.outcome() {
        MessageOutcome::Kept => "good",
        MessageOutcome::Reverted => "bad",
        MessageOutcome::Skipped => "idle",
    };
    json!({
        "id": summary.id.as_deref().and_then(MessageId::parse).map(|id| id.to_string()),
        "name": run.name,
        "follows": summary.seq > 0,
        "routine": run.routine,
        "spec": run.spec,
        "tone": tone,
        "words": verdict_words(summary),
        "reason": run.reason,
        "verified": run.reverted.as_ref().map(|put_back| {
            format!("{}{}", count(put_back.verified as usize, "file"), put_back.exceptions())
        }),
        "commits": run.commits(),
        "warnings": run.warnings,
        "ms": run.duration_ms,
        "time": duration(Duration::from_millis(run.duration_ms)),
        "cost": cost(run.usage.usd),
        "added": summary.added,
        "removed": summary.removed,
        "attempts": run.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "files": files(&summary.files, found),
        "cut": found.diff.as_ref().is_some_and(|diff| diff.cut),
        "logs": found.logs,
        "context": found.failure_context,
    })
}

fn attempt(record: &AttemptRecord) -> Value {
    let tone = match record.ending {
        Ending::Succeeded => "good",
        Ending::Interrupted | Ending::NothingChanged => "idle",
        _ => "bad",
    };
    json!({
        "number": record.number,
        "clean": record.clean_slate,
        "tone": tone,
        "reason": record.reason,
        "headline": record.headline,
        "ms": record.duration_ms,
        "time": duration(Duration::from_millis(record.duration_ms)),
        "files": record.files,
        "added": record.added,
        "removed": record.removed,
    })
}

/// The files in the summary, each with its section of the diff; `missing` if the loaded diff does not contain it.
fn files(changes: &[FileChange], found: &RunFiles) -> Vec<Value> {
    let diff = found.diff.iter().flat_map(|diff| &diff.files);
    let known: HashMap<&str, &FileDiff> = diff.map(|file| (file.path.as_str(), file)).collect();
    let none = FileDiff::default();
    let file = |change: &FileChange| {
        let diff = known.get(change.path.as_str());
        let FileDiff { note, head, hunks, .. } = diff.unwrap_or(&&none);
        json!({
            "path": change.path,
            "added": change.added,
            "removed": change.removed,
            "binary": change.binary,
            "missing": diff.is_none(),
            "note": note,
            "head": head,
            "hunks": hunks,
        })
    };
    changes.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Summary, Verdict};
    use crate::report::diff::Diff;
    use crate::report::model::{AttemptLog, Excerpt};

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> {script} {data} \u{2028}\0\u{1b}[31m";

    fn hostile() -> Report {
        let mut summary = Summary::new("process");
        let mut message = MessageSummary::without_run(HOSTILE.to_owned(), Verdict::FailedReverted);
        message.run.reason = HOSTILE.to_owned();
        summary.add(MessageSummary { id: Some(HOSTILE.to_owned()), ..message });
        summary.command = HOSTILE.to_owned();
        let mut report = Report::new(summary);
        let text = || Excerpt { text: HOSTILE.to_owned(), left_out: 0 };
        let file =
            FileDiff { path: HOSTILE.to_owned(), hunks: vec![HOSTILE.to_owned()], ..FileDiff::default() };
        report.runs[0].diff = Some(Diff { files: vec![file], cut: false });
        report.runs[0].logs.push(AttemptLog { attempt: 1, end: text() });
        report.runs[0].failure_context = Some(text());
        report
    }

    #[test]
    fn no_byte_of_a_routine_is_parsed_as_html() {
        let (empty, hostile) = (render(&Report::new(Summary::new("process"))), render(&hostile()));
        for mark in ["<script", "</script", "<!--", "<img"] {
            assert_eq!(hostile.matches(mark).count(), empty.matches(mark).count(), "{mark}");
        }
        let data = hostile.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        assert!(!data.contains(['<', '>', '\u{2028}', '\0', '\u{1b}']));
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["messages"][0]["name"], HOSTILE);
        assert_eq!(
            data["messages"][0]["id"],
            serde_json::Value::Null,
            "only a valid id appears in a command"
        );
    }

    #[test]
    fn the_page_loads_nothing_and_runs_only_its_own_script() {
        let page = render(&Report::new(Summary::new("process")));
        for outside in
            ["http://", "https://", "url(", "@import", "src=", "innerHTML", "insertAdjacentHTML", "eval("]
        {
            assert!(!page.contains(outside), "{outside}");
        }
        let between = |start: &str, end: &str| page.rsplit_once(start).unwrap().1.split_once(end).unwrap().0;
        let policy = page.split_once("Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
        for part in [between("<style>", "</style>"), between("<script>", "</script>")] {
            let hash = STANDARD.encode(Sha256::digest(part));
            assert!(policy.contains(&hash), "{policy} has no {hash}");
        }
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }
}
