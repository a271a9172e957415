//! Messages, attempts, verdicts: the real binary, real routines, and what a user finds afterwards.

mod attempts;
mod budgets;
mod chains;
mod dead_letters;
mod environment;
mod hooks;
mod looking_back;
mod naming;
mod normalising;
mod output;
mod own_files;
mod parameters;
mod processing;
mod reverting;
mod routing;
mod selecting;
mod verdicts;
pub mod workshop;
