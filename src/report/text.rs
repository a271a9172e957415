//! A summary as text, for terminals and plain logs.

use std::time::Duration;

use console::{Style, pad_str};

use crate::humanize::{count, duration};
use crate::pipeline::{AttemptRecord, MessageOutcome, MessageSummary, Summary, Verdict};

/// How many reverted paths are named.
const MAX_PATHS: usize = 100;

/// Styles text, or leaves it plain if colours are off.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    fn with(self, style: Style, text: &str) -> String {
        style.force_styling(self.0).apply_to(text).to_string()
    }

    pub fn good(self, text: &str) -> String {
        self.with(Style::new().green(), text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with(Style::new().red(), text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with(Style::new().dim(), text)
    }

    pub fn strong(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }
}

/// The first two columns of a message's row: its name and its routine.
pub fn row_head(seq: u32, name: &str, routine: &str) -> String {
    let name = if seq == 0 { name.to_owned() } else { format!("  └ {name}") };
    let column = |text: &str, width| pad_str(text, width, console::Alignment::Left, None).into_owned();
    format!("{}  {}", column(&name, 28), column(if routine.is_empty() { "–" } else { routine }, 14))
}

/// The row of a message that has its verdict.
pub fn row(message: &MessageSummary, paint: Paint) -> String {
    let head = row_head(message.seq, &message.run.name, message.run.routine.as_deref().unwrap_or(""));
    let words = verdict_words(message);
    let mark = match message.outcome() {
        MessageOutcome::Kept => paint.good(&format!("✓ {words:<12}")),
        MessageOutcome::Skipped => paint.dim(&format!("· {words:<12}")),
        MessageOutcome::Reverted => paint.bad(&format!("✗ {words:<12}")),
    };
    if message.run.attempts.is_empty() {
        return format!("{head}  {mark}  {}", message.run.reason).trim_end().to_owned();
    }
    let time = duration(Duration::from_millis(message.run.duration_ms));
    let attempts = count(message.run.attempts.len(), "attempt");
    let change = if message.run.kept && !message.files.is_empty() {
        format!("+{} −{}  {}", message.added, message.removed, count(message.files.len(), "file"))
    } else {
        String::new()
    };
    let commits = message.run.commits().map_or(String::new(), |commits| format!("  {commits}"));
    format!("{head}  {mark}  {time:>7}  {attempts:<10}  {change}{commits}").trim_end().to_owned()
}

/// A line for each path that a revert restored, and how the user finds those that are too many: `attempt` is the one whose diff has them, if
/// it is not the diff of the whole run.
pub fn reverted_lines(paths: &[String], id: &str, attempt: Option<u32>) -> Vec<String> {
    let shown = paths.iter().take(MAX_PATHS).map(|path| format!("    reverted  {path}"));
    let more = paths.len().saturating_sub(MAX_PATHS);
    let rest = (more > 0).then(|| {
        let attempt = attempt.map_or_else(String::new, |number| format!(" --attempt {number}"));
        format!("    and {more} more; `decree diff {id}{attempt} --stat` lists all")
    });
    shown.chain(rest).collect()
}

/// The outcome of a message in one or two words.
pub fn verdict_words(message: &MessageSummary) -> &'static str {
    let reverted = if message.run.attempts.is_empty() { "dead letter" } else { "reverted" };
    match message.verdict {
        Verdict::Success if message.run.kept => "kept",
        Verdict::NoChange if message.run.kept => "no change",
        Verdict::Skipped => "skipped",
        Verdict::Budget if message.run.attempts.is_empty() => "no budget",
        Verdict::Interrupted => "interrupted",
        Verdict::FailedUnrestored => "not restored",
        Verdict::Success | Verdict::NoChange | Verdict::FailedReverted | Verdict::TimedOut => reverted,
        Verdict::Policy | Verdict::Budget => reverted,
    }
}

/// An amount of money, if there is any: `$0.84`.
pub fn cost(usd: f64) -> Option<String> {
    (usd > 0.0).then(|| format!("${usd:.2}"))
}

