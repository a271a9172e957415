//! What the pipeline reports while it works. Terminal, CI log and summary read these and nothing else: a new output never
//! touches execution.

use std::time::Duration;

use super::result::{AttemptRecord, RevertRecord};
use super::summary::MessageSummary;
use crate::message::MessageId;

/// The position of an attempt in its run.
#[derive(Clone, Copy, Debug)]
pub struct AttemptNumber {
    pub number: u32,
    /// The most attempts that the run can have.
    pub of: u32,
    /// Whether the tree was reverted before it.
    pub clean_slate: bool,
}

#[derive(Debug)]
pub enum Event<'e> {
    /// Work begins: this many messages wait, and this many specs of those that are pending are to be processed.
    Begin {
        messages: usize,
        specs: usize,
        pending: usize,
    },
    /// The checkpoint of the whole tree before a run was created.
    Checkpointed {
        files: u64,
        took: Duration,
    },
    MessageBegins {
        id: &'e MessageId,
        name: &'e str,
        routine: &'e str,
    },
    AttemptBegins(AttemptNumber),
    /// Output of the routine, the verification or a hook; secrets are masked already.
    Output(&'e [u8]),
    /// The routine succeeded; now this command has to succeed.
    Verifying(&'e str),
    /// A hook of this name starts.
    HookBegins(&'e str),
    HookEnds,
    AttemptEnds {
        record: &'e AttemptRecord,
        /// The most attempts that the run can have.
        of: u32,
    },
    /// The next attempt starts after this time.
    Waiting(Duration),
    /// The tree is reverted to the run's checkpoint, and verified.
    Reverted {
        id: &'e MessageId,
        /// The last attempt before a clean slate, whose diff has what was reverted; at the end of a run, its own diff has it.
        attempt: Option<u32>,
        record: &'e RevertRecord,
    },
    MessageEnds(&'e MessageSummary),
    /// A message that `--quiet` suppresses.
    Note(&'e str),
    /// A message that is always printed.
    Warning(&'e str),
    /// All work is done, and the summary is written.
    End,
}

/// Receives the events of one command.
pub trait Reporter {
    fn event(&mut self, event: &Event<'_>);

    /// The progress bar for operations that read many files.
    fn progress(&self) -> &dyn crate::checkpoint::progress::Progress;
}
