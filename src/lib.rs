//! decree carries out specs with AI agents unattended, and makes that safe.
//!
//! The modules, each of which uses only those below it:
//!
//! - [`cli`]: one file a command
//! - [`ui`]: what people see
//! - [`artifact`]: runs that travel: handed to a CI, brought back from one
//! - [`publish`]: what was done, as commits, a push and a pull request
//! - [`github`]: a workflow's log and outputs, comments and pull requests, on GitHub and what speaks like it
//! - [`report`]: a summary and its runs as text, Markdown, JUnit or a page
//! - [`doctor`]: whether everything a routine needs is here
//! - [`pipeline`]: unattended work: checkpoint, attempts, verdict, recovery
//! - [`history`]: runs and checkpoints by their ids
//! - [`database`]: a database as it was at one moment, and back to it
//! - [`routine`]: what carries a message out: found, described, chosen
//! - [`spec`]: the work that people describe, and what of it is done
//! - [`message`]: ids, names, front matter, the inbox
//! - [`project`]: where a project and its files are, its config, its lock
//! - [`checkpoint`]: the engine: capture a tree, tell what changed, put it back, prove it
//! - [`git`]: running git, for what needs it
//! - [`process`]: programs, and everything they leave running
//! - [`fs`]: files that are complete or absent
//! - [`interrupt`]: being asked to stop
//! - [`yaml`], [`stemming`], [`suggest`], [`humanize`], [`sanitize`]: settings with their lines, prose as words, what was meant, numbers as people say
//!   them, output that is safe to show
//! - [`error`]: what failed, why, and what to do next
//!
//! `docs/architecture.md` has the whole map, `docs/format.md` everything that is on disk.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod artifact;
pub mod checkpoint;
pub mod cli;
pub mod database;
pub mod doctor;
pub mod error;
pub mod fs;
pub mod git;
pub mod github;
pub mod history;
pub mod humanize;
pub mod interrupt;
pub mod message;
pub mod pipeline;
pub mod process;
pub mod project;
pub mod publish;
pub mod report;
pub mod routine;
pub mod sanitize;
pub mod spec;
pub mod stemming;
pub mod suggest;
pub mod ui;
pub mod yaml;
