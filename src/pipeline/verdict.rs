//! How attempts and runs end, in words that are the same everywhere.

use serde::{Deserialize, Serialize};

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The work was done and kept.
    Success,
    /// The routine was content and changed nothing.
    NoChange,
    /// Every attempt failed; the tree was put back.
    FailedReverted,
    /// The last attempt took too long; the tree was put back.
    TimedOut,
    /// The last attempt changed what it must not; the tree was put back.
    Policy,
    /// What may be spent was used up.
    Budget,
    /// A signal or a crash ended it.
    Interrupted,
    /// It was not tried.
    Skipped,
}

impl Verdict {
    /// The word in files and outputs.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Success => "success",
            Verdict::NoChange => "no-change",
            Verdict::FailedReverted => "failed-reverted",
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
    /// The routine, the verification, the policy: everything agreed.
    Succeeded,
    /// The routine said no.
    Exit {
        /// Its exit code.
        code: i32,
    },
    /// A signal ended the routine.
    Signal {
        /// Which one.
        signal: i32,
    },
    /// It took longer than it may.
    TimedOut {
        /// In milliseconds.
        after_ms: u64,
    },
    /// The routine was content, the verification was not.
    Verify {
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        /// What was run.
        command: String,
    },
    /// The change is outside the policy.
    Policy {
        /// In what ways.
        violations: Vec<String>,
    },
    /// Nothing changed, and `on_no_change` says that this is not enough.
    NothingChanged,
    /// It could not even be started.
    NotStarted {
        /// What the system said.
        why: String,
    },
    /// Something killed the process that watches over the routine.
    Lost,
    /// Somebody asked decree to stop, or decree itself was killed.
    Interrupted,
}

impl Ending {
    /// A few words: `exit 1`.
    pub fn describe(&self) -> String {
        match self {
            Ending::Succeeded => "succeeded".to_owned(),
            Ending::Exit { code } => format!("exit {code}"),
            Ending::Signal { signal } => format!("signal {signal}"),
            Ending::TimedOut { after_ms } => {
                format!(
                    "timed out after {}",
                    crate::humanize::duration(std::time::Duration::from_millis(*after_ms))
                )
            }
            Ending::Verify { code: Some(code), command } => format!("verify: `{command}` exited {code}"),
            Ending::Verify { code: None, command } => format!("verify: `{command}` was killed"),
            Ending::Policy { violations } => format!("policy: {}", violations.join("; ")),
            Ending::NothingChanged => "nothing changed".to_owned(),
            Ending::NotStarted { why } => format!("could not be started: {why}"),
            Ending::Lost => "the routine killed the process that watches over it".to_owned(),
            Ending::Interrupted => "interrupted".to_owned(),
        }
    }

    /// The same, with everything in it that is not decree's own words replaced.
    pub fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Ending::Verify { code, command } => Ending::Verify { code, command: change(&command) },
            Ending::Policy { violations } => {
                Ending::Policy { violations: violations.iter().map(|text| change(text)).collect() }
            }
            Ending::NotStarted { why } => Ending::NotStarted { why: change(&why) },
            other => other,
        }
    }

    /// The exit code, where there is one.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Ending::Succeeded => Some(0),
            Ending::Exit { code } => Some(*code),
            Ending::Verify { code, .. } => *code,
            _ => None,
        }
    }

    /// What a run comes to whose last attempt failed like this.
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
        for verdict in [
            Verdict::Success,
            Verdict::NoChange,
            Verdict::FailedReverted,
            Verdict::TimedOut,
            Verdict::Policy,
            Verdict::Budget,
            Verdict::Interrupted,
            Verdict::Skipped,
        ] {
            let json = serde_json::to_string(&verdict).unwrap();
            assert_eq!(json, format!("\"{}\"", verdict.word()));
        }
    }
}
