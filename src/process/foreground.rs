//! A program that uses decree's own terminal, input and output, because the user runs it through decree (`decree guard`).
//!
//! There is no supervisor in between, so job control, password prompts and pipes work as without decree. When the program
//! has ended, the processes it left running are ended too.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::exec::GracePeriods;
use super::orphans::{OrphanWatch, become_subreaper};
use crate::fs::descriptors::spawn_with_original_limit;
use crate::interrupt;

/// How often the program's state is polled.
const TICK: Duration = Duration::from_millis(10);
/// How long the program may take to end when decree is asked to stop.
const GRACE: Duration = GracePeriods::DEFAULT.interrupt;

/// Runs the command to its end. Returns its exit code as a shell reports it: 128 plus the signal, if one ended it.
pub fn run_in_foreground(command: &mut Command) -> io::Result<u8> {
    become_subreaper()?;
    let (mut child, watch) = OrphanWatch::start(|| spawn_with_original_limit(command))?;
    let status = wait(&mut child);
    interrupt::wait_if_ending();
    watch.end_orphans();
    status.map(exit_code)
}

/// Ends the child when decree is asked to stop; at once, if it is asked again. On a terminal Ctrl-C reached the child too, and it
/// may already be ending.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut terminated: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match terminated {
            None if interrupt::requested().is_some() => {
                terminated = Some(Instant::now());
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
            Some(since) if since.elapsed() > GRACE || interrupt::is_repeated() => {
                let _ = kill_process(Pid::from_child(child), Signal::KILL);
            }
            _ => {}
        }
        std::thread::sleep(TICK);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let signal = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    signal.or_else(|| status.code().and_then(|code| u8::try_from(code).ok())).unwrap_or(1)
}
