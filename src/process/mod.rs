//! Runs programs: routines, verify commands, hooks, routers, git. Nothing else in decree starts a process.
//!
//! What this module promises: when [`Exec::run`] returns, no process that the program started is alive, however it was
//! started (background jobs, `setsid`, double forks) and whatever it did to its parents.
//!
//! ```text
//! decree ──▶ supervisor (in its own session) ──▶ program (in its own process group) ──▶ …
//!        ◀── one pipe: stdout and stderr, in order ┘
//!        ◀─▶ one socket: the program's input; its exit status; end of file when either side dies
//! ```
//!
//! - [`Exec`]: a program to run; [`Exec::run`] streams its output and returns an [`ExecResult`]
//! - [`find_program`]: looks a program up on `PATH`
//! - [`foreground`]: a program that uses decree's own terminal
//! - [`supervisor`]: the small process between decree and the program
//! - [`table`]: the process table, read from `/proc`
//! - [`orphans`]: processes that decree inherits when a supervisor was killed
//! - [`marked`]: processes of a run whose decree was killed, found by their [`ProcessMark`]
//! - [`file_users`]: which processes have a file open or locked
//! - [`environment`]: what a program inherits, and what a message may not set
//! - [`log`]: a log that keeps its head and its tail
//! - [`secrets`]: which values of an environment are secrets
//! - [`redact`]: masks secrets in a stream
//! - [`visible`]: which bytes of output a reader sees
//!
//! What it does not promise: a process of another user (`sudo -b`) cannot be ended and is counted in
//! [`ExecResult::survivors`]; a process that a daemon starts on the program's behalf (`docker run -d`, `systemd-run`, `at`)
//! is no descendant of the program and is not found.

pub mod environment;
mod exec;
pub mod file_users;
pub mod foreground;
pub mod log;
pub mod marked;
pub mod orphans;
pub mod redact;
mod running;
pub mod secrets;
pub mod supervisor;
pub mod table;
mod visible;

pub use exec::{Exec, ExecEnd, ExecResult, GracePeriods, Output, STRICT_BASH, find_program};
pub use marked::ProcessMark;
pub use orphans::become_subreaper;
