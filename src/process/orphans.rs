//! Processes that decree inherits when a supervisor was killed.
//!
//! A routine may kill its supervisor. decree is a child subreaper too, so the supervisor's descendants become descendants of
//! decree. They are those that are below decree, were not there before, and are not below another supervisor. That holds
//! because decree starts only supervisors.

use std::collections::HashSet;
use std::io;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::table::{self, Pid, Process, ProcessIdentity};

/// The supervisors that are alive. Locked while one is started, so that no other thread takes it for an orphan.
static SUPERVISORS: Mutex<Vec<ProcessIdentity>> = Mutex::new(Vec::new());

/// How long to keep killing processes that keep forking or do not die.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Makes this process the parent of its descendants' orphans. [`super::Exec::run`] does so too.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid())).map_err(Into::into)
}

/// A supervisor, and the processes that were there before it was started.
pub(super) struct OrphanWatch {
    supervisor: Option<ProcessIdentity>,
    before: HashSet<ProcessIdentity>,
}

impl OrphanWatch {
    pub fn start(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<(Child, OrphanWatch)> {
        let mut supervisors = supervisors();
        let before = if table::may_have_children() {
            table::descendants(&table::all(), &[getpid()], |_| false)
        } else {
            Vec::new()
        };
        let child = spawn()?;
        // The child is not reaped yet, so it is in the table even if it has ended.
        let supervisor = Process::find(Pid::from_child(&child)).map(|process| process.identity());
        supervisors.extend(supervisor);
        let before = before.iter().map(Process::identity).collect();
        Ok((child, OrphanWatch { supervisor, before }))
    }

    /// Kills the descendants of a supervisor that was killed and reaped. Returns how many could not be killed.
    pub fn end_orphans(&self) -> usize {
        let start = Instant::now();
        let mut empty_scans = 0;
        loop {
            let found = {
                let supervisors = supervisors();
                table::descendants(&table::all(), &[getpid()], |process| {
                    self.before.contains(&process.identity()) || supervisors.contains(&process.identity())
                })
            };
            table::signal(&found, Signal::KILL);
            let mut reaped = false;
            for process in found.iter().filter(|found| found.parent == Some(getpid())) {
                reaped |= matches!(waitpid(Some(process.pid), WaitOptions::NOHANG), Ok(Some(_)));
            }
            // A single scan may miss a process that is just being reparented to us.
            empty_scans = if found.is_empty() { empty_scans + 1 } else { 0 };
            if empty_scans == 3 || start.elapsed() > KILL_LIMIT {
                return found.len();
            }
            if !reaped {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for OrphanWatch {
    fn drop(&mut self) {
        if let Some(ended) = self.supervisor {
            supervisors().retain(|supervisor| *supervisor != ended);
        }
    }
}

fn supervisors() -> MutexGuard<'static, Vec<ProcessIdentity>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}
