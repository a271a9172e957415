//! A report as a comment: a hidden marker, the report, and its origin.

use super::escape::{fence, inline};
use super::fold::{NAME, id};
use super::page::{facts, run_directory_hint, with_footer};
use crate::report::model::Report;
use crate::sanitize::one_line;

/// The longest URL that is linked.
const LONGEST: usize = 2000;

/// A URL that is safe in a Markdown link: only `http` and `https`, and no character that could end the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress(String);

/// The CI run that a report comes from; each part is optional.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub run: Option<u64>,
    pub attempt: Option<u64>,
    pub run_url: Option<WebAddress>,
    /// The commit that was checked out.
    pub commit: Option<String>,
    /// The artifact with all run directories.
    pub artifact_name: Option<String>,
    pub artifact_url: Option<WebAddress>,
}

impl WebAddress {
    /// Accepts an `http` or `https` URL.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        let is_foreign = |byte: u8| !byte.is_ascii_graphic() || b"<>\"'`()[]{}|\\^".contains(&byte);
        let fits = text.len() <= LONGEST && rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        (fits && !rest.bytes().any(is_foreign)).then(|| WebAddress(text.to_owned()))
    }
}

/// Renders the comment, marker first, in at most `budget` bytes. Everything but the marker passes through `redact`.
pub fn comment(
    report: &Report,
    marker: &str,
    origin: &Origin,
    budget: usize,
    redact: impl Fn(&str) -> String,
) -> String {
    let room = budget.saturating_sub(marker.len() + 1);
    let page = with_footer(report, room, footer(report, origin));
    format!("{marker}\n{}", redact(&page))
}

fn footer(report: &Report, origin: &Origin) -> String {
    let mut all = Vec::new();
    if let Some(run) = origin.run {
        let attempt = origin.attempt.map_or_else(String::new, |attempt| format!(", attempt {attempt}"));
        all.push(link(&format!("run {run}{attempt}"), origin.run_url.as_ref()));
    }
    if let Some(commit) = origin.commit.as_deref().filter(|commit| is_commit(commit)) {
        all.push(format!("commit {}", &commit[..7]));
    }
    all.extend(facts(report));
    format!("{}<sub>{}</sub>\n", artifact_hint(report, origin), all.join(" · "))
}

/// Where to find what the comment omits: in the artifact, if there is one.
fn artifact_hint(report: &Report, origin: &Origin) -> String {
    let shown = match (&origin.artifact_name, &origin.artifact_url) {
        (None, None) => return run_directory_hint(report).to_owned(),
        (Some(name), url) => link(&format!("artifact {}", inline(name, NAME)), url.as_ref()),
        (None, url) => link("the artifact", url.as_ref()),
    };
    let kept = report.summary.messages.iter().find(|message| message.run.kept && !message.files.is_empty());
    let apply = kept.and_then(id).map(|id| {
        let zip = format!("{}.zip", one_line(origin.artifact_name.as_deref().unwrap_or("ARTIFACT")));
        let command = format!("decree apply {id} --from {}", shell_words::quote(&zip));
        format!(" Apply one here: {}", code(&command))
    });
    format!("Whole diffs and logs: {shown}.{}\n\n", apply.unwrap_or_default())
}

fn link(text: &str, url: Option<&WebAddress>) -> String {
    url.map_or_else(|| text.to_owned(), |url| format!("[{text}]({})", url.0))
}

/// A command as inline code that nothing in it can close.
fn code(text: &str) -> String {
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let marks = fence(text);
    format!("{marks} {text} {marks}")
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{MessageSummary, Summary, Verdict};

    #[test]
    fn only_web_urls_are_linked() {
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

    #[test]
    fn it_begins_with_the_marker_and_never_exceeds_the_budget() {
        let mut summary = Summary::new("process");
        for number in 0..30 {
            summary.add(MessageSummary::without_run(format!("{number:02}-a-spec"), Verdict::TimedOut));
        }
        let report = Report::new(summary);
        let origin = Origin {
            run: Some(1),
            commit: Some("1a2b3c4d".to_owned()),
            artifact_name: Some("x".repeat(200)),
            artifact_url: WebAddress::parse("https://x.y/z"),
            ..Origin::default()
        };
        for budget in (20..6000).step_by(7) {
            let text = comment(&report, "<!-- marker -->", &origin, budget, str::to_owned);
            assert!(text.len() <= budget && text.starts_with("<!-- marker -->\n"), "{budget}: {text}");
        }
    }

    #[test]
    fn an_artifacts_name_stays_a_name() {
        assert_eq!(code("a `b`"), "``` a `b` ```");
        assert!(is_commit("1a2b3c4d5e") && !is_commit("1a2b") && !is_commit("not a commit"));
    }
}
