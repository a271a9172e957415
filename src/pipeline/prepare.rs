//! From a file in the inbox to a message that is ready to run, or to the reason why it cannot be. The router and bash's check of
//! the routine's syntax run here, and keys that are missing are written to the inbox. The routine itself does not run, and no
//! message becomes a dead letter: the loop does that.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Component;
use std::time::Duration;

use super::context::{ActiveBatch, PipelineContext};
use super::dead_letter::{self, DeadLetter};
use super::front_matter_check::{self, CheckedDocument, WorkCheck, read_spec, verification};
use super::{result, route};
use crate::error::Result;
use crate::history::RunDir;
use crate::message::{
    ChainId, Document, DocumentKind, IdStatus, Inbox, Message, MessageError, MessageId, QueueView, Rejection,
    begin_chain,
};
use crate::project::{Config, Layout};
use crate::routine::Routine;

/// What can be done with a file in the inbox.
pub(super) enum Preparation {
    Ready(Prepared),
    Rejected(RejectedMessage),
    /// Another process took the file away.
    Gone,
}

/// A message with everything that running it takes.
pub(super) struct Prepared {
    pub message: Message,
    pub routine: Routine,
    /// The command that has to succeed after the routine; empty for none.
    pub verify: String,
    /// The limit of one attempt; zero for none.
    pub timeout: Duration,
    /// The front matter of the spec, which can set parameters of the routine as the message can.
    pub spec: Document,
    /// What the user should know of the message before it runs.
    pub warnings: Vec<String>,
}

/// A message that cannot be run.
pub(super) struct RejectedMessage {
    pub file: OsString,
    /// What the inbox has of it; `None` if it cannot be read.
    pub text: Option<Vec<u8>>,
    /// The message, as far as it is one.
    pub message: Option<Message>,
    pub rejection: Rejection,
}

impl RejectedMessage {
    pub fn of(message: Message, rejection: Rejection) -> Self {
        let text = Some(message.text.clone().into_bytes());
        RejectedMessage { file: message.file.clone(), text, message: Some(message), rejection }
    }
}

impl Prepared {
    /// Writes the chosen routine into the message; returns whether that changed it.
    pub fn name_routine(&mut self) -> bool {
        let name = self.routine.name.as_str();
        if self.message.document.get_text("routine").as_deref() == Some(name) {
            return false;
        }
        self.message.document.set("routine", name);
        self.message.text = self.message.document.render();
        true
    }
}

/// Decides what can be done with a file in the inbox. Fills in what its front matter leaves out and writes that to the inbox
/// first: a command that is interrupted while the router is asked leaves a message that keeps its id.
pub(super) fn prepare(batch: &mut ActiveBatch<'_>, file: &OsStr) -> Result<Preparation> {
    let rejected = |text, rejection| {
        Ok(Preparation::Rejected(RejectedMessage { file: file.to_owned(), text, message: None, rejection }))
    };
    let raw = match crate::message::read_bytes(&batch.context.inbox.path(file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Preparation::Gone),
        // A file that cannot be read must not block the others.
        Err(error) => return rejected(None, Rejection::bad(format!("it cannot be read: {error}"))),
        Ok(raw) => raw,
    };
    let message = match normalise(&batch.context, &mut batch.queue, file, &raw) {
        Ok(message) => message,
        Err(MessageError::Rejected(rejection)) => return rejected(Some(raw), rejection),
        Err(MessageError::Failed(error)) => return Err(error),
    };
    if message.text.as_bytes() != raw {
        batch.context.inbox.add(file, &message.text)?;
    }
    let workspace = batch.context.workspace;
    // bash's check of the syntax takes about as long, and a router longer.
    match workspace.read_ahead(|| plan_run(batch, &message)) {
        Ok(plan) => Ok(Preparation::Ready(plan.prepared(message))),
        Err(MessageError::Rejected(rejection)) => {
            Ok(Preparation::Rejected(RejectedMessage::of(message, rejection)))
        }
        Err(MessageError::Failed(error)) => Err(error),
    }
}

/// Parses a message: its text, its front matter as it is written, and without what only a dead letter has.
fn parse<'r>(file: &OsStr, raw: &'r [u8]) -> Result<(&'r str, Document, Document), Rejection> {
    let text = std::str::from_utf8(raw).map_err(|_| Rejection::bad("it is not UTF-8"))?;
    let (kind, name) = (DocumentKind::Message, file.to_string_lossy());
    let written = front_matter_check::parse(kind, &name, text)?;
    let original = dead_letter::original(written.clone());
    let document = original
        .map_err(|mistake| Rejection::bad(format!("{name}:{}: {}", mistake.line, mistake.message)))?;
    CheckedDocument { kind, file: &name, document: &document }.check_values()?;
    Ok((text, written, document))
}

