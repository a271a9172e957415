//! What a step that carried specs out tells GitHub: an annotation for each that failed, values for later steps, a page.

use std::path::Path;

use super::commands::{Level, annotation};
use super::step_files::StepFiles;
use crate::error::Result;
use crate::humanize::count;
use crate::pipeline::{MessageSummary, Summary, Verdict};
use crate::report::{Report, markdown};

/// So many annotations of a kind are shown for a step.
const ANNOTATIONS: usize = 10;

/// An annotation for each message that failed; if there are too many, the last one tells how many more there are.
/// `project` is where the project is in the repository: files are named from there.
pub fn annotations(summary: &Summary, project: &Path) -> String {
    let failed: Vec<&MessageSummary> = summary
        .messages
        .iter()
        .filter(|message| {
            !message.kept && !matches!(message.verdict, Verdict::Skipped | Verdict::Interrupted)
        })
        .collect();
    let shown = if failed.len() > ANNOTATIONS { ANNOTATIONS - 1 } else { failed.len() };
    let mut text: String = failed[..shown].iter().map(|message| of(message, project)).collect();
    if failed.len() > shown {
        let more = format!("{} more; the step's summary has all of them", failed.len() - shown);
        text.push_str(&annotation(Level::Error, "decree", None, &more));
    }
    text
}

fn of(message: &MessageSummary, project: &Path) -> String {
    let title = format!("decree: {}", message.name);
    let mut words = match message.attempts.len() {
        0 => message.reason.clone(),
        n => format!("failed {n} of {} ({})", count(n, "attempt"), message.reason),
    };
    if let Some(put_back) = &message.put_back {
        let files = count(put_back.verified as usize, "file");
        words.push_str(&format!("; the tree is back to its checkpoint ({files} verified)"));
    }
    let file = message.spec.as_ref().map(|spec| project.join(spec).display().to_string());
    annotation(Level::Error, &title, file.as_deref(), &words)
}

/// All of it in one word.
pub fn verdict(summary: &Summary) -> &'static str {
    match summary {
        _ if summary.interrupted.is_some() => "interrupted",
        _ if summary.messages.is_empty() => "nothing",
        _ if summary.all_kept() => "success",
        _ => "failed",
    }
}

/// For later steps: numbers, ids and paths. What may be large is in the summary.
pub fn outputs(summary: &Summary, path: &Path) -> Vec<(&'static str, String)> {
    let of_kind = |wanted: fn(&MessageSummary) -> bool| {
        let ids = summary.messages.iter().filter(|message| wanted(message));
        ids.filter_map(|message| message.id.as_deref()).collect::<Vec<_>>().join(" ")
    };
    let unchanged =
        summary.messages.iter().filter(|message| message.kept && message.files.is_empty()).count();
    vec![
        ("verdict", verdict(summary).to_owned()),
        ("processed", (summary.messages.len() - summary.skipped).to_string()),
        ("kept", summary.kept.to_string()),
        ("failed", summary.put_back.to_string()),
        ("skipped", summary.skipped.to_string()),
        ("unchanged", unchanged.to_string()),
        ("kept-runs", of_kind(|message| message.kept)),
        ("failed-runs", of_kind(|message| !message.kept)),
        ("summary-path", path.display().to_string()),
    ]
}

/// Writes outputs and the step's page.
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
            message.reason = "the routine exited with 1".to_owned();
            message.spec = Some(format!("specs/{number:02}-x.spec.md"));
            summary.add(message);
        }
        summary
    }

    #[test]
    fn there_are_at_most_ten_annotations_and_nobody_is_forgotten() {
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
    fn a_word_says_what_came_of_all() {
        let mut one = summary(0);
        assert_eq!(verdict(&one), "nothing");
        one.add(MessageSummary { kept: true, ..MessageSummary::without_run("a".into(), Verdict::NoChange) });
        assert_eq!(verdict(&one), "success");
        one.add(MessageSummary::without_run("b".into(), Verdict::Skipped));
        assert_eq!(verdict(&one), "failed");
        one.interrupted = Some(15);
        assert_eq!(verdict(&one), "interrupted");
        let outputs = outputs(&one, Path::new("/p/.decree/summary.json"));
        let value = |wanted: &str| outputs.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
        assert_eq!(
            (value("processed").as_str(), value("kept").as_str(), value("unchanged").as_str()),
            ("1", "1", "1")
        );
        assert_eq!(value("summary-path"), "/p/.decree/summary.json");
    }
}
