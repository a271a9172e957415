//! One message, with everything filled in that its author left out.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::front_matter::Document;
use super::id::{ChainId, MessageId, parse_seq, seq_too_large};
use super::name::{MessageName, SPEC_EXTENSION};
use crate::error::{Error, Result};

/// A message whose front matter is complete.
#[derive(Clone, Debug)]
pub struct Message {
    /// The file name in the inbox.
    pub file: OsString,
    pub id: MessageId,
    /// Whether it asks to implement the spec in `input_file`, or to do what its text says.
    pub is_spec: bool,
    /// The file it is about.
    pub input_file: Option<String>,
    pub document: Document,
    /// The document as text, exactly as its author wrote it if nothing had to be filled in.
    pub text: String,
}

/// Whether an id is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdStatus {
    /// No message has it.
    Free,
    /// A run that failed or was interrupted has it: the same message may run again.
    Begun,
    /// A run that was kept, or another message, has it. No message may take it.
    Taken,
}

/// Why a message cannot be run as it is: a mistake of its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A fixed identifier for tools: `BadMessage`, `MaxDepthExceeded`, `RoutineNotFound`, …
    pub code: &'static str,
    /// What is wrong, in a sentence.
    pub why: String,
}

/// Why there is no message to run.
#[derive(Debug)]
pub enum MessageError {
    /// The message becomes a dead letter, and the next one is taken.
    Rejected(Rejection),
    Failed(Error),
}

impl From<Rejection> for MessageError {
    fn from(rejection: Rejection) -> Self {
        MessageError::Rejected(rejection)
    }
}

impl From<Error> for MessageError {
    fn from(error: Error) -> Self {
        MessageError::Failed(error)
    }
}

impl Rejection {
    /// The front matter or the text is invalid.
    pub fn bad(why: impl Into<String>) -> Self {
        Rejection { code: "BadMessage", why: why.into() }
    }
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.why)
    }
}

impl Message {
    /// Fills in what the front matter leaves out: from the file's name, then from defaults. `new_chain` gives an id if nothing
    /// names one; `status` says whether an id is in use.
    pub fn normalise(
        file: &OsStr,
        mut document: Document,
        new_chain: impl FnOnce() -> Result<ChainId>,
        status: impl Fn(&MessageId) -> IdStatus,
    ) -> Result<Message, MessageError> {
        check_ids(file, &document)?;
        check_seqs(file, &document)?;
        let id = match stated_id(file, &document) {
            Some(id) if document.get_text("id").is_some() => {
                next_free(id, |id| status(id) == IdStatus::Taken)
            }
            Some(id) => next_free(id, |id| status(id) != IdStatus::Free),
            None => {
                check_seq_of_new_chain(file, &document)?;
                MessageId::root(new_chain()?)
            }
        };
        let input_file = document.get_text("input_file").filter(|path| !path.is_empty());
        if input_file.as_deref().is_some_and(|path| path.contains('\0')) {
            return Err(Rejection::bad("input_file is not a path").into());
        }
        let is_spec = match document.get_text("type").as_deref() {
            None | Some("") => input_file.as_deref().is_some_and(is_spec),
            Some("task") => false,
            Some("spec") if input_file.is_some() => true,
            Some("spec") => {
                let why = "type is spec, but input_file names no spec";
                return Err(bad_field(file, &document, "type", why).into());
            }
            Some(other) => {
                let why = format!("type is '{other}'; it can be spec or task");
                return Err(bad_field(file, &document, "type", &why).into());
            }
        };
        document.fill("id", &id.to_string());
        document.fill("chain", &id.chain.to_string());
        document.fill("seq", &id.seq.to_string());
        document.fill("type", if is_spec { "spec" } else { "task" });
        let text = document.render();
        Ok(Message { file: file.to_owned(), id, is_spec, input_file, document, text })
    }

    /// The name that reports show.
    pub fn name(&self) -> String {
        display_name(&self.file, &self.document.body)
    }

    /// The path of the spec that it asks for.
    pub fn spec(&self) -> Option<&str> {
        self.input_file.as_deref().filter(|_| self.is_spec)
    }
}

/// The name that reports show: the file's name without `.md`, or the first words of the text if that is only an id.
pub fn display_name(file: &OsStr, body: &str) -> String {
    let stem = Path::new(file).file_stem().unwrap_or(file).to_string_lossy();
    let words = MessageId::parse(&stem).and_then(|_| MessageName::from_prompt(body));
    match words {
        Some(name) => name.to_string(),
        None => crate::sanitize::one_line(&stem.replace(|c: char| c.is_control(), "?")),
    }
}

/// Whether a path names a spec.
pub fn is_spec(path: &str) -> bool {
    path.ends_with(SPEC_EXTENSION)
}

/// The rejection of a message for one of its keys: `a.md:2: why`.
fn bad_field(file: &OsStr, document: &Document, key: &str, why: &str) -> Rejection {
    let line = document.fields.iter().find(|(name, _)| name == key).map_or(1, |(_, node)| node.line);
    Rejection::bad(format!("{}:{line}: {why}", file.to_string_lossy()))
}

/// Rejects ids in the front matter that are malformed.
fn check_ids(file: &OsStr, document: &Document) -> Result<(), Rejection> {
    let check = |key: &str, form: &str, is_valid: fn(&str) -> bool| match document.get_text(key) {
        Some(text) if !is_valid(&text) => {
            Err(bad_field(file, document, key, &format!("{key} '{text}' is not {form}")))
        }
        _ => Ok(()),
    };
    check("id", "<chain>-<seq>", |text| MessageId::parse(text).is_some())?;
    check("chain", "16 digits", |text| ChainId::parse(text).is_some())?;
    check("seq", "a whole number", |text| parse_seq(text).is_some())
}

