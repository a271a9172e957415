//! The integration tests: one binary, a module per capability, a shared harness.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::too_many_lines)]

mod apply;
mod artifact;
mod browser;
mod comment;
mod criteria;
mod damage;
mod database;
mod demo;
mod gc;
mod generate;
mod harness;
mod hostile;
mod house;
mod ignore_oracle;
mod killed;
mod kinds;
mod manifest;
mod notebook;
mod oracle;
mod packs;
mod pipeline;
mod process;
mod property;
mod publish;
mod recover;
mod report;
mod revert;
mod rollback;
mod stash;
mod terminal;
mod without_tools;
mod workflow;
