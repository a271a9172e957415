//! Unattended work: messages are taken one by one, each on top of a checkpoint, tried, tried again with what was learned,
//! and in the end kept or put back.
//!
//! ```text
//! work       which message next            take        from a file in the inbox to a job, or a dead letter
//! run        checkpoint, attempts, verdict attempt     one execution: routine, verification, diff, policy
//! settle     done/, dead/, tracker         recovery    the same for a run that was cut off
//! undo       a kept run taken back
//! ```
//!
//! [`retry`], [`policy`], [`budget`] and [`verdict`] decide and do nothing else. Everything that happens is told as an
//! [`events::Event`]; nothing here writes to a terminal. The order of writes, from which recovery follows, is in
//! `docs/format.md`.

mod active_run;
mod attempt;
mod budget;
pub mod events;
mod failure_context;
mod hooks;
mod policy;
mod prepare;
mod queue;
mod recovery;
mod redact_summary;
mod result;
mod retry;
mod route;
mod run;
mod run_dir;
mod secrets;
mod settle;
mod summary;
pub mod undo;
mod verdict;

pub use active_run::ActiveRun;
pub use budget::Usage;
pub use queue::{Pipeline, RunOverrides, Selection, planned};
pub use recovery::UnfinishedRun;
pub use redact_summary::redact_text;
pub use result::{AttemptRecord, RevertRecord, RunRecord, RunResult};
pub use run_dir::RunDir;
pub use settle::tracked_name;
pub use summary::{FileChange, MessageSummary, Summary};
pub use verdict::{Ending, Verdict};

/// Now, as every file has it.
pub fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
