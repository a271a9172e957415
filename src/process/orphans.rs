//! What falls to decree when a supervisor was killed.
//!
//! A routine may kill its supervisor. decree is a child subreaper too, so that what the supervisor watched hangs
//! below decree from then on, and is found: it is what is below decree, was not before, and is not below another
//! supervisor. That holds because decree starts nothing but supervisors.

use std::collections::HashSet;
use std::io;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::table::{self, Identity, Pid, Process};

/// The supervisors that are alive. Held while one is started, so that nobody takes it for a stray.
static SUPERVISORS: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// How long to kill what keeps forking, or does not die.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes this process inherit what its descendants leave behind. [`super::Exec::run`] does so too.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid())).map_err(Into::into)
}

/// A supervisor that was started, and who was there before it.
pub(super) struct OrphanWatch {
    supervisor: Option<Identity>,
    before: HashSet<Identity>,
}

impl OrphanWatch {
    /// Starts a supervisor.
    pub fn start(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<(Child, OrphanWatch)> {
        let mut supervisors = supervisors();
        let before = table::below(&table::all(), &[getpid()], |_| false);
        let child = spawn()?;
        // Not reaped yet, so it is there even if it has ended.
        let supervisor = Process::find(Pid::from_child(&child)).map(|process| process.identity());
        supervisors.extend(supervisor);
        let before = before.iter().map(Process::identity).collect();
        Ok((child, OrphanWatch { supervisor, before }))
    }

    /// Kills what the supervisor, which is gone and reaped, should have ended. Returns how many could not be.
    pub fn end_strays(&self) -> usize {
        let start = Instant::now();
        let mut nobody = 0;
        loop {
            let found = {
                let supervisors = supervisors();
                table::below(&table::all(), &[getpid()], |process| {
                    self.before.contains(&process.identity()) || supervisors.contains(&process.identity())
                })
            };
            table::signal(&found, Signal::KILL);
            let mut reaped = false;
            for process in found.iter().filter(|found| found.parent == Some(getpid())) {
                reaped |= matches!(waitpid(Some(process.pid), WaitOptions::NOHANG), Ok(Some(_)));
            }
            // One look may have missed somebody who was being handed on to us.
            nobody = if found.is_empty() { nobody + 1 } else { 0 };
            if nobody == 3 || start.elapsed() > PATIENCE {
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
        if let Some(gone) = self.supervisor {
            supervisors().retain(|supervisor| *supervisor != gone);
        }
    }
}

fn supervisors() -> MutexGuard<'static, Vec<Identity>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}
