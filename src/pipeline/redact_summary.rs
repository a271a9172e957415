//! Summaries hold no secrets. Names come from messages that routines wrote, and paths from what they did, so all are redacted.

use std::borrow::Cow;

use super::summary::{MessageSummary, Summary};
use super::verdict::Ending;
use crate::message::MessageId;
use crate::process::redact::Redactor;
use crate::sanitize::strip_controls;

impl Summary {
    /// Masks all secrets. Ids and verdicts are decree's own and stay.
    pub fn redact(&mut self, redactor: &Redactor) {
        let words = [&mut self.decree, &mut self.command, &mut self.started_at];
        words.into_iter().for_each(|words| redact_text(words, redactor));
        self.messages.iter_mut().for_each(|message| message.redact(redactor));
    }
}

impl MessageSummary {
    pub fn redact(&mut self, redactor: &Redactor) {
        let text = |words: &mut String| redact_text(words, redactor);
        text(&mut self.run.name);
        text(&mut self.run.reason);
        self.id.iter_mut().filter(|id| MessageId::parse(id).is_none()).for_each(text);
        [&mut self.run.spec, &mut self.run.routine, &mut self.run_dir].into_iter().flatten().for_each(text);
        self.run.warnings.iter_mut().for_each(text);
        self.files.iter_mut().for_each(|file| text(&mut file.path));
        self.run.reverted.iter_mut().flat_map(|reverted| &mut reverted.set_aside).for_each(text);
        for attempt in &mut self.run.attempts {
            text(&mut attempt.reason);
            text(&mut attempt.headline);
            let ending = std::mem::replace(&mut attempt.ending, Ending::Lost);
            attempt.ending = ending.map_text(|words| redactor.redact(words).into_owned());
        }
    }
}

/// Masks all secrets in a text that may contain colours.
pub fn redact_text(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(changed) = redactor.redact(text) {
        *text = changed;
    }
    // Escape sequences in the middle of a secret hide it from the search, and not from a reader of the terminal.
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
        && let Cow::Owned(changed) = redactor.redact(&strip_controls(text))
    {
        *text = changed;
    }
}
