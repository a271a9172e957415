//! From a file in the inbox to a job that can be carried out, or to a dead letter that says why not.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Component;
use std::time::Duration;

use super::events::Event;
use super::queue::Pipeline;
use super::run_dir::RunDir;
use super::summary::MessageSummary;
use super::verdict::Verdict;
use crate::error::{ErrorKind, Result};
use crate::message::{ChainId, Document, Message, MessageId, Rejection};
use crate::project::parse_duration;
use crate::routine::{Routine, RoutineKind, papermill};
use crate::yaml::Mistake;

/// The keys that a dead letter has besides; a message that was put back loses them.
const DEAD_LETTER_KEYS: [&str; 2] = ["error", "verdict"];

/// What became of a message that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was carried out, or given up.
    Decided(MessageId),
    /// It could not even be tried, and is a dead letter.
    Rejected,
    /// It waits on: there is no budget for it.
    Left,
}

/// A message with everything that carrying it out takes.
pub(super) struct Prepared {
    pub message: Message,
    pub routine: Routine,
    /// Has to succeed after the routine; empty: nothing.
    pub verify: String,
    /// For one attempt; zero: no limit.
    pub timeout: Duration,
}

impl Pipeline<'_> {
    /// Takes one message.
    pub(super) fn take(&mut self, file: &OsStr) -> Result<Taken> {
        let path = self.inbox.path(file);
        let raw = match crate::message::read_bytes(&path) {
            // Somebody took it away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Taken::Rejected),
            // One that cannot be read must not keep the others from their turn.
            Err(error) => {
                self.inbox.dead_letter_unread(file)?;
                self.tell_rejected(file, None, &Rejection::bad(format!("it cannot be read: {error}")));
                return Ok(Taken::Rejected);
            }
            Ok(raw) => raw,
        };
        let message = match self.normalise(file, &raw)? {
            Ok(message) => message,
            Err(rejection) => {
                self.reject(file, &raw, None, &rejection)?;
                return Ok(Taken::Rejected);
            }
        };
        if message.text.as_bytes() != raw {
            self.inbox.add(file, &message.text)?;
        }
        match self.job(message.clone())? {
            Err(rejection) => {
                self.reject(file, message.text.as_bytes(), Some(&message), &rejection)?;
                Ok(Taken::Rejected)
            }
            Ok(job) => match self.meter.used_up() {
                Some(why) => {
                    self.record_outcome(MessageSummary {
                        reason: why,
                        ..summary_of(&message, Verdict::Budget)
                    });
                    Ok(Taken::Left)
                }
                None => {
                    let id = job.message.id.clone();
                    self.carry_out(job)?;
                    Ok(Taken::Decided(id))
                }
            },
        }
    }

    fn normalise(&self, file: &OsStr, raw: &[u8]) -> Result<Result<Message, Rejection>> {
        let Ok(text) = std::str::from_utf8(raw) else {
            return Ok(Err(Rejection::bad("it is not UTF-8")));
        };
        let parsed =
            Document::parse(text).and_then(|written| Ok((without_obituary(written.clone())?, written)));
        let (document, written) = match parsed {
            Ok(parsed) => parsed,
            Err(mistake) => {
                return Ok(Err(Rejection::bad(format!("line {}: {}", mistake.line, mistake.message))));
            }
        };
        let runs = self.layout.runs();
        let begin = || ChainId::begin(&runs).map(|(chain, _)| chain);
        let standing = |id: &MessageId| RunDir::of(self.layout, id).standing();
        let mut normalised = Message::normalise(file, document, begin, standing)?;
        if let Ok(message) = &mut normalised
            && message.document == written
        {
            text.clone_into(&mut message.text);
        }
        Ok(normalised)
    }

    /// Finds the spec, the routine and the limits.
    fn job(&mut self, mut message: Message) -> Result<Result<Prepared, Rejection>> {
        let deepest = self.config.max_depth;
        if message.id.seq() >= deepest {
            return Ok(Err(Rejection {
                code: "MaxDepthExceeded",
                why: format!("seq {} is not below max_depth, which is {deepest}", message.id.seq()),
            }));
        }
        if let Some(path) = message.input_file.as_deref().filter(|path| !self.is_inside(path)) {
            return Ok(Err(Rejection::bad(format!("input_file {path} is not in the project"))));
        }
        let spec = match message.spec().map(|path| self.read_spec(path)).transpose() {
            Ok(spec) => spec.unwrap_or_default(),
            Err(rejection) => return Ok(Err(rejection)),
        };
        let routine = match self.routine_for(&message, &spec)? {
            Ok(routine) => routine,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if routine.kind == RoutineKind::Notebook
            && let Err(error) = self.prepare_notebooks()
        {
            if let ErrorKind::Interrupted { .. } = error.kind() {
                return Err(error);
            }
            let hint = error.hint_text().unwrap_or_default();
            return Ok(Err(Rejection { code: "NoPython", why: format!("{error}; {hint}") }));
        }
        if message.document.get_text("routine").as_deref() != Some(routine.name.as_str()) {
            message.document.set("routine", routine.name.as_str());
            message.text = message.document.render();
            self.inbox.add(&message.file, &message.text)?;
        }
        let timeout = match self.timeout_for(&message, &spec) {
            Ok(timeout) => timeout,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let verify = spec.get_text("verify").unwrap_or_else(|| self.config.verify.clone());
        Ok(Ok(Prepared { message, routine, verify, timeout }))
    }

    /// Python is made ready before the checkpoint: it is no part of the message's own time.
    fn prepare_notebooks(&mut self) -> Result<()> {
        if papermill::find(self.layout).is_none() {
            self.note("making a Python environment for notebooks; this happens once");
        }
        let reporter = &mut *self.reporter;
        reporter.event(&Event::HookBegins("Python for notebooks"));
        let prepared = papermill::prepare(self.layout, &self.environment, &mut |bytes: &[u8]| {
            reporter.event(&Event::Output(bytes));
            Ok(())
        });
        reporter.event(&Event::HookEnds);
        prepared
    }

    /// The flag's word, else the message's, else the spec's, else the config's.
    fn timeout_for(&self, message: &Message, spec: &Document) -> Result<Duration, Rejection> {
        if let Some(timeout) = self.settings.timeout {
            return Ok(timeout);
        }
        if let Some(text) = message.document.get_text("timeout") {
            return parse_duration(&text).map_err(|why| Rejection::bad(format!("timeout: {why}")));
        }
        let Some(text) = spec.get_text("timeout") else {
            return Ok(self.config.timeout);
        };
        parse_duration(&text).map_err(|why| {
            let path = message.spec().unwrap_or_default();
            Rejection { code: "BadSpec", why: format!("{path}: timeout: {why}") }
        })
    }

    /// Whether a path stays in the project: as it is written, and where its links lead.
    fn is_inside(&self, path: &str) -> bool {
        let root = self.layout.root();
        let whole = root.join(path);
        let Ok(below) = whole.strip_prefix(root) else { return false };
        let mut depth = 0_usize;
        for part in below.components() {
            match part {
                Component::ParentDir if depth == 0 => return false,
                Component::ParentDir => depth -= 1,
                _ => depth += 1,
            }
        }
        whole.canonicalize().map_or(true, |real| real.starts_with(root))
    }

    fn read_spec(&self, path: &str) -> Result<Document, Rejection> {
        let bad = |why: String| Rejection { code: "BadSpec", why };
        let whole = self.layout.root().join(path);
        match crate::message::read_text(&whole) {
            Ok(text) => Document::parse(&text)
                .map_err(|mistake| bad(format!("{path}:{}: {}", mistake.line, mistake.message))),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(bad(format!("{path} is not UTF-8")))
            }
            Err(error) => Err(bad(format!("{path} cannot be read: {error}"))),
        }
    }

    /// Buries a message that cannot be tried.
    fn reject(
        &mut self,
        file: &OsStr,
        raw: &[u8],
        message: Option<&Message>,
        rejection: &Rejection,
    ) -> Result<()> {
        self.inbox.dead_letter(
            file,
            raw,
            &dead_letter(raw, &rejection.to_string(), Verdict::FailedReverted),
        )?;
        if let Some(message) = message {
            // The directory that kept its id from others; one that holds something stays.
            let _ = fs::remove_dir(RunDir::of(self.layout, &message.id).path());
        }
        self.tell_rejected(file, message, rejection);
        Ok(())
    }

    fn tell_rejected(&mut self, file: &OsStr, message: Option<&Message>, rejection: &Rejection) {
        let summary = match message {
            Some(message) => summary_of(message, Verdict::FailedReverted),
            None => {
                MessageSummary::without_run(crate::message::display_name(file, ""), Verdict::FailedReverted)
            }
        };
        self.record_outcome(MessageSummary { reason: rejection.to_string(), ..summary });
    }
}

