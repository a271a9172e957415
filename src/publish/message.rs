//! The text of a commit message. Pure, except that it reads the spec.
//!
//! Headings and names are untrusted text: each is reduced to one plain line, and none is in the last paragraph, where git looks
//! for trailers. So only decree can set a trailer.

use crate::history::RunDir;
use crate::humanize::count;
use crate::message::{Document, read_text};
use crate::project::Layout;
use crate::sanitize::one_line;

use super::plan::{Chain, PlannedRun};

/// The trailer that names a run; later publishes find it and skip the run.
pub const RUN_TRAILER: &str = "Decree-Run";
const SPEC_TRAILER: &str = "Decree-Spec";
/// The longest subject, in characters.
const SUBJECT: usize = 72;
/// The longest name of a run in the body, in characters.
const NAME: usize = 60;

/// The first line: `<prefix><name>: <heading>`. Secrets are redacted before truncation, which could hide half of one.
pub fn subject(chain: &Chain, layout: &Layout, prefix: &str, redact: impl Fn(&str) -> String) -> String {
    let name = one_line(&chain.first().result.run.name);
    let text = match heading(chain, layout) {
        Some(heading) => format!("{prefix}{name}: {heading}"),
        None => format!("{prefix}{name}"),
    };
    shortened(&redact(&one_line(&text)), SUBJECT)
}

pub fn message(chain: &Chain, subject: &str, redact: impl Fn(&str) -> String) -> String {
    let mut text = format!("{subject}\n\n");
    match &chain.runs[..] {
        [run] => text.push_str(&format!("Carried out by decree: {}.\n", run_facts(run))),
        runs => {
            text.push_str(&format!("Carried out by decree in {}:\n\n", count(runs.len(), "run")));
            for run in runs {
                let name = shortened(&redact(&one_line(&run.result.run.name)), NAME);
                text.push_str(&format!("- {name}: {}\n", run_facts(run)));
            }
        }
    }
    text.push('\n');
    for run in &chain.runs {
        text.push_str(&format!("{RUN_TRAILER}: {}\n", run.id));
    }
    if let Some(spec) = chain.spec() {
        text.push_str(&format!("{SPEC_TRAILER}: {}\n", one_line(spec)));
    }
    text
}

/// The facts of a run in one line: `routine develop, 2 attempts, 3 files, +10 −2`.
fn run_facts(run: &PlannedRun) -> String {
    let record = &run.result.run;
    let mut parts = Vec::new();
    if let Some(routine) = &record.routine {
        parts.push(format!("routine {}", one_line(routine)));
    }
    parts.push(count(record.attempts.len(), "attempt"));
    match run.result.changes.as_ref().filter(|changes| !changes.changes.is_empty()) {
        Some(changes) => {
            parts.push(count(changes.changes.len(), "file"));
            parts.push(format!("+{} −{}", changes.added, changes.removed));
        }
        None => parts.push("nothing to change".to_owned()),
    }
    parts.join(", ")
}

/// The first heading of the spec; for a message without a spec, its first heading or its first line.
fn heading(chain: &Chain, layout: &Layout) -> Option<String> {
    let path = match chain.spec() {
        Some(spec) => layout.root().join(spec),
        None => RunDir::of(layout, &chain.first().id).message(),
    };
    let text = read_text(&path).ok()?;
    let body = Document::parse(&text).map(|document| document.body).unwrap_or(text);
    let mut lines = body.lines().map(str::trim);
    let headings = |line: &&str| line.starts_with('#') && !line.trim_matches('#').trim().is_empty();
    let found = match chain.spec() {
        Some(_) => lines.find(headings),
        None => lines.clone().find(headings).or_else(|| lines.find(|line| !line.is_empty())),
    };
    Some(one_line(found?.trim_matches('#').trim())).filter(|line| !line.is_empty())
}

/// Truncates to `longest` characters, of which the last is then an ellipsis.
fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept: String = text.chars().take(longest - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_ends_in_an_ellipsis() {
        assert_eq!(shortened("ab", 2), "ab");
        assert_eq!(shortened("a bc", 3), "a…");
        assert_eq!(shortened("äöüß", 3), "äö…");
    }
}
