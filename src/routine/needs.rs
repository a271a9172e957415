//! The commands that a routine's header says it needs, and whether they are installed.

use super::discovery::{Routine, Routines};
use crate::process::find_program;

/// A command that a routine needs.
#[derive(Clone, Copy, Debug)]
pub struct Need<'r> {
    /// Whether it is `commands.ai`, which the header calls `ai`.
    pub is_ai: bool,
    /// The program; empty if it is `commands.ai` and that is not set.
    pub command: &'r str,
}

impl Need<'_> {
    pub fn is_met(&self) -> bool {
        !self.command.is_empty() && find_program(self.command).is_some()
    }
}

impl Routine {
    /// What its header says it needs; `ai` is the config's `commands.ai`.
    pub fn needs_here<'r>(&'r self, ai: &'r str) -> impl Iterator<Item = Need<'r>> {
        self.needs.iter().map(move |need| match need.as_str() {
            "ai" => Need { is_ai: true, command: ai.split_whitespace().next().unwrap_or("") },
            command => Need { is_ai: false, command },
        })
    }

    /// What is missing here, in a sentence: `routine 'develop' needs 'claude', which is not on the PATH`.
    pub fn missing_need(&self, ai: &str) -> Option<String> {
        self.needs_here(ai).find(|need| !need.is_met()).map(|need| self.describe_missing(&need))
    }

    /// That a need of this routine is not met, in a sentence.
    pub fn describe_missing(&self, need: &Need<'_>) -> String {
        let (name, command) = (&self.name, need.command);
        if command.is_empty() {
            return format!("routine '{name}' needs an AI command, and commands.ai is empty");
        }
        format!("routine '{name}' needs '{command}', which is not on the PATH")
    }
}

impl Routines {
    /// Those whose needs are met here: the only ones that a router may choose.
    pub fn runnable(&self, ai: &str) -> Routines {
        let mut runnable = self.clone();
        runnable.retain(|routine| routine.missing_need(ai).is_none());
        runnable
    }
}