/// A message's text, with what happened to it on top. What cannot be read as a message is kept whole below.
pub(super) fn dead_letter(raw: &[u8], error: &str, verdict: Verdict) -> Vec<u8> {
    let parsed = std::str::from_utf8(raw).ok().and_then(|text| Document::parse(text).ok());
    let is_message = parsed.is_some();
    let mut document = parsed.unwrap_or_default();
    document.set("error", error);
    document.set("verdict", verdict.word());
    let mut text = document.render().into_bytes();
    if !is_message {
        text.extend_from_slice(raw);
    }
    text
}

/// A message as it was before it died.
fn without_obituary(mut document: Document) -> Result<Document, Mistake> {
    // One of them alone is a field like any other.
    if !DEAD_LETTER_KEYS.iter().all(|key| document.get(key).is_some()) {
        return Ok(document);
    }
    for key in DEAD_LETTER_KEYS {
        document.remove(key);
    }
    if !document.fields.is_empty() {
        return Ok(document);
    }
    // It was no message in the first place, and stands in the body as it was.
    Document::parse(&document.body)
}

fn summary_of(message: &Message, verdict: Verdict) -> MessageSummary {
    MessageSummary {
        id: Some(message.id.to_string()),
        seq: message.id.seq(),
        spec: message.spec().map(str::to_owned),
        routine: message.document.get_text("routine"),
        ..MessageSummary::without_run(message.name(), verdict)
    }
}