/// Rejects numbers that are too large for a position in a chain, as they are written: nothing else is as deep.
fn check_seqs(file: &OsStr, document: &Document) -> Result<(), Rejection> {
    let stem = Path::new(file).file_stem().and_then(OsStr::to_str);
    let in_name = stem.filter(|stem| MessageId::parse(stem).is_some()).map(str::to_owned);
    for text in [document.get_text("id"), document.get_text("seq"), in_name].into_iter().flatten() {
        if let Some(seq) = seq_too_large(&text) {
            let why = format!("seq {seq} is above every max_depth");
            return Err(Rejection { code: "MaxDepthExceeded", why });
        }
    }
    Ok(())
}

/// Rejects a place in a chain that begins with this message: it can only be the first, and the author means another one.
fn check_seq_of_new_chain(file: &OsStr, document: &Document) -> Result<(), Rejection> {
    match document.get_text("seq").and_then(|seq| parse_seq(&seq)) {
        None | Some(0) => Ok(()),
        Some(seq) => {
            let why = format!(
                "'seq' is {seq}, but no chain is named, and a new one begins at 0; add 'chain' or remove 'seq'"
            );
            Err(bad_field(file, document, "seq", &why))
        }
    }
}

/// The id in the front matter, or else in the file's name.
pub(super) fn stated_id(file: &OsStr, document: &Document) -> Option<MessageId> {
    let from_name = Path::new(file).file_stem()?.to_str().and_then(MessageId::parse);
    if let Some(id) = document.get_text("id").and_then(|id| MessageId::parse(&id)) {
        return Some(id);
    }
    let chain = document.get_text("chain").and_then(|chain| ChainId::parse(&chain));
    let chain = chain.or_else(|| from_name.as_ref().map(|id| id.chain.clone()))?;
    let seq = document.get_text("seq").and_then(|seq| parse_seq(&seq));
    let seq = seq.or_else(|| from_name.as_ref().map(|id| id.seq)).unwrap_or(0);
    Some(MessageId { chain, seq })
}

/// The id, or the next in its chain that is not in use: two follow-ups with the same `seq` run one after the other.
fn next_free(mut id: MessageId, is_taken: impl Fn(&MessageId) -> bool) -> MessageId {
    while is_taken(&id) && id.seq < u32::MAX {
        id.seq += 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalise(file: &str, text: &str) -> Result<Message, Rejection> {
        let document = Document::parse(text).expect("good front matter");
        let chain = || Ok(ChainId::parse("2025022514320000").expect("a good id"));
        match Message::normalise(OsStr::new(file), document, chain, |_| IdStatus::Free) {
            Ok(message) => Ok(message),
            Err(MessageError::Rejected(rejection)) => Err(rejection),
            Err(MessageError::Failed(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn a_follow_up_that_is_named_by_its_id_is_called_by_its_words() {
        let message = normalise("2024022514320000-3.md", "Fix the type errors.\n").unwrap();
        assert_eq!(message.name(), "fix-type-errors");
        assert_eq!(normalise("2024022514320000-3.md", "").unwrap().name(), "2024022514320000-3");
        assert_eq!(normalise("fix-types.md", "Fix the type errors.\n").unwrap().name(), "fix-types");
    }

    #[test]
    fn a_seq_beyond_all_numbers_is_rejected_as_it_is_written() {
        let id = "2024022514320000-99999999999999999999";
        for (file, text) in
            [(format!("{id}.md"), "x\n".to_owned()), ("a.md".into(), format!("---\nid: {id}\n---\n"))]
        {
            let why = normalise(&file, &text).unwrap_err().why;
            assert_eq!(why, "seq 99999999999999999999 is above every max_depth");
        }
        assert_eq!(normalise("2024022514320000-4294967295.md", "").unwrap().id.seq, u32::MAX);
    }

    #[test]
    fn what_makes_no_sense_is_rejected_with_a_reason() {
        for (text, part) in [
            ("---\nseq: many\n---\n", "seq 'many'"),
            ("---\nseq: -1\n---\n", "a.md:2: seq '-1'"),
            ("---\nseq: 7\n---\n", "a.md:2: 'seq' is 7, but no chain is named"),
            ("---\nchain: ../../etc\n---\n", "chain '../../etc'"),
            ("---\nid: 12\n---\n", "id '12'"),
            ("---\ntype: poem\n---\n", "type is 'poem'"),
            ("---\ntype: spec\n---\n", "input_file"),
        ] {
            let rejection = normalise("a.md", text).unwrap_err();
            assert!(rejection.why.contains(part), "{text}: {}", rejection.why);
            assert_eq!(rejection.code, "BadMessage");
        }
    }

    #[test]
    fn a_second_follow_up_at_the_same_place_gets_the_next() {
        let document = Document::parse("x\n").unwrap();
        let chain = || unreachable!("the name has one");
        let taken = |id: &MessageId| if id.seq < 3 { IdStatus::Begun } else { IdStatus::Free };
        let file = OsStr::new("2024022514320000-1.md");
        let message = Message::normalise(file, document, chain, taken).unwrap();
        assert_eq!(message.id.seq, 3);
    }

    #[test]
    fn a_message_that_comes_again_keeps_its_id_but_takes_no_others_place() {
        for (standing, seq) in [(IdStatus::Free, 1), (IdStatus::Begun, 1), (IdStatus::Taken, 2)] {
            let document = Document::parse("---\nid: 2024022514320000-1\n---\n").unwrap();
            let of = |id: &MessageId| if id.seq == 1 { standing } else { IdStatus::Free };
            let chain = || unreachable!("it has one");
            let message = Message::normalise(OsStr::new("x.md"), document, chain, of).unwrap();
            assert_eq!(message.id.seq, seq, "{standing:?}");
        }
    }
}
