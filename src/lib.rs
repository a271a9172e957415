//! decree carries out specs with AI agents unattended, checkpoints the tree first, and reverts it byte for byte when they
//! fail. `main.rs` parses the command line with [`cli::Cli`] and calls [`cli::run`], which calls one file per command.
//!
//! # The modules
//!
//! Each module uses only those below it.
//!
//! - [`cli`]: one file per command: its options and its function
//! - [`ui`]: output: data on stdout, everything else on stderr, progress and questions on a terminal
//! - [`artifact`]: runs exported to a CI artifact and imported from one
//! - [`publish`]: kept runs as git commits, a push and a pull request
//! - [`github`]: workflow commands, step outputs, comments and pull requests; the only module that opens connections
//! - [`report`]: a summary and its runs as text, Markdown, JUnit or HTML
//! - [`doctor`]: checks that the programs a routine needs are installed
//! - [`pipeline`]: unattended work: queue, attempts, retries, verdicts, recovery
//! - [`history`]: runs and checkpoints by id: create, verify, roll back, collect garbage, audit
//! - [`database`]: checkpoints of databases
//! - [`routine`]: the scripts and notebooks that carry out messages: discovery, parameters, routing, invocation
//! - [`spec`]: spec files in their order, and the list of processed ones
//! - [`message`]: message ids, names and front matter, and the inbox
//! - [`project`]: the project directory: layout of `.decree/`, config, lock
//! - [`checkpoint`]: the engine: capture a tree, compare, write a diff, restore, verify
//! - [`git`]: runs git, for publishing and for stash checkpoints
//! - [`process`]: runs programs and ends every process they leave behind
//! - [`fs`]: atomic writes, and careful reads of files that others wrote
//! - [`interrupt`]: signals that ask decree to stop
//! - [`yaml`], [`stemming`], [`suggest`], [`humanize`], [`sanitize`]: YAML with line numbers, words of a text, "did you
//!   mean", numbers for people, untrusted text made safe to print
//! - [`error`]: the error type and the exit codes
//!
//! # What happens on `decree process`
//!
//! A *spec* is a Markdown file that describes work. It becomes a *message*, the unit that decree carries out, by a *routine*: a
//! script, usually one that calls an AI coding tool. All work on one message is a *run*, one execution of its routine an
//! *attempt*. A message that fails for good is a *dead letter*. The *tracker* lists the specs that are done.
//!
//! 1. `cli/process.rs` `process` opens the project with `LockedProject::open`. That finds `.decree/`
//!    ([`project::Project::find`]), takes the lock, and recovers from a killed decree: a move of files that was cut off is
//!    finished or undone ([`project::Project::lock`]), then a rollback, then a guard (`cli/context.rs`), then the run
//!    itself (`pipeline/recovery.rs`).
//! 2. [`doctor::preflight`] fails early if a routine of the selected specs needs a program that is not installed.
//! 3. [`pipeline::Pipeline::process`] works through the queue: first the messages in the inbox, then each spec that is not
//!    in the tracker, in the order of file names. For each message
//!    - `pipeline/prepare.rs` reads it, chooses its routine and checks its parameters, or writes a dead letter;
//!    - `pipeline/run.rs` creates a checkpoint of the tree; `pipeline/attempts.rs` runs attempts until one succeeds or
//!      none is left. `pipeline/attempt.rs` is one attempt: [`routine::Invocation`] says what to execute, [`process::Exec::run`]
//!      executes it, then come the verify command, the diff and the policy;
//!    - `pipeline/settle.rs` writes the verdict to `result.json`. Then the changes stay in the tree, or
//!      `pipeline/revert_tree.rs` reverts it to the checkpoint ([`checkpoint::restore`]) and compares it. Then the message
//!      goes to `done/` or `dead/`, and a spec into the tracker. Follow-up messages that the routine put into the inbox
//!      come next, before the next spec.
//! 4. A signal ends the attempt ([`interrupt`]): the diff so far is written, the tree is reverted, and the message stays in
//!    the inbox for the next `decree process`.
//! 5. Each step emits an [`pipeline::events::Event`]; [`ui`] prints them. At the end [`pipeline::Summary`] is written to
//!    `.decree/summary.json`, printed, and in GitHub Actions also reported by [`github::step_report`].
//! 6. The exit code is 0 if every message was kept and 1 if not; an error has the code of its [`error::ErrorKind`].
//!
//! `docs/architecture.md` maps the modules, `docs/format.md` describes everything on disk.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

// Only what the binary and the integration tests use is public, so that the compiler finds code that nothing uses.
mod artifact;
mod checkpoint;
pub mod cli;
pub mod database;
mod doctor;
pub mod error;
pub mod fs;
pub mod git;
pub mod github;
mod history;
mod humanize;
pub mod interrupt;
mod message;
pub mod pipeline;
pub mod process;
pub mod project;
mod publish;
mod report;
mod routine;
mod sanitize;
mod spec;
mod stemming;
mod suggest;
mod ui;
mod yaml;

pub use checkpoint::hash::ContentHash;
pub use checkpoint::quote;
