//! Everything that decree executes goes through here: routines, verify commands, hooks, routers.
//!
//! What this module promises: when [`Exec::run`] returns, nothing that the program started is alive any more,
//! however it was started (background jobs, `setsid`, double forks) and whatever it did to its parents.
//!
//! ```text
//! decree ──▶ supervisor (a session of its own) ──▶ program (a process group of its own) ──▶ …
//!        ◀── one pipe: stdout and stderr, in order ┘
//!        ◀─▶ one socket: the program's input; how it ended; end of file when either side dies
//! ```
//!
//! - [`Exec`]: a program to run, and [`Exec::run`], which streams its output and tells how it [`ExecResult`]
//! - [`find_program`]: whether there is one
//! - [`attended`]: a program that has decree's own terminal
//! - [`supervisor`]: the small process between decree and the program
//! - [`table`]: the process table, as `/proc` tells it
//! - [`orphans`]: what falls to decree when a supervisor was killed
//! - [`marked`]: what is left of a run whose decree was killed, found by its [`ProcessMark`]
//! - [`environment`]: what a program inherits, and what a message may not set
//! - [`log`]: a log that keeps its head and its tail
//! - [`redact`]: secrets, taken out of a stream
//!
//! Out of reach: a process that belongs to another user (`sudo -b`), which decree has no right to end, and which is
//! counted in [`ExecResult::survivors`]; and what a program has somebody else start (`docker run -d`, `systemd-run`, `at`),
//! which was never below it.

pub mod attended;
pub mod environment;
mod exec;
pub mod log;
pub mod marked;
pub mod orphans;
mod program;
pub mod redact;
mod report;
mod running;
pub mod supervisor;
pub mod table;

pub use exec::{Exec, ExecEnd, ExecResult, GracePeriods, Output};
pub use marked::ProcessMark;
pub use orphans::become_subreaper;
pub use program::find_program;
