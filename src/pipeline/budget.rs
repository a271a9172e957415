//! What a command may spend, and what it has spent.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::humanize::{count, duration};
use crate::project::Budget;

/// What a routine says it used: `usage.json` in its `message_dir`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub usd: f64,
    #[serde(default)]
    pub input_tokens: u64,
    #[serde(default)]
    pub output_tokens: u64,
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        self.usd += other.usd;
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }

    /// Whether no usage was reported.
    pub fn is_nothing(&self) -> bool {
        *self == Usage::default()
    }

    /// Reads a routine's `usage.json`: `None` if there is none, the reason if it is invalid.
    pub fn read(path: &Path) -> Result<Option<Usage>, String> {
        const MAX_BYTES: u64 = 64 * 1024;
        let Ok(metadata) = path.symlink_metadata() else { return Ok(None) };
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err("it is not a regular file of at most 64 KiB".to_owned());
        }
        let text = std::fs::read(path).map_err(|error| error.to_string())?;
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err("it is not an object".to_owned());
        }
        let usage: Usage = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let is_amount = usage.usd.is_finite() && usage.usd >= 0.0;
        is_amount.then_some(Some(usage)).ok_or("usd is not an amount".to_owned())
    }
}

/// Counts what one command spends.
#[derive(Debug)]
pub struct BudgetMeter {
    budget: Budget,
    began: Instant,
    pub attempts: u32,
    pub used: Usage,
}

impl BudgetMeter {
    pub fn new(budget: Budget) -> Self {
        BudgetMeter { budget, began: Instant::now(), attempts: 0, used: Usage::default() }
    }

    /// Which budget is spent, if one is.
    pub fn used_up(&self) -> Option<String> {
        let Budget { usd, time, attempts } = self.budget;
        if usd > 0.0 && self.used.usd >= usd {
            return Some(format!("the budget is used up: ${:.2} of ${usd:.2}", self.used.usd));
        }
        if attempts > 0 && self.attempts >= attempts {
            return Some(format!("the budget is used up: {}", count(attempts as usize, "attempt")));
        }
        if !time.is_zero() && self.began.elapsed() >= time {
            return Some(format!("the budget is used up: {}", duration(time)));
        }
        None
    }
}
