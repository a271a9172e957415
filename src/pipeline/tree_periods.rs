//! When the change of a run was in the tree. By that a rollback knows which runs are part of the state that it goes to, and a
//! revert which of two runs is on top.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A time in which the change of a run was in the tree, in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreePeriod {
    from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl TreePeriod {
    pub fn begin() -> TreePeriod {
        TreePeriod { from: exact_now(), until: None }
    }

    /// For a record of an earlier version, which has only the time of the run.
    pub fn since(time: &str) -> TreePeriod {
        TreePeriod { from: time.to_owned(), until: None }
    }

    /// When it began.
    pub fn start(&self) -> Option<Timestamp> {
        self.from.parse().ok()
    }

    pub fn is_open(&self) -> bool {
        self.until.is_none()
    }

    pub fn end(&mut self) {
        self.until.get_or_insert_with(exact_now);
    }

    pub fn contains(&self, time: Timestamp) -> bool {
        let is_after = self.start().is_some_and(|start| start < time);
        let is_before = |until: &String| until.parse::<Timestamp>().is_ok_and(|until| time < until);
        is_after && self.until.as_ref().is_none_or(is_before)
    }
}

/// The time with nanoseconds, as text.
pub fn exact_now() -> String {
    format!("{:.9}", Timestamp::now())
}
