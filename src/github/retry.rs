//! How long to wait before trying again, and when to give up.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::interrupt;

/// How often something is tried.
const TRIES: u32 = 5;
/// How long all waiting may take together.
const PATIENCE: Duration = Duration::from_secs(120);
/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// How often to look whether somebody asks us to stop.
const TICK: Duration = Duration::from_millis(50);

/// Counts the tries of one request.
pub struct RetrySchedule {
    first: Duration,
    until: Instant,
    tried: u32,
}

impl RetrySchedule {
    /// Nothing was tried yet.
    pub fn new(first: Option<Duration>) -> Self {
        RetrySchedule { first: first.unwrap_or(FIRST), until: Instant::now() + PATIENCE, tried: 0 }
    }

    /// Waits for the next try, as long as the server asked for if it did. False if there is none any more.
    pub fn wait(&mut self, asked: Option<Duration>) -> Result<bool> {
        self.tried += 1;
        let delay = asked.unwrap_or_else(|| self.first * 2u32.saturating_pow(self.tried - 1));
        let now = Instant::now();
        if self.tried >= TRIES || now + delay > self.until {
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
    fn it_gives_up_after_a_while() {
        let mut retry = RetrySchedule::new(Some(Duration::ZERO));
        let waits = (0..9).filter(|_| retry.wait(None).unwrap()).count();
        assert_eq!(waits, 4);
        let mut retry = RetrySchedule::new(None);
        assert!(!retry.wait(Some(Duration::from_secs(3600))).unwrap(), "that would be too long");
    }
}
