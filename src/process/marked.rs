//! What is left of a run whose decree was killed, and its supervisor with it.
//!
//! Such processes belong to nobody: they are init's, or some other reaper's. But they carry their run's [`ProcessMark`]
//! in their environment, which the kernel shows as it was when they were started.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid};

use super::table::{self, Identity, Process};

/// The environment variable that carries a [`ProcessMark`].
pub const MARK_VARIABLE: &str = "DECREE_RUN_MARK";

/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long to kill what does not die.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than an environment usually is.
const MOST_OF_AN_ENVIRONMENT: u64 = 16 << 20;

/// A random name that every process of a run has in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMark(String);

impl ProcessMark {
    /// One that nobody has yet.
    pub fn random() -> ProcessMark {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the kernel has random bytes");
        ProcessMark(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// One that was written down. Nothing else is a mark: an empty one would be found in processes that are none
    /// of ours.
    pub fn parse(text: &str) -> Option<ProcessMark> {
        let valid = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| ProcessMark(text.to_owned()))
    }

    /// As it is written down.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProcessMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ends every process that carries this mark, and all below them: SIGTERM, two seconds, SIGKILL. Returns how many
/// there were.
///
/// Not this process, nor those above it, even if they carry the mark: a routine may have started this decree.
pub fn end(mark: &ProcessMark) -> usize {
    end_within(mark, GRACE)
}

/// [`end`], with another time between SIGTERM and SIGKILL.
pub fn end_within(mark: &ProcessMark, grace: Duration) -> usize {
    let needle = format!("{MARK_VARIABLE}={mark}");
    let start = Instant::now();
    let mut seen: HashSet<Identity> = HashSet::new();
    let mut nobody = 0;
    loop {
        let found = marked(&needle, &seen);
        let new: Vec<Process> =
            found.iter().filter(|found| !seen.contains(&found.identity())).copied().collect();
        seen.extend(found.iter().map(Process::identity));
        match start.elapsed() < grace {
            true => table::signal(&new, Signal::TERM),
            false => table::signal(&found, Signal::KILL),
        }
        nobody = if found.is_empty() { nobody + 1 } else { 0 };
        if nobody == 2 || start.elapsed() > grace + PATIENCE {
            return seen.len();
        }
        std::thread::sleep(Duration::from_millis(if found.is_empty() { 1 } else { 20 }));
    }
}

/// Those that carry the mark or were seen before, and all below them, but not ourselves and those above us.
/// One that has cleared its environment is known by its parent, but only until that is gone.
fn marked(needle: &str, seen: &HashSet<Identity>) -> Vec<Process> {
    let table = table::all();
    let above = above_us(&table);
    let is_ours = |process: &Process| above.contains(&process.identity());
    let is_known =
        |process: &Process| seen.contains(&process.identity()) || carries(process, needle.as_bytes());
    let mut found: Vec<Process> = table
        .iter()
        .filter(|process| process.state != b'Z' && !is_ours(process) && is_known(process))
        .copied()
        .collect();
    let roots: Vec<_> = found.iter().map(|process| process.pid).collect();
    let below = table::below(&table, &roots, |process| process.state == b'Z' || is_ours(process));
    let known: HashSet<_> = found.iter().map(Process::identity).collect();
    found.extend(below.into_iter().filter(|process| !known.contains(&process.identity())));
    found
}

/// This process, and those above it.
fn above_us(table: &[Process]) -> HashSet<Identity> {
    let mut above = HashSet::new();
    let mut next = Some(getpid());
    while let Some(process) = next.and_then(|pid| table.iter().find(|process| process.pid == pid)) {
        if !above.insert(process.identity()) {
            break;
        }
        next = process.parent;
    }
    above
}

/// Whether a process was started with this variable. We may not look into those of other users; they are not ours.
fn carries(process: &Process, needle: &[u8]) -> bool {
    let mut environment = Vec::new();
    let path = format!("/proc/{}/environ", process.pid.as_raw_nonzero());
    let read =
        File::open(path).and_then(|file| file.take(MOST_OF_AN_ENVIRONMENT).read_to_end(&mut environment));
    read.is_ok() && environment.split(|byte| *byte == 0).any(|variable| variable == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_nothing_else_is() {
        let mark = ProcessMark::random();
        assert_eq!(ProcessMark::parse(mark.as_str()), Some(mark.clone()));
        assert_ne!(mark, ProcessMark::random());
        for wrong in ["", "x", "0123456789ABCDEF0123456789ABCDEF", &format!("{mark}0")] {
            assert_eq!(ProcessMark::parse(wrong), None);
        }
    }

    #[test]
    fn only_those_that_carry_the_very_mark_are_ended() {
        let (mark, other) = (ProcessMark::random(), ProcessMark::random());
        let start = |mark: &ProcessMark| {
            std::process::Command::new("sleep").arg("60").env(MARK_VARIABLE, mark.as_str()).spawn().unwrap()
        };
        let (mut mine, mut theirs) = (start(&mark), start(&other));
        assert_eq!(end(&mark), 1);
        assert!(theirs.try_wait().unwrap().is_none());
        mine.wait().unwrap();
        assert_eq!(end(&mark), 0);
        theirs.kill().unwrap();
        theirs.wait().unwrap();
    }
}
