//! Unattended work: one message after the other is run on top of a checkpoint. A failed attempt is retried; in the end the
//! change is kept, or the tree is reverted to the checkpoint.
//!
//! ```text
//! work_loop        Pipeline: takes what the queue chooses, prepares it, runs it, records the outcome
//! ├ queue          which message or spec is next; what `process` would do
//! ├ prepare        from a file in the inbox to a message ready to run, or a rejection; does not run it
//! │ ├ route        which routine, by name or through the router
//! │ ├ front_matter_check  whether decree and the routine understand the keys of a spec or a message
//! │ └ verify_program  whether the program of a verification is installed; for attempt, too
//! ├ run            one run: checkpoint, attempts, verdict
//! │ ├ attempts     all attempts of a run: retry, revert for a clean slate, stop
//! │ ├ attempt      one execution: routine, verification, change record, policy
//! │ └ settle       result, tree, done/ or dead/, tracker, in an order that can be repeated
//! ├ recovery       the same for a run that was killed or failed halfway
//! ├ unrestored     a run that cannot be reverted as a whole, for `decree recover`
//! └ hooks          the user's commands around all of it
//!
//! context          the project, which every step only reads; the active batch, which steps report to: events, budget, summary
//! revert_tree      takes the tree back to a run's checkpoint and proves it; for attempts, settle and recovery
//! git_state        restores HEAD, its branch and the index with the tree, or records what a kept run committed
//! revert_runs      reverts runs that were kept, for the commands that do so; run_log records it, later_work refuses what would undo another run
//! rolled_back      records which runs left the tree with a rollback, or came back; tree_periods is when each was in it
//! ```
//!
//! On disk: [`active_run`](ActiveRun) is `running.json`, `result` a run's `result.json`, `summary` is `summary.json`.
//! `policy`, `budget`, `verdict`, `dead_letter` and `failure_context` decide or phrase things and do nothing else. Everything that
//! happens is reported as an [`events::Event`]; nothing here writes to a terminal. The order of writes, from which recovery
//! follows, is in `docs/format.md`.

mod active_run;
mod attempt;
mod attempts;
mod budget;
mod context;
mod dead_letter;
pub mod events;
mod failure_context;
mod front_matter_check;
mod git_state;
mod hooks;
mod later_work;
mod policy;
mod prepare;
mod queue;
mod recovery;
mod result;
pub mod revert_runs;
mod revert_tree;
pub mod rolled_back;
mod route;
mod run;
mod run_log;
mod run_state;
mod settle;
mod summary;
mod tree_periods;
mod uncaptured;
mod unrestored;
mod verdict;
mod verify_program;
mod work_loop;

pub use active_run::{ActiveAttempt, ActiveRun};
pub use budget::Usage;
pub use context::{ActiveBatch, RunOverrides};
pub use dead_letter::DeadLetter;
pub use front_matter_check::WorkCheck;
pub use prepare::check_message;
pub use queue::{Selection, plan};
pub use result::{AttemptRecord, RevertRecord, RunRecord, RunResult, tracked_name};
pub use route::known_routine;
pub use run_log::RunLog;
pub use summary::{FileChange, MessageOutcome, MessageSummary, Summary, redact_text};
pub use uncaptured::not_restored_error;
pub use unrestored::{RecoveredRun, quarantine_damaged_record};
pub use verdict::{Ending, Verdict};
pub use work_loop::Pipeline;

/// The current time as every file on disk has it.
fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