fn normalise(
    context: &PipelineContext<'_>,
    view: &mut QueueView,
    file: &OsStr,
    raw: &[u8],
) -> Result<Message, MessageError> {
    let (text, written, document) = parse(file, raw)?;
    let begin = || begin_chain(context.layout, view).map(|(chain, _)| chain);
    // Read only if the message names an id.
    let letters = OnceCell::new();
    let of_another = |id: &MessageId| {
        let letters = letters.get_or_init(|| DeadLetter::all(&context.inbox));
        let mut letters = letters.iter().flatten();
        letters.any(|letter| letter.has_id(id) && !letter.is_of(file, &document))
    };
    let status = |id: &MessageId| match result::id_status(&RunDir::of(context.layout, id)) {
        _ if of_another(id) => IdStatus::Taken,
        status => status,
    };
    let message = Message::normalise(file, document.clone(), begin, status);
    letters.into_inner().transpose()?;
    let mut message = message?;
    if message.document == written {
        text.clone_into(&mut message.text);
    }
    Ok(message)
}

/// How a message is run.
struct RunPlan {
    routine: Routine,
    verify: String,
    timeout: Duration,
    spec: Document,
    warnings: Vec<String>,
}

impl RunPlan {
    fn prepared(self, message: Message) -> Prepared {
        let RunPlan { routine, verify, timeout, spec, warnings } = self;
        Prepared { message, routine, verify, timeout, spec, warnings }
    }
}

/// Finds the routine, the verification and the time limit of a message.
fn plan_run(batch: &mut ActiveBatch<'_>, message: &Message) -> Result<RunPlan, MessageError> {
    let spec = spec_of(batch.context.layout, batch.context.config, message)?;
    let routine = route::choose_routine(batch, message, &spec)?;
    let file = message.file.to_string_lossy();
    let documents = documents(&file, message, &spec);
    let mut warnings = Vec::new();
    for document in documents {
        warnings.extend(document.check_keys(&routine)?);
    }
    let timeout = timeout_for(&batch.context, documents)?;
    let verify = verification(&spec, batch.context.config);
    Ok(RunPlan { routine, verify, timeout, spec, warnings })
}

/// The front matter of a message's spec, if it has one. Rejects a message that is too deep in its chain or leads out of the project.
fn spec_of(layout: &Layout, config: &Config, message: &Message) -> Result<Document, Rejection> {
    let (seq, max_depth) = (message.id.seq, config.max_depth);
    if seq >= max_depth {
        let why = format!("seq {seq} is not below max_depth, which is {max_depth}");
        return Err(Rejection { code: "MaxDepthExceeded", why });
    }
    if let Some(path) = message.input_file.as_deref().filter(|path| !is_inside(layout, path)) {
        return Err(Rejection::bad(format!("input_file {path} is not in the project")));
    }
    Ok(message.spec().map(|path| read_spec(layout, path)).transpose()?.unwrap_or_default())
}

fn documents<'d>(file: &'d str, message: &'d Message, spec: &'d Document) -> [CheckedDocument<'d>; 2] {
    [
        CheckedDocument { kind: DocumentKind::Message, file, document: &message.document },
        CheckedDocument {
            kind: DocumentKind::Spec,
            file: message.spec().unwrap_or_default(),
            document: spec,
        },
    ]
}

/// Why a waiting message cannot be processed, as far as that is known without running or writing anything; warnings if it can.
pub fn check_message(check: &WorkCheck<'_>, file: &OsStr) -> Result<Vec<String>, Rejection> {
    let raw = match crate::message::read_bytes(&Inbox::of(check.layout).path(file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        raw => raw.map_err(|error| Rejection::bad(format!("it cannot be read: {error}")))?,
    };
    let (_, _, document) = parse(file, &raw)?;
    // Which id it gets makes no difference here, except for one that it names.
    let new_chain = || Ok(ChainId::parse(&"0".repeat(16)).expect("sixteen digits are a chain"));
    let message = match Message::normalise(file, document, new_chain, |_| IdStatus::Free) {
        Ok(message) => message,
        Err(MessageError::Rejected(rejection)) => return Err(rejection),
        Err(MessageError::Failed(error)) => return Err(Rejection::bad(error.to_string())),
    };
    let spec = spec_of(check.layout, check.config, &message)?;
    let name = file.to_string_lossy();
    let documents = documents(&name, &message, &spec);
    let routine = check.routine(&[&message.document, &spec])?;
    let mut warnings = Vec::new();
    for document in documents {
        document.timeout()?;
        if let Some(routine) = routine {
            warnings.extend(document.check_keys(routine)?);
        }
    }
    check.verification(&spec)?;
    Ok(warnings)
}

/// The limit of the command line, else of the message, else of the spec, else of the config.
fn timeout_for(
    context: &PipelineContext<'_>,
    documents: [CheckedDocument<'_>; 2],
) -> Result<Duration, Rejection> {
    if context.overrides.timeout.is_none() {
        for document in documents {
            if let Some(limit) = document.timeout()? {
                return Ok(limit);
            }
        }
    }
    Ok(context.timeout())
}

/// Whether a path stays in the project, both as it is written and with its links resolved.
fn is_inside(layout: &Layout, path: &str) -> bool {
    let root = layout.root();
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
