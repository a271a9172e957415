//! When to retry, and on which tree: pure decisions.

use std::time::Duration;

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Retry on top of what this attempt left, which may be almost right.
    OnTop,
    /// Retry once more on the reverted tree, with `failure-context.md`.
    CleanSlate,
    GiveUp,
}

/// The most attempts that a run can have: the first one and its retries, the last of which starts on the reverted tree.
pub fn max_attempts(max_retries: u32) -> u32 {
    max_retries.saturating_add(1)
}

/// What follows when attempt `number` (the first is 1) failed.
pub fn after_failure(number: u32, max_retries: u32) -> NextStep {
    match number.cmp(&max_retries) {
        std::cmp::Ordering::Less => NextStep::OnTop,
        std::cmp::Ordering::Equal => NextStep::CleanSlate,
        std::cmp::Ordering::Greater => NextStep::GiveUp,
    }
}

/// How long to wait before attempt `number`: doubled each time. `jitter` (0 to 1) takes up to a quarter off, so that jobs
/// that failed together do not retry together.
pub fn delay(base: Duration, number: u32, jitter: f64) -> Duration {
    if base.is_zero() || number < 2 {
        return Duration::ZERO;
    }
    let doubled = base.saturating_mul(1_u32.checked_shl(number - 2).unwrap_or(u32::MAX));
    let most = Duration::from_secs(60 * 60);
    doubled.min(most).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_retries_are_three_attempts_on_top_of_each_other_and_a_clean_one() {
        let path: Vec<NextStep> = (1..=4).map(|n| after_failure(n, 3)).collect();
        assert_eq!(path, [NextStep::OnTop, NextStep::OnTop, NextStep::CleanSlate, NextStep::GiveUp]);
        assert_eq!(max_attempts(3), 4);
    }

    #[test]
    fn one_retry_is_on_a_clean_slate_and_none_is_none() {
        assert_eq!(after_failure(1, 1), NextStep::CleanSlate);
        assert_eq!(after_failure(2, 1), NextStep::GiveUp);
        assert_eq!(after_failure(1, 0), NextStep::GiveUp);
        assert_eq!(max_attempts(0), 1);
    }

    #[test]
    fn the_wait_doubles_and_has_an_end() {
        let base = Duration::from_secs(2);
        assert_eq!(delay(base, 1, 0.0), Duration::ZERO);
        assert_eq!(delay(base, 2, 0.0), base);
        assert_eq!(delay(base, 4, 0.0), base * 4);
        assert_eq!(delay(base, 2, 1.0), Duration::from_millis(1500));
        assert_eq!(delay(base, 60, 0.0), Duration::from_secs(3600));
        assert_eq!(delay(Duration::ZERO, 9, 0.0), Duration::ZERO);
    }
}
