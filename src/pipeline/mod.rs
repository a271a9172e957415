//! Unattended work: messages are taken one by one, each on top of a checkpoint, tried, tried again with what was learned,
//! and in the end kept or put back.
//!
//! ```text
//! work       which message next            take        from a file in the inbox to a job, or a dead letter
//! run        checkpoint, attempts, verdict attempt     one execution: routine, verification, diff, policy
//! settle     done/, dead/, tracker         recovery    the same for a run that was cut off
//! ```
//!
//! [`retry`], [`policy`], [`budget`] and [`verdict`] decide and do nothing else. Everything that happens is told as an
//! [`events::Event`]; nothing here writes to a terminal. The order of writes, from which recovery follows, is in
//! `docs/format.md`.

mod attempt;
mod budget;
pub mod events;
mod failure_context;
mod hooks;
mod own_files;
mod policy;
mod recovery;
mod result;
mod retry;
mod route;
mod run;
mod run_dir;
mod running;
mod secrets;
mod settle;
mod take;
mod verdict;
mod work;

pub use budget::Usage;
pub use recovery::Unfinished;
pub use result::{AttemptRecord, PutBack, RunResult, Story};
pub use run_dir::RunDir;
pub use running::Running;
pub use verdict::{Ending, Verdict};
pub use work::{Pipeline, Selection, Settings, planned};

use std::time::Duration;

/// Now, as every file has it.
pub fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A duration as people say it: `2m 14s`.
pub fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (millis, text) in
            [(40, "0.0s"), (2_340, "2.3s"), (31_000, "31s"), (134_000, "2m 14s"), (3_723_000, "1h 02m")]
        {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }
}
