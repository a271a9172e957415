//! The text of a dead letter: the message, with the reason on top.

use super::verdict::Verdict;
use crate::message::Document;
use crate::yaml::Mistake;

/// The keys that a dead letter has and a message has not; a message that is requeued loses them.
const DEAD_LETTER_KEYS: [&str; 2] = ["error", "verdict"];

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
