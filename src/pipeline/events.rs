//! What the pipeline tells while it works. Terminal, CI log and summary read these and nothing else: a new output never
//! touches execution.

use std::time::Duration;

use super::result::{AttemptRecord, RevertRecord};
use super::summary::{MessageSummary, Summary};
use crate::message::MessageId;

/// A message that is about to be worked on.
#[derive(Clone, Debug)]
pub struct MessageHeader {
    /// Its id.
    pub id: MessageId,
    /// Its name.
    pub name: String,
    /// What carries it out.
    pub routine: String,
}

/// Something that happened.
#[derive(Debug)]
pub enum Event<'e> {
    /// Work begins: so many messages wait, so many specs are to be done.
    Begin {
        /// In the inbox.
        messages: usize,
        /// Not processed yet.
        specs: usize,
    },
    /// The tree before a message was saved.
    Checkpointed {
        /// In the whole tree.
        files: u64,
        /// How long that took.
        took: Duration,
    },
    /// A message is taken.
    MessageBegins(&'e MessageHeader),
    /// Its routine starts.
    AttemptBegins {
        /// From 1.
        number: u32,
        /// At most.
        of: u32,
        /// On a tree that was put back.
        clean_slate: bool,
    },
    /// The routine (or the verification) says something; secrets are blotted out already.
    Output(&'e [u8]),
    /// The routine was content; this command has to be, too.
    Verifying(&'e str),
    /// A hook starts; what it says is output, too.
    HookBegins(&'e str),
    /// It is over.
    HookEnds,
    /// An attempt is over.
    AttemptEnds {
        /// What came of it.
        record: &'e AttemptRecord,
        /// At most.
        of: u32,
    },
    /// Waiting before the next attempt.
    Waiting(Duration),
    /// The tree is as it was.
    Reverted(&'e RevertRecord),
    /// The message is decided.
    MessageEnds(&'e MessageSummary),
    /// Something people may want to know.
    Note(&'e str),
    /// Something people have to know.
    Warning(&'e str),
    /// All is done.
    End(&'e Summary),
}

/// Something that listens.
pub trait Reporter {
    /// Takes note of an event.
    fn event(&mut self, event: &Event<'_>);

    /// A bar for reading many files.
    fn progress(&self) -> &dyn crate::checkpoint::progress::Progress;
}
