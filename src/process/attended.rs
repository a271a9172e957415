//! A program that has decree's own terminal, input and output: one that a person or a script runs through decree, and not
//! unattended.
//!
//! There is no supervisor between them, so that job control, passwords and pipes work as without decree. When it has ended,
//! what it left running is ended, too.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::orphans::{OrphanWatch, become_subreaper};
use crate::interrupt;

/// How often it is looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long it has to end when decree is asked to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Runs it to its end. Returns its exit code as a shell has it: 128 and the signal, if one ended it.
pub fn attend(command: &mut Command) -> io::Result<u8> {
    become_subreaper()?;
    let (mut child, watch) = OrphanWatch::start(|| command.spawn())?;
    let status = wait(&mut child);
    watch.end_strays();
    status.map(code)
}

/// Ends it when decree is asked to stop. On a terminal it was asked as well, and may be ending already.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if interrupt::asked().is_some() => {
                asked = Some(Instant::now());
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
            Some(since) if since.elapsed() > GRACE => {
                let _ = kill_process(Pid::from_child(child), Signal::KILL);
            }
            _ => {}
        }
        std::thread::sleep(TICK);
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    signal.or_else(|| status.code().and_then(|code| u8::try_from(code).ok())).unwrap_or(1)
}