/// The closing lines of a command: the counts, then the details of each failure.
pub fn closing(summary: &Summary, paint: Paint) -> String {
    let mut out = String::new();
    let untried = untried(summary);
    let mut counts = vec![
        paint.good(&format!("✓ {} kept", summary.kept)),
        match summary.reverted - untried {
            0 => paint.dim("0 reverted"),
            n => paint.bad(&format!("✗ {n} reverted")),
        },
        paint.dim(&format!("{} skipped", summary.skipped)),
        duration(summary.duration()),
    ];
    if untried > 0 {
        counts.insert(2, paint.bad(&format!("✗ {}", count(untried, "dead letter"))));
    }
    counts.extend(cost(summary.usage.usd));
    if summary.specs_left > 0 {
        counts.push(specs_left(summary));
    }
    if summary.messages.is_empty() {
        out.push_str("nothing to do\n");
    } else {
        out.push_str(&format!("{}\n", counts.join("   ")));
    }
    for message in summary.messages.iter().filter(|message| !message.run.kept) {
        out.push('\n');
        out.push_str(&failure(message, paint));
    }
    out
}

/// How many messages became dead letters without an attempt, so that nothing was reverted.
pub fn untried(summary: &Summary) -> usize {
    summary.messages.iter().filter(|message| verdict_words(message) == "dead letter").count()
}

/// `3 specs left by --limit`
pub fn specs_left(summary: &Summary) -> String {
    format!("{} left by --limit", count(summary.specs_left, "spec"))
}

/// The details of a failed message: how each attempt ended, and the commands to run next.
pub fn failure(message: &MessageSummary, paint: Paint) -> String {
    let total = message.run.attempts.len();
    let what = match &message.run.reverted {
        Some(_) if total > 0 => format!("{} {}", message.run.name, failure_sentence(message)),
        _ => format!("{}: {}", message.run.name, message.run.reason),
    };
    let mut out = format!("{} {}\n", paint.bad("✗"), paint.strong(&what));
    for attempt in &message.run.attempts {
        out.push_str(&attempt_line(attempt));
    }
    if let Some(id) = message.id.as_ref().filter(|_| message.run_dir.is_some()) {
        let mut next = |word: &str, command: String| {
            out.push_str(&format!("    {}  {command}\n", paint.dim(&format!("{word:<5}"))));
        };
        if total > 0 {
            next("log", format!("decree log {id}"));
        }
        if let Some(best) = message.run.attempts.iter().rev().find(|attempt| attempt.files > 0) {
            next("work", format!("decree diff {id} --attempt {}", best.number));
        }
        if message.verdict == Verdict::Success {
            next("again", format!("decree apply {id}"));
        } else if message.verdict != Verdict::Interrupted {
            next("again", format!("decree retry {id}"));
        }
    }
    out
}

/// `failed 4 of 4 attempts (exit 1); the tree is reverted to its checkpoint (8 files verified)`. A budget or a signal ends a run
/// before its last attempt, and the record does not say how many were allowed then; every other verdict is that of the last.
pub fn failure_sentence(message: &MessageSummary) -> String {
    let (made, reason) = (message.run.attempts.len(), &message.run.reason);
    let attempts = count(made, "attempt");
    let mut text = match message.verdict {
        _ if made == 0 => reason.clone(),
        // It was kept at first, so nothing failed.
        Verdict::Success => return reason.clone(),
        Verdict::Budget | Verdict::Interrupted => format!("failed after {attempts} ({reason})"),
        _ => format!("failed {made} of {attempts} ({reason})"),
    };
    if let Some(record) = &message.run.reverted {
        let files = count(record.verified as usize, "file");
        let except = record.exceptions();
        text.push_str(&format!("; the tree is reverted to its checkpoint{except} ({files} verified)"));
    }
    text
}

fn attempt_line(attempt: &AttemptRecord) -> String {
    let slate = if attempt.clean_slate { " (clean slate)" } else { "" };
    let line = format!("    attempt {}  {:<10}  {}{slate}", attempt.number, attempt.reason, attempt.headline);
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follow_up_stands_below_its_parent() {
        let message = MessageSummary::without_run("02-add-search".to_owned(), Verdict::Success);
        let mut message = MessageSummary { seq: 1, ..message };
        message.run.kept = true;
        assert!(row(&message, Paint(false)).starts_with("  └ 02-add-search"));
    }
}
