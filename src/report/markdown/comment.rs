//! A report as a comment: a hidden marker, the report, and where it comes from.

use super::escape::{fence, inline};
use super::fold::{NAME, id};
use super::page::{facts, whereabouts, with_foot};
use crate::report::model::Report;
use crate::sanitize::one_line;

/// The longest address.
const LONGEST: usize = 2000;

/// An address that a link may lead to: nothing but `http` and `https`, and nothing in it that could end the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress(String);

/// Where the whole of it can be had.
#[derive(Clone, Debug, Default)]
pub struct Artifact {
    /// What it is called.
    pub name: Option<String>,
    /// Where it is.
    pub url: Option<WebAddress>,
}

/// Where a report comes from, as far as that is known.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The run of a workflow, by its number.
    pub run: Option<u64>,
    /// Which attempt of it.
    pub attempt: Option<u64>,
    /// Where that can be seen.
    pub run_url: Option<WebAddress>,
    /// What was worked on.
    pub commit: Option<String>,
    /// Where the whole of it can be had.
    pub artifact: Artifact,
}

impl WebAddress {
    /// Takes an address of the web.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let is_foreign = |byte: u8| !byte.is_ascii_graphic() || b"<>\"'`()[]{}|\\^".contains(&byte);
        let fits = text.len() <= LONGEST && rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        (fits && !rest.bytes().any(is_foreign)).then(|| WebAddress(text.to_owned()))
    }
}

/// The text, from the marker on, no longer than `budget` bytes. Everything in it went through `redact`, but the marker.
pub fn comment(
    report: &Report,
    marker: &str,
    origin: &Origin,
    budget: usize,
    redact: impl Fn(&str) -> String,
) -> String {
    let room = budget.saturating_sub(marker.len() + 1);
    let page = with_foot(report, room, foot(report, origin));
    format!("{marker}\n{}", redact(&page))
}

fn foot(report: &Report, origin: &Origin) -> String {
    let mut all = Vec::new();
    if let Some(run) = origin.run {
        let attempt = origin.attempt.map_or_else(String::new, |attempt| format!(", attempt {attempt}"));
        all.push(link(&format!("run {run}{attempt}"), origin.run_url.as_ref()));
    }
    if let Some(commit) = origin.commit.as_deref().filter(|commit| is_commit(commit)) {
        all.push(format!("commit {}", &commit[..7]));
    }
    all.extend(facts(report));
    format!("{}<sub>{}</sub>\n", elsewhere(report, &origin.artifact), all.join(" · "))
}

/// Where the rest is: in the artifact, if there is one.
fn elsewhere(report: &Report, artifact: &Artifact) -> String {
    let shown = match (&artifact.name, &artifact.url) {
        (None, None) => return whereabouts(report).to_owned(),
        (Some(name), url) => link(&format!("artifact {}", inline(name, NAME)), url.as_ref()),
        (None, url) => link("the artifact", url.as_ref()),
    };
    let kept = report.summary.messages.iter().find(|message| message.kept && !message.files.is_empty());
    let apply = kept.and_then(id).map(|id| {
        let zip = format!("{}.zip", one_line(artifact.name.as_deref().unwrap_or("ARTIFACT")));
        let command = format!("decree apply {id} --from {}", shell_words::quote(&zip));
        format!(" Apply one here: {}", code(&command))
    });
    format!("Whole diffs and logs: {shown}.{}\n\n", apply.unwrap_or_default())
}

fn link(text: &str, url: Option<&WebAddress>) -> String {
    match url {
        Some(url) => format!("[{text}]({})", url.0),
        None => text.to_owned(),
    }
}

/// A command, within marks that nothing in it can close.
fn code(text: &str) -> String {
    match text.contains('`') {
        true => {
            let marks = fence(text);
            format!("{marks} {text} {marks}")
        }
        false => format!("`{text}`"),
    }
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{MessageSummary, Summary, Verdict};

    /// CMT-07.
    #[test]
    fn a_link_leads_to_the_web_only() {
        for good in
            ["https://github.com/octo/repo/actions/runs/1/artifacts/2", "http://localhost:8080/a?b=c#d"]
        {
            assert!(WebAddress::parse(good).is_some(), "{good}");
        }
        for bad in [
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://x.y",
            "//x.y",
            "https://",
            "https:///x",
            "https://x.y/a)b",
            "https://x.y/<b>",
            "https://x.y/a b",
            "https://x.y/\nz",
            "https://x.y/é",
        ] {
            assert!(WebAddress::parse(bad).is_none(), "{bad}");
        }
    }

    /// CMT-07.
    #[test]
    fn it_begins_with_the_marker_and_never_exceeds_the_budget() {
        let mut summary = Summary::new("process");
        for number in 0..30 {
            summary.add(MessageSummary::without_run(format!("{number:02}-a-spec"), Verdict::TimedOut));
        }
        let report = Report::new(summary);
        let artifact = Artifact { name: Some("x".repeat(200)), url: WebAddress::parse("https://x.y/z") };
        let origin =
            Origin { run: Some(1), commit: Some("1a2b3c4d".to_owned()), artifact, ..Origin::default() };
        for budget in (20..6000).step_by(7) {
            let text = comment(&report, "<!-- marker -->", &origin, budget, str::to_owned);
            assert!(text.len() <= budget && text.starts_with("<!-- marker -->\n"), "{budget}: {text}");
        }
    }

    /// CMT-07.
    #[test]
    fn an_artifacts_name_stays_a_name() {
        assert_eq!(code("a `b`"), "``` a `b` ```");
        assert!(is_commit("1a2b3c4d5e") && !is_commit("1a2b") && !is_commit("not a commit"));
    }
}
