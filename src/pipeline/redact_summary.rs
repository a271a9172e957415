//! What is told of a message tells no secret: names come from messages that routines wrote, paths from what they did.

use std::borrow::Cow;

use super::summary::{MessageSummary, Summary};
use super::verdict::Ending;
use crate::message::MessageId;
use crate::process::redact::Redactor;
use crate::sanitize::strip_controls;

impl Summary {
    /// Takes all secrets out. Ids and verdicts are words of ours and stay.
    pub fn redact(&mut self, redactor: &Redactor) {
        let words = [&mut self.decree, &mut self.command, &mut self.started_at];
        words.into_iter().for_each(|words| redact_text(words, redactor));
        self.messages.iter_mut().for_each(|message| message.redact(redactor));
    }
}

impl MessageSummary {
    /// Takes all secrets out.
    pub fn redact(&mut self, redactor: &Redactor) {
        let text = |words: &mut String| redact_text(words, redactor);
        text(&mut self.name);
        text(&mut self.reason);
        self.id.iter_mut().filter(|id| MessageId::parse(id).is_none()).for_each(text);
        [&mut self.spec, &mut self.routine, &mut self.run_dir].into_iter().flatten().for_each(text);
        self.warnings.iter_mut().for_each(text);
        self.files.iter_mut().for_each(|file| text(&mut file.path));
        self.put_back.iter_mut().flat_map(|put_back| &mut put_back.set_aside).for_each(text);
        for attempt in &mut self.attempts {
            text(&mut attempt.reason);
            text(&mut attempt.headline);
            let ending = std::mem::replace(&mut attempt.ending, Ending::Lost);
            attempt.ending = ending.map_text(|words| redactor.redact(words).into_owned());
        }
    }
}

/// Takes all secrets out of a text that may be shown in colours.
pub fn redact_text(text: &mut String, redactor: &Redactor) {
    if let Cow::Owned(changed) = redactor.redact(text) {
        *text = changed;
    }
    // Colours in the middle of a secret are gone, or colours, once it is shown.
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
        && let Cow::Owned(changed) = redactor.redact(&strip_controls(text))
    {
        *text = changed;
    }
}
