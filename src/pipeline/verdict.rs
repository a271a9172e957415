//! How attempts and runs end. The words are part of the interface: files, outputs and reports use the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::humanize::duration;

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The change was kept.
    Success,
    /// The routine succeeded and changed nothing.
    NoChange,
    /// Every attempt failed; the tree was reverted.
    FailedReverted,
    /// The run failed, and not everything could be restored: the store had lost content.
    FailedUnrestored,
    /// The last attempt timed out; the tree was reverted.
    TimedOut,
    /// The last attempt violated the policy; the tree was reverted.
    Policy,
    /// The budget was spent.
    Budget,
    /// A signal or a crash ended the run.
    Interrupted,
    /// The message was not run.
    Skipped,
}

impl Verdict {
    /// The word in files, outputs and reports.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Success => "success",
            Verdict::NoChange => "no-change",
            Verdict::FailedReverted => "failed-reverted",
            Verdict::FailedUnrestored => "failed-unrestored",
            Verdict::TimedOut => "timed-out",
            Verdict::Policy => "policy",
            Verdict::Budget => "budget",
            Verdict::Interrupted => "interrupted",
            Verdict::Skipped => "skipped",
        }
    }
}

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Ending {
    /// Routine, verification and policy check all succeeded.
    Succeeded,
    /// The routine failed with this exit code.
    Exit {
        code: i32,
    },
    /// A signal ended the routine.
    Signal {
        signal: i32,
    },
    TimedOut {
        after_ms: u64,
    },
    /// The routine succeeded, but the verification failed, with this exit code unless a signal ended it.
    Verify {
        code: Option<i32>,
        command: String,
        /// The program of the command, if it is not installed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_installed: Option<String>,
    },
    /// The change violates the policy.
    Policy {
        violations: Vec<String>,
    },
    /// Nothing changed, and `on_no_change` demands a change.
    NothingChanged,
    /// The routine could not be started.
    NotStarted {
        why: String,
    },
    /// The process that supervises the routine was killed.
    Lost,
    /// A signal asked decree to stop, or decree itself was killed.
    Interrupted,
}

impl Ending {
    /// A short text: `exit 1`.
    pub fn describe(&self) -> String {
        match self {
            Ending::Succeeded => "succeeded".to_owned(),
            Ending::Exit { code: 126 } => "exit 126 (a command cannot be executed; not retried)".to_owned(),
            Ending::Exit { code: 127 } => "exit 127 (a command was not found; not retried)".to_owned(),
            Ending::Exit { code } => format!("exit {code}"),
            Ending::Signal { signal } => format!("signal {signal}"),
            Ending::TimedOut { after_ms } => {
                format!("timed out after {}", duration(Duration::from_millis(*after_ms)))
            }
            Ending::Verify { code: None, command, .. } => format!("verify: `{command}` was killed"),
            Ending::Verify { code: Some(code), command, not_installed: None } => {
                format!("verify: `{command}` exited {code}")
            }
            Ending::Verify { code: Some(code), command, not_installed: Some(program) } => {
                format!("verify: `{command}` exited {code} ({program} is not installed; not retried)")
            }
            Ending::Policy { violations } => format!("policy: {}", violations.join("; ")),
            Ending::NothingChanged => "nothing changed".to_owned(),
            Ending::NotStarted { why } => format!("could not be started: {why}"),
            Ending::Lost => "the routine killed its supervisor process".to_owned(),
            Ending::Interrupted => "interrupted".to_owned(),
        }
    }

    /// Whether another attempt would end the same way: a shell exits with 126 or 127 if a command cannot be executed or was not found.
    /// A verification that is a file of the project is another matter: the routine may have been asked to write it.
    pub fn is_final(&self) -> bool {
        matches!(self, Ending::Exit { code: 126 | 127 } | Ending::Verify { not_installed: Some(_), .. })
    }

    /// Applies `change` to every text in it that does not come from decree.
    pub fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Ending::Verify { code, command, not_installed } => Ending::Verify {
                code,
                command: change(&command),
                not_installed: not_installed.as_deref().map(change),
            },
            Ending::Policy { violations } => {
                Ending::Policy { violations: violations.iter().map(|text| change(text)).collect() }
            }
            Ending::NotStarted { why } => Ending::NotStarted { why: change(&why) },
            other => other,
        }
    }

    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Ending::Succeeded => Some(0),
            Ending::Exit { code } => Some(*code),
            Ending::Verify { code, .. } => *code,
            _ => None,
        }
    }

    /// The verdict of a run whose last attempt ended like this.
    pub fn verdict(&self) -> Verdict {
        match self {
            Ending::Succeeded => Verdict::Success,
            Ending::NothingChanged => Verdict::NoChange,
            Ending::TimedOut { .. } => Verdict::TimedOut,
            Ending::Policy { .. } => Verdict::Policy,
            Ending::Interrupted => Verdict::Interrupted,
            Ending::Exit { .. }
            | Ending::Signal { .. }
            | Ending::Verify { .. }
            | Ending::NotStarted { .. }
            | Ending::Lost => Verdict::FailedReverted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_same_word_in_json_and_in_speech() {
        use Verdict::*;
        for verdict in [
            Success,
            NoChange,
            FailedReverted,
            FailedUnrestored,
            TimedOut,
            Policy,
            Budget,
            Interrupted,
            Skipped,
        ] {
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{}\"", verdict.word()));
        }
    }
}
