//! What may be spent, and what was.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::project::Budget;

/// What a routine says it used: `usage.json` in its `message_dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Money.
    #[serde(default)]
    pub usd: f64,
    /// Read by the model.
    #[serde(default)]
    pub input_tokens: u64,
    /// Written by the model.
    #[serde(default)]
    pub output_tokens: u64,
}

impl Usage {
    /// Adds another's.
    pub fn add(&mut self, other: &Usage) {
        self.usd += other.usd;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }

    /// Whether nothing was used, or nobody said.
    pub fn is_nothing(&self) -> bool {
        *self == Usage::default()
    }

    /// Reads a routine's `usage.json`: `None` if there is none, the reason if it makes no sense.
    pub fn read(path: &Path) -> Option<Result<Usage, String>> {
        /// Nobody's usage takes more than this to say.
        const LONGEST: u64 = 64 * 1024;
        let metadata = path.symlink_metadata().ok()?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Some(Err("it is not a small file".to_owned()));
        }
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) => return Some(Err(error.to_string())),
        };
        let usage = match text.trim_ascii_start().first() {
            Some(b'{') => serde_json::from_slice::<Usage>(&text).map_err(|error| error.to_string()),
            _ => Err("it is not an object".to_owned()),
        };
        Some(usage.and_then(|usage| match usage.usd.is_finite() && usage.usd >= 0.0 {
            true => Ok(usage),
            false => Err("usd is not an amount".to_owned()),
        }))
    }
}

/// Counts what one command of decree spends.
#[derive(Debug)]
pub struct BudgetMeter {
    budget: Budget,
    began: Instant,
    attempts: u32,
    /// What routines said they used.
    pub used: Usage,
}

impl BudgetMeter {
    /// Begins to count.
    pub fn new(budget: Budget) -> Self {
        BudgetMeter { budget, began: Instant::now(), attempts: 0, used: Usage::default() }
    }

    /// Counts an attempt.
    pub fn count_attempt(&mut self) {
        self.attempts += 1;
    }

    /// What is used up, if anything is.
    pub fn used_up(&self) -> Option<String> {
        let Budget { usd, time, attempts } = self.budget;
        if usd > 0.0 && self.used.usd >= usd {
            return Some(format!("${:.2} of ${usd:.2} are spent", self.used.usd));
        }
        if attempts > 0 && self.attempts >= attempts {
            return Some(format!("all {attempts} attempts are used"));
        }
        if !time.is_zero() && self.began.elapsed() >= time {
            return Some(format!("the time of {} is over", crate::humanize::duration(time)));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_used_up_without_a_budget() {
        let mut meter = BudgetMeter::new(Budget::default());
        meter.count_attempt();
        meter.used.usd = 1000.0;
        assert_eq!(meter.used_up(), None);
    }

    #[test]
    fn money_and_attempts_come_to_an_end() {
        let mut meter = BudgetMeter::new(Budget { usd: 1.0, attempts: 2, ..Budget::default() });
        meter.count_attempt();
        assert_eq!(meter.used_up(), None);
        meter.used.usd = 1.0;
        assert!(meter.used_up().is_some_and(|why| why.contains("$1.00")));
        meter.used.usd = 0.0;
        meter.count_attempt();
        assert!(meter.used_up().is_some_and(|why| why.contains("attempts")));
    }

    #[test]
    fn usage_that_makes_no_sense_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usage.json");
        assert!(Usage::read(&path).is_none());
        std::fs::write(&path, r#"{"usd": 0.12, "input_tokens": 5, "model": "x"}"#).unwrap();
        assert_eq!(Usage::read(&path).unwrap().unwrap().usd, 0.12);
        for bad in ["", "[]", r#"{"usd": -1}"#, r#"{"usd": "much"}"#] {
            std::fs::write(&path, bad).unwrap();
            assert!(Usage::read(&path).unwrap().is_err(), "{bad}");
        }
    }
}
