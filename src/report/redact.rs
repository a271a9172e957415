//! No report tells a secret. What routines print is free of them as it is written, but a diff is what it is, a run may
//! come from another machine, and more may be secret here than there.

use std::borrow::Cow;

use super::model::{Excerpt, Report, RunFiles};
use crate::message::MessageId;
use crate::pipeline::{Ending, MessageSummary};
use crate::plain::plain;
use crate::process::redact::Redactor;

/// Takes out the secrets of this process's environment.
pub fn redactor() -> Redactor {
    let variables: Vec<_> = std::env::vars_os().collect();
    Redactor::from_environment(variables.iter().map(|(name, value)| (name, value)))
}

/// Takes all secrets out of all that a report can show. Ids and verdicts are words of ours and stay.
pub fn redact(report: &mut Report, redactor: &Redactor) {
    let summary = &mut report.summary;
    let words = [&mut summary.decree, &mut summary.command, &mut summary.started_at];
    words.into_iter().for_each(|words| text(words, redactor));
    for message in &mut report.summary.messages {
        redact_message(message, redactor);
    }
    for files in &mut report.runs {
        redact_files(files, redactor);
    }
}

fn text(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(changed) = redactor.redact(text) {
        *text = changed;
    }
    // Colours in the middle of a secret are gone, or colours, once it is shown.
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
        && let Cow::Owned(changed) = redactor.redact(&plain(text))
    {
        *text = changed;
    }
}

fn redact_message(message: &mut MessageSummary, redactor: &Redactor) {
    text(&mut message.name, redactor);
    text(&mut message.reason, redactor);
    let id = message.id.as_mut().filter(|id| MessageId::parse(id).is_none());
    id.into_iter().for_each(|words| text(words, redactor));
    let optional = [&mut message.spec, &mut message.routine, &mut message.run_dir];
    optional.into_iter().flatten().for_each(|words| text(words, redactor));
    message.warnings.iter_mut().for_each(|words| text(words, redactor));
    message.files.iter_mut().for_each(|file| text(&mut file.path, redactor));
    if let Some(put_back) = &mut message.put_back {
        put_back.set_aside.iter_mut().for_each(|path| text(path, redactor));
    }
    for attempt in &mut message.attempts {
        text(&mut attempt.reason, redactor);
        text(&mut attempt.headline, redactor);
        let ending = std::mem::replace(&mut attempt.ending, Ending::Lost);
        attempt.ending = ending.map_text(|words| redactor.redact(words).into_owned());
    }
}

fn redact_files(files: &mut RunFiles, redactor: &Redactor) {
    let excerpts = files.logs.iter_mut().map(|log| &mut log.end).chain(files.failure_context.as_mut());
    excerpts.for_each(|Excerpt { text: words, .. }| text(words, redactor));
    for file in files.diff.iter_mut().flat_map(|diff| &mut diff.files) {
        let words = [&mut file.path, &mut file.note, &mut file.head];
        words.into_iter().chain(&mut file.hunks).for_each(|words| text(words, redactor));
    }
}
