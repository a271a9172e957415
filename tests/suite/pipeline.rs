//! Messages, attempts, verdicts: the real binary, real routines, and what a user finds afterwards.

mod attempts;
mod budgets;
mod chains;
mod dead_letters;
mod environment;
mod escapes;
mod front_matter;
mod hooks;
mod ids;
mod inspecting;
mod killed_letters;
mod killed_queue;
mod naming;
mod normalising;
mod output;
mod own_files;
mod parameters;
pub mod pipeline_project;
mod processing;
mod prompts;
mod reverting;
mod rolled_back;
mod routing;
mod running;
mod secrets;
mod selecting;
mod verdicts;
