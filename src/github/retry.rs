//! How long to wait before the next attempt, and when to give up.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::interrupt;

/// The number of attempts, including the first.
const ATTEMPTS: u32 = 5;
/// The limit of all waits of one request together.
const TOTAL_WAIT: Duration = Duration::from_secs(120);
/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// How often a wait checks for an interrupt.
const TICK: Duration = Duration::from_millis(50);

/// Counts the attempts of one request.
pub struct RetrySchedule {
    first: Duration,
    until: Instant,
    attempts: u32,
}

impl RetrySchedule {
    pub fn new(first: Option<Duration>) -> Self {
        RetrySchedule { first: first.unwrap_or(FIRST), until: Instant::now() + TOTAL_WAIT, attempts: 0 }
    }

    /// Waits until the next attempt, for `asked` if the server named a time. False if no attempt is left.
    pub fn wait(&mut self, asked: Option<Duration>) -> Result<bool> {
        self.attempts += 1;
        let delay = asked.unwrap_or_else(|| self.first * 2u32.saturating_pow(self.attempts - 1));
        let now = Instant::now();
        if self.attempts >= ATTEMPTS || now + delay > self.until {
            return Ok(false);
        }
        let end = now + delay;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            interrupt::check()?;
            thread::sleep(left.min(TICK));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_up_after_five_attempts_or_two_minutes() {
        let mut retry = RetrySchedule::new(Some(Duration::ZERO));
        let waits = (0..9).filter(|_| retry.wait(None).unwrap()).count();
        assert_eq!(waits, 4);
        let mut retry = RetrySchedule::new(None);
        assert!(!retry.wait(Some(Duration::from_secs(3600))).unwrap(), "that would be too long");
    }
}
