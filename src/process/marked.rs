//! Finds and ends the processes of a run whose decree and supervisor were both killed.
//!
//! Such processes have been reparented to init or another reaper. They carry their run's [`ProcessMark`] in their environment,
//! which `/proc` shows as it was when they were started.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid};

use super::exec::GracePeriods;
use super::table::{self, Process, ProcessIdentity};
use crate::fs::random_hex;

/// The environment variable that carries a [`ProcessMark`].
pub const MARK_VARIABLE: &str = "DECREE_RUN_MARK";

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = GracePeriods::DEFAULT.interrupt;
/// How long to keep killing processes that do not die.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// The same for a decree that is about to exit.
const LAST_KILL_LIMIT: Duration = Duration::from_secs(2);
/// Far larger than any usual environment; bounds the memory for reading one.
const ENVIRONMENT_LIMIT: u64 = 16 << 20;

/// A random name that every process of a run has in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMark(String);

impl ProcessMark {
    /// A mark that no other run has.
    pub fn random() -> ProcessMark {
        ProcessMark(random_hex() + &random_hex())
    }

    /// Reads a mark from a file, strictly: an empty one would match processes that are not ours.
    pub fn parse(text: &str) -> Option<ProcessMark> {
        let valid = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| ProcessMark(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Ends every process that carries this mark and all their descendants: SIGTERM, two seconds, SIGKILL. Returns how many
/// there were.
///
/// Spares this process and its ancestors, even if they carry the mark: a routine may have started this decree.
pub fn end(mark: &ProcessMark) -> usize {
    end_within(mark, GRACE, KILL_LIMIT).0
}

/// The same at once, for a decree that is about to exit. Returns whether none is left.
pub fn kill(mark: &ProcessMark) -> bool {
    end_within(mark, Duration::ZERO, LAST_KILL_LIMIT).1
}

/// Returns how many there were, and whether none is left.
fn end_within(mark: &ProcessMark, grace: Duration, limit: Duration) -> (usize, bool) {
    let needle = format!("{MARK_VARIABLE}={}", mark.0);
    let start = Instant::now();
    let mut seen: HashSet<ProcessIdentity> = HashSet::new();
    let mut empty_scans = 0;
    loop {
        let found = find(&needle, &seen);
        let new: Vec<Process> =
            found.iter().filter(|found| !seen.contains(&found.identity())).copied().collect();
        seen.extend(found.iter().map(Process::identity));
        if start.elapsed() < grace {
            table::signal(&new, Signal::TERM);
        } else {
            table::signal(&found, Signal::KILL);
        }
        empty_scans = if found.is_empty() { empty_scans + 1 } else { 0 };
        if empty_scans == 2 || start.elapsed() > grace + limit {
            return (seen.len(), found.is_empty());
        }
        std::thread::sleep(Duration::from_millis(if found.is_empty() { 1 } else { 20 }));
    }
}

/// The processes that carry the mark or were seen before, and their descendants, except for this process and its ancestors.
/// A process that has cleared its environment is found as a descendant, but only while its parent is alive.
fn find(needle: &str, seen: &HashSet<ProcessIdentity>) -> Vec<Process> {
    let table = table::all();
    let own = self_and_ancestors(&table);
    let is_own = |process: &Process| own.contains(&process.identity());
    let is_known =
        |process: &Process| seen.contains(&process.identity()) || carries(process, needle.as_bytes());
    let mut found: Vec<Process> = table
        .iter()
        .filter(|process| process.state != b'Z' && !is_own(process) && is_known(process))
        .copied()
        .collect();
    let roots: Vec<_> = found.iter().map(|process| process.pid).collect();
    let below = table::descendants(&table, &roots, |process| process.state == b'Z' || is_own(process));
    let known: HashSet<_> = found.iter().map(Process::identity).collect();
    found.extend(below.into_iter().filter(|process| !known.contains(&process.identity())));
    found
}

fn self_and_ancestors(table: &[Process]) -> HashSet<ProcessIdentity> {
    let mut found = HashSet::new();
    let mut next = Some(getpid());
    while let Some(process) = next.and_then(|pid| table.iter().find(|process| process.pid == pid)) {
        if !found.insert(process.identity()) {
            break;
        }
        next = process.parent;
    }
    found
}

/// Whether a process was started with this variable. Processes of other users cannot be read, and are not ours.
fn carries(process: &Process, needle: &[u8]) -> bool {
    let mut environment = Vec::new();
    let path = format!("/proc/{}/environ", process.pid.as_raw_nonzero());
    let read = File::open(path).and_then(|file| file.take(ENVIRONMENT_LIMIT).read_to_end(&mut environment));
    read.is_ok() && environment.split(|byte| *byte == 0).any(|variable| variable == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_mark_is_read() {
        let mark = ProcessMark::random();
        assert_eq!(ProcessMark::parse(mark.as_str()), Some(mark.clone()));
        assert_ne!(mark, ProcessMark::random());
        for wrong in ["", "x", "0123456789ABCDEF0123456789ABCDEF", &format!("{}0", mark.0)] {
            assert_eq!(ProcessMark::parse(wrong), None);
        }
    }
}
