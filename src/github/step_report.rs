//! What `process` and `run` report to GitHub: an annotation per failed spec, outputs for later steps, the summary page.

use std::path::Path;

use super::commands::{Level, annotation};
use super::step_files::StepFiles;
use crate::error::Result;
use crate::pipeline::{MessageSummary, Summary, Verdict};
use crate::report::text::failure_sentence;
use crate::report::{Report, markdown};

/// GitHub shows this many annotations of one level per step.
const ANNOTATIONS: usize = 10;

/// One annotation per failed message; if there are too many, the last one counts the rest. `project` is the project's path
/// within the repository.
pub fn annotations(summary: &Summary, project: &Path) -> String {
    let failed: Vec<&MessageSummary> =
        summary.messages.iter().filter(|message| !message.run.kept && is_failure(message.verdict)).collect();
    let shown = if failed.len() > ANNOTATIONS { ANNOTATIONS - 1 } else { failed.len() };
    let mut text: String =
        failed[..shown].iter().map(|message| failure_annotation(message, project)).collect();
    if failed.len() > shown {
        let more = format!("{} more; the step's summary has all of them", failed.len() - shown);
        text.push_str(&annotation(Level::Error, "decree", None, &more));
    }
    text
}

/// Whether a message with this verdict has an annotation, unless its change was kept.
fn is_failure(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Skipped | Verdict::Interrupted => false,
        Verdict::Success
        | Verdict::NoChange
        | Verdict::FailedReverted
        | Verdict::FailedUnrestored
        | Verdict::TimedOut
        | Verdict::Policy
        | Verdict::Budget => true,
    }
}

fn failure_annotation(message: &MessageSummary, project: &Path) -> String {
    let title = format!("decree: {}", message.run.name);
    let file = message.run.spec.as_ref().map(|spec| project.join(spec).display().to_string());
    annotation(Level::Error, &title, file.as_deref(), &failure_sentence(message))
}

/// The `verdict` output: one word for the whole summary.
pub fn verdict(summary: &Summary) -> &'static str {
    match summary {
        _ if summary.interrupted.is_some() => "interrupted",
        _ if summary.messages.is_empty() => "nothing",
        _ if summary.all_kept() => "success",
        _ => "failed",
    }
}

/// The outputs for later steps: counts, ids and paths. Anything large is only in `summary.json`.
pub fn outputs(summary: &Summary, path: &Path) -> Vec<(&'static str, String)> {
    let ids_where = |matches: fn(&MessageSummary) -> bool| {
        let ids = summary.messages.iter().filter(|message| matches(message));
        ids.filter_map(|message| message.id.as_deref()).collect::<Vec<_>>().join(" ")
    };
    let unchanged =
        summary.messages.iter().filter(|message| message.run.kept && message.files.is_empty()).count();
    vec![
        ("verdict", verdict(summary).to_owned()),
        ("processed", (summary.messages.len() - summary.skipped).to_string()),
        ("kept", summary.kept.to_string()),
        ("failed", summary.reverted.to_string()),
        ("skipped", summary.skipped.to_string()),
        ("unchanged", unchanged.to_string()),
        ("kept-runs", ids_where(|message| message.run.kept)),
        ("failed-runs", ids_where(|message| !message.run.kept)),
        ("summary-path", path.display().to_string()),
    ]
}

/// Writes the outputs, and as much of the report as the step summary can take.
pub fn write_outputs(step: &StepFiles, report: &Report, path: &Path) -> Result<()> {
    step.set_outputs(&outputs(&report.summary, path))?;
    let room = step.summary_room();
    if room > 0 {
        step.add_to_summary(&markdown::render(report, room - 1))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(failed: usize) -> Summary {
        let mut summary = Summary::new("process");
        for number in 0..failed {
            let mut message =
                MessageSummary::without_run(format!("{number:02}-x\n::error::y"), Verdict::FailedReverted);
            message.run.reason = "the routine exited with 1".to_owned();
            message.run.spec = Some(format!("specs/{number:02}-x.spec.md"));
            summary.add(message);
        }
        summary
    }

    #[test]
    fn there_are_at_most_ten_annotations_and_the_last_counts_the_rest() {
        for (failed, lines) in [(0, 0), (1, 1), (10, 10), (11, 10), (500, 10)] {
            assert_eq!(annotations(&summary(failed), Path::new("")).lines().count(), lines, "{failed}");
        }
        let text = annotations(&summary(12), Path::new("a/b"));
        assert!(
            text.ends_with("::error title=decree::3 more; the step's summary has all of them\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.starts_with("::error ")), "{text}");
        assert!(text.starts_with(
            "::error file=a/b/specs/00-x.spec.md,title=decree%3A 00-x%0A%3A%3Aerror%3A%3Ay::the routine"
        ));
    }

    #[test]
    fn the_verdict_is_one_word_for_all_messages() {
        let mut one = summary(0);
        assert_eq!(verdict(&one), "nothing");
        let mut kept = MessageSummary::without_run("a".into(), Verdict::NoChange);
        kept.run.kept = true;
        one.add(kept);
        assert_eq!(verdict(&one), "success");
        one.add(MessageSummary::without_run("b".into(), Verdict::Skipped));
        assert_eq!(verdict(&one), "failed");
        one.interrupted = Some(15);
        assert_eq!(verdict(&one), "interrupted");
        let outputs = outputs(&one, Path::new("/p/.decree/summary.json"));
        let value = |name: &str| outputs.iter().find(|(known, _)| *known == name).unwrap().1.clone();
        assert_eq!(
            (value("processed").as_str(), value("kept").as_str(), value("unchanged").as_str()),
            ("1", "1", "1")
        );
        assert_eq!(value("summary-path"), "/p/.decree/summary.json");
    }
}
