//! Which message is next: follow-ups of the chain at work first, then what waits in the inbox, then specs.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;

use super::dead_letter::DeadLetter;
use crate::checkpoint::ignore::matches_glob;
use crate::error::{Error, Result};
use crate::history::RunDir;
use crate::message::{
    ChainId, Document, Inbox, MessageId, MessageName, QueueView, SPEC_EXTENSION, begin_chain, is_spec,
    read_text,
};
use crate::project::Layout;
use crate::spec::{Spec, Specs, Tracker};

/// Which specs to process.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only specs whose file name or path matches one of these.
    pub globs: Vec<String>,
    /// The most specs to process.
    pub limit: Option<usize>,
    /// Whether to stop at the first message that fails.
    pub fail_fast: bool,
}

/// What the queue chose.
pub(super) enum QueueItem {
    /// A message in the inbox.
    Message(OsString),
    Spec(Spec),
}

/// The work of one command, in order.
#[derive(Default)]
pub(super) struct Queue {
    pub messages: VecDeque<OsString>,
    pub specs: VecDeque<Spec>,
    /// The chain that is being worked on.
    pub chain: Option<ChainId>,
    /// Specs that this command has decided, whichever way they came.
    pub handled: BTreeSet<String>,
}

impl Queue {
    /// The next message or spec. A chain is worked on depth first, so its follow-ups come before anything else.
    pub fn next(&mut self, inbox: &Inbox, view: &mut QueueView) -> Result<Option<QueueItem>> {
        if let Some(chain) = &self.chain {
            let has_more = !self.messages.is_empty() || !self.specs.is_empty();
            if has_more {
                view.refresh()?
            } else {
                view.refresh_unwatched()?
            }
            if let Some(file) = view.next_in_chain(chain) {
                return Ok(Some(QueueItem::Message(file)));
            }
            self.chain = None;
        }
        while let Some(file) = self.messages.pop_front() {
            // It may have been worked on as a follow-up.
            if inbox.path(&file).exists() {
                return Ok(Some(QueueItem::Message(file)));
            }
        }
        while let Some(spec) = self.specs.pop_front() {
            // A message that waited may have been about it.
            if self.handled.insert(spec.shown()) {
                return Ok(Some(QueueItem::Spec(spec)));
            }
        }
        Ok(None)
    }
}

/// Adds a message for a spec to the inbox and returns its file name. Dead letters of earlier runs of the spec move to their
/// runs.
pub(super) fn enqueue(layout: &Layout, inbox: &Inbox, view: &mut QueueView, spec: &Spec) -> Result<OsString> {
    withdraw_dead_letters(layout, inbox, &spec.shown())?;
    let (chain, _) = begin_chain(layout, view)?;
    let name = MessageName::from_spec_file(&spec.file_name).unwrap_or_else(|| MessageName::fallback(&chain));
    let mut document = Document::default();
    document.set("id", MessageId::root(chain).to_string());
    document.set("type", "spec");
    document.set("input_file", spec.shown());
    add_message(inbox, name, &document)
}

/// Adds a message to the inbox under a name that no other message has, and returns its file name.
pub(super) fn add_message(inbox: &Inbox, name: MessageName, document: &Document) -> Result<OsString> {
    let file = OsString::from(format!("{}.md", name.unique(|name| inbox.contains(name))));
    inbox.add(&file, &document.render())?;
    Ok(file)
}

fn withdraw_dead_letters(layout: &Layout, inbox: &Inbox, spec: &str) -> Result<()> {
    for letter in DeadLetter::all(inbox)? {
        if letter.field("input_file") == spec
            && let Some(id) = MessageId::parse(&letter.field("id"))
        {
            inbox.withdraw_dead(&letter.file, &RunDir::of(layout, &id).dead_letter())?;
        }
    }
    Ok(())
}

/// What `process` would do.
#[derive(Debug, Default)]
pub struct Plan {
    /// The messages that wait, the oldest first.
    pub messages: Vec<OsString>,
    /// The specs that are not processed, in order.
    pub specs: Vec<Spec>,
    /// Files among the specs that cannot be specs, and why.
    pub problems: Vec<String>,
}

/// Finds the messages and specs that are to be processed.
pub fn plan(layout: &Layout, selection: &Selection) -> Result<Plan> {
    let tracker = Tracker::read(&layout.tracker())?;
    let found = Specs::discover(&layout.specs())?;
    let selected = |shown: &str| selection.globs.is_empty() || matches_any(&selection.globs, shown);
    let known = found.specs.iter().any(|spec| selected(&spec.shown()));
    if !selection.globs.is_empty() && !known {
        let names = found.specs.iter().map(|spec| spec.file_name.clone()).collect();
        return Err(Error::project(format!("no spec matches '{}'", selection.globs.join("', '")))
            .details(names, 10)
            .hint("a pattern is matched against the file name and the path; `*` and `?` are wildcards"));
    }
    let inbox = Inbox::of(layout);
    let mut messages = Vec::new();
    let mut waiting = BTreeSet::new();
    for pending in inbox.pending()? {
        let text = read_text(&inbox.path(&pending.file)).unwrap_or_default();
        let input = Document::parse(&text).ok().and_then(|document| document.get_text("input_file"));
        let spec = input.filter(|path| is_spec(path));
        // A selection is about specs: a message about another spec, or about none, waits.
        if selection.globs.is_empty() || spec.as_deref().is_some_and(selected) {
            messages.push(pending.file);
        }
        waiting.extend(spec);
    }
    let specs = found
        .specs
        .into_iter()
        .filter(|spec| !tracker.contains(&spec.file_name))
        .filter(|spec| selected(&spec.shown()) && !waiting.contains(&spec.shown()))
        .collect();
    let problems = found.problems.iter().map(ToString::to_string).collect();
    Ok(Plan { messages, specs, problems })
}

/// Whether a spec's file name, its name or its path matches one of the patterns.
fn matches_any(globs: &[String], shown: &str) -> bool {
    let name = shown.rsplit('/').next().unwrap_or(shown);
    let bare = name.trim_end_matches(SPEC_EXTENSION);
    let matches = |pattern: &str, text: &str| matches_glob(pattern.as_bytes(), text.as_bytes());
    globs.iter().any(|pattern| [shown, name, bare].iter().any(|text| matches(pattern, text)))
}
