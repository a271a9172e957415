//! Dead letters: a message, with the reason on top.

use std::ffi::{OsStr, OsString};

use super::verdict::Verdict;
use crate::error::{Error, Result};
use crate::history::find_unique;
use crate::message::{Document, Inbox, MessageId, read_bytes};
use crate::yaml::Mistake;

/// The keys that a dead letter has and a message has not; a message that is requeued loses them.
const DEAD_LETTER_KEYS: [&str; 2] = ["error", "verdict"];

/// A message in `dead/`.
pub struct DeadLetter {
    pub file: OsString,
    /// Its content, as far as it can be read.
    pub document: Document,
}

impl DeadLetter {
    pub fn all(inbox: &Inbox) -> Result<Vec<DeadLetter>> {
        let read = |file: OsString| {
            // A message that is no text has a reason all the same.
            let bytes = read_bytes(&inbox.dead_path(&file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            DeadLetter { file, document: Document::parse(&text).unwrap_or_default() }
        };
        Ok(inbox.dead()?.into_iter().map(read).collect())
    }

    /// The dead letter with this id or name, or the only one whose id or name begins like this.
    pub fn find<'l>(letters: &'l [DeadLetter], text: &str) -> Result<&'l DeadLetter> {
        let names = |letter: &DeadLetter| vec![letter.name(), letter.field("id")];
        find_unique(letters, text, names)?.ok_or_else(|| {
            Error::project(format!("no dead letter has the id or name '{text}'"))
                .hint("`decree status` lists them")
        })
    }

    /// The file's name without its extension.
    pub fn name(&self) -> String {
        self.file.to_string_lossy().trim_end_matches(".md").to_owned()
    }

    /// Whether it has this id.
    pub fn has_id(&self, id: &MessageId) -> bool {
        MessageId::parse(&self.field("id")).is_some_and(|own| own == *id)
    }

    /// Whether it was made of this message, in a file of this name: a process that was killed can leave both.
    pub fn is_of(&self, file: &OsStr, message: &Document) -> bool {
        Inbox::is_name_for(file, &self.file) && original(self.document.clone()).as_ref() == Ok(message)
    }

    /// The text of a field; empty if there is none.
    pub fn field(&self, key: &str) -> String {
        self.document.get_text(key).unwrap_or_default()
    }
}

/// A message's text with the reason in its front matter. Bytes that are no message are kept whole in the body.
pub fn render(raw: &[u8], error: &str, verdict: Verdict) -> Vec<u8> {
    let parsed = std::str::from_utf8(raw).ok().and_then(|text| Document::parse(text).ok());
    let is_message = parsed.is_some();
    let mut document = parsed.unwrap_or_default();
    for (key, value) in DEAD_LETTER_KEYS.into_iter().zip([error, verdict.word()]) {
        document.set(key, value);
    }
    let mut text = document.render().into_bytes();
    if !is_message {
        text.extend_from_slice(raw);
    }
    text
}

/// The message that a dead letter was made of. A document that is no dead letter stays as it is.
pub fn original(mut document: Document) -> Result<Document, Mistake> {
    // One of the keys alone is a field like any other.
    if !DEAD_LETTER_KEYS.iter().all(|key| document.get(key).is_some()) {
        return Ok(document);
    }
    for key in DEAD_LETTER_KEYS {
        document.remove(key);
    }
    if !document.fields.is_empty() {
        return Ok(document);
    }
    // It had no front matter that could be read; its whole text is the body.
    Document::parse(&document.body)
}
