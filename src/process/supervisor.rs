//! The small process between decree and a program: `decree supervise -- PROGRAM ARGS…`.
//!
//! It is a child subreaper: every descendant of the program stays below it, however it forks. So the kernel answers at once
//! whether any process is left (`wait` reports that there are no children), without a scan. When the program ends, or when
//! the supervisor is asked to stop, the rest gets SIGTERM, a grace period, and SIGKILL. A program may have time to finish
//! before that ([`SupervisedCommand::finish`]).
//!
//! It stops when it gets SIGTERM or SIGINT, or when its parent dies: SIGHUP, and end of file on its control socket, in either
//! order. A second SIGTERM or SIGINT ends both periods. It is the leader of a new session without a terminal: Ctrl-C reaches
//! decree alone, and a program that reads a password from `/dev/tty` fails instead of waiting forever.
//!
//! With [`SupervisedCommand::control`], its standard input is a socket: decree sends the program's input, the supervisor
//! replies with one [`SupervisorReport`]. A routine cannot open a socket through `/proc`, so it cannot forge a report.
//! Without it, the program inherits the input, and the report is the exit code.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
    setsid, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use serde::{Deserialize, Serialize};

use super::table::{self, Pid};
use crate::fs::{atomic, descriptors};

/// How long SIGKILL may have no effect before the remaining processes are given up: they belong to another user, or hang in
/// the kernel.
const STUCK_LIMIT: Duration = Duration::from_secs(3);
/// How long to keep killing processes that keep forking.
const KILL_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct SupervisedCommand {
    /// A path, or a name to be found on `PATH`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How long the program may go on to its own end, before SIGTERM, when the supervisor is asked to stop.
    pub finish: Duration,
    /// Whether standard input is decree's control socket.
    pub control: bool,
    /// How many bytes of the program's input come over the socket.
    pub input: u64,
    /// How many files the program may have open: the user's limit, if decree raised its own.
    pub open_files: Option<u64>,
    /// A file to write when nothing of the program is left because decree was killed.
    pub end_note: Option<PathBuf>,
}

/// How a supervised program ended: the last thing that its supervisor sends to decree.
///
/// The supervisor's own exit status cannot express this: a program may exit with 137, be killed by signal 9, or kill its
/// supervisor with signal 9. In the third case there is no report. It is written last, when no process is left, so it is
/// true even if the supervisor is killed right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupervisorReport {
    /// `survivors` counts the descendants that could not be ended.
    Exited {
        code: i32,
        survivors: usize,
    },
    /// `survivors` counts the descendants that could not be ended, and may include the program itself.
    Signalled {
        signal: i32,
        survivors: usize,
    },
    Unstartable {
        errno: i32,
    },
    /// The supervisor was asked to stop before it started the program.
    Unstarted,
}

impl SupervisorReport {
    /// The exit code a shell would report.
    pub fn exit_code(self) -> u8 {
        match self {
            SupervisorReport::Exited { code, .. } => u8::try_from(code & 0xff).unwrap_or(1),
            SupervisorReport::Signalled { signal, .. } => u8::try_from(128 + signal).unwrap_or(128),
            SupervisorReport::Unstartable { errno } if errno == Errno::NOENT.raw_os_error() => 127,
            SupervisorReport::Unstartable { .. } => 126,
            SupervisorReport::Unstarted => 143,
        }
    }
}

/// Whether any directory on `PATH` has a file of this name, executable or not.
fn is_on_path(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).symlink_metadata().is_ok())
}

/// Runs the program, ends every process that it leaves, and returns the report, after sending it on the control socket if
/// there is one.
pub fn supervise(command: &SupervisedCommand) -> SupervisorReport {
    let control = command.control.then(io::stdin);
    command.open_files.into_iter().for_each(descriptors::set_limit);
    let report = begin(command).and_then(|mut supervisor| supervisor.run(command)).unwrap_or_else(|error| {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        // The kernel returns EACCES if one directory on PATH cannot be searched, although the program is in none of them.
        let not_found = errno == Errno::ACCESS.raw_os_error() && !is_on_path(&command.program);
        SupervisorReport::Unstartable { errno: if not_found { Errno::NOENT.raw_os_error() } else { errno } }
    });
    if let Some(control) = control
        && let Ok(socket) = control.as_fd().try_clone_to_owned()
    {
        let text = serde_json::to_vec(&report).expect("a report is plain data");
        // If this fails, decree is gone and no process reads the report.
        let _ = UnixStream::from(socket).write_all(&text);
    }
    report
}

struct Supervisor {
    /// Receives a byte for each signal that asks to stop.
    stop_signals: UnixStream,
    /// Receives a byte when decree dies. That signal can be earlier than the end of file on the control socket, and the program
    /// can be gone before the latter.
    death_signals: UnixStream,
    /// Receives a byte for each SIGCHLD.
    child_signals: UnixStream,
    control: Option<UnixStream>,
    stops: usize,
    orphaned: bool,
    program: Option<Pid>,
    status: Option<WaitStatus>,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// Asked to stop; the program may end by itself.
    Finishing {
        until: Instant,
    },
    Ending {
        until: Instant,
    },
    Killing {
        since: Instant,
        progress: Instant,
    },
}

fn begin(command: &SupervisedCommand) -> io::Result<Supervisor> {
    let parent = getppid();
    set_child_subreaper(Some(getpid()))?;
    let (stop_signals, stop_sender) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, stop_sender.try_clone()?)?;
    }
    let (death_signals, death_sender) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGHUP, death_sender)?;
    let (child_signals, child_sender) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, child_sender)?;
    stop_signals.set_nonblocking(true)?;
    death_signals.set_nonblocking(true)?;
    child_signals.set_nonblocking(true)?;
    set_parent_process_death_signal(Some(Signal::HUP))?;
    // Fails for the leader of a process group, which it is when a shell starts it; then it stays in that session.
    let _ = setsid();
    let stdin = || io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let control = command.control.then(stdin).transpose()?;
    // A parent that died before the death signal was set up sends none.
    let orphaned = getppid() != parent;
    Ok(Supervisor {
        stop_signals,
        death_signals,
        child_signals,
        control,
        stops: 0,
        orphaned,
        program: None,
        status: None,
    })
}

impl Supervisor {
    fn run(&mut self, command: &SupervisedCommand) -> io::Result<SupervisorReport> {
        let input = match &mut self.control {
            Some(socket) if command.input > 0 => Stdio::from(receive(socket, command.input)?),
            Some(_) => Stdio::null(),
            None => Stdio::inherit(),
        };
        self.listen(Some(Duration::ZERO))?;
        if self.must_stop() {
            return Ok(SupervisorReport::Unstarted);
        }
        let program =
            Command::new(&command.program).args(&command.args).stdin(input).process_group(0).spawn()?;
        self.program = Some(Pid::from_child(&program));
        let survivors = self.attend(command)?;
        self.listen(Some(Duration::ZERO))?;
        if let Some(path) = command.end_note.as_ref().filter(|_| self.orphaned) {
            // Only its time counts, and without it decree assumes the worse.
            let _ = atomic::write(path, b"");
        }
        Ok(match self.status {
            Some(status) => match status.exit_status() {
                Some(code) => SupervisorReport::Exited { code, survivors },
                None => SupervisorReport::Signalled {
                    signal: status.terminating_signal().unwrap_or(0),
                    survivors,
                },
            },
            None => SupervisorReport::Signalled { signal: Signal::KILL.as_raw(), survivors },
        })
    }

    /// Waits for the program, then ends its descendants. Returns how many could not be ended.
    fn attend(&mut self, command: &SupervisedCommand) -> io::Result<usize> {
        let mut phase = Phase::Running;
        loop {
            let now = Instant::now();
            let Some(reaped) = self.reap()? else { return Ok(0) };
            let wait = match phase {
                Phase::Running if self.status.is_some() || self.must_stop() => {
                    phase = Phase::Finishing { until: now + command.finish };
                    Some(Duration::ZERO)
                }
                Phase::Running => None,
                Phase::Finishing { until } if self.status.is_none() && now < until && self.stops < 2 => {
                    Some(until - now)
                }
                Phase::Finishing { .. } => {
                    self.signal_all(Signal::TERM);
                    phase = Phase::Ending { until: now + command.grace };
                    Some(Duration::ZERO)
                }
                Phase::Ending { until } if now >= until || self.stops > 1 => {
                    phase = Phase::Killing { since: now, progress: now };
                    Some(Duration::ZERO)
                }
                Phase::Ending { until } => Some(until - now),
                Phase::Killing { since, progress } => {
                    let progress = if reaped { now } else { progress };
                    let left = self.signal_all(Signal::KILL);
                    if now - since > KILL_LIMIT || now - progress > STUCK_LIMIT {
                        return Ok(left.max(1));
                    }
                    phase = Phase::Killing { since, progress };
                    Some(if reaped { Duration::ZERO } else { Duration::from_millis(10) })
                }
            };
            self.listen(wait)?;
        }
    }

    /// Reaps children that have ended. Returns whether there were any, or `None` if there are no children left.
    fn reap(&mut self) -> io::Result<Option<bool>> {
        let mut any = false;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    any = true;
                    if self.program == Some(pid) {
                        self.status = Some(status);
                        // From here on the kernel may reuse the number.
                        self.program = None;
                    }
                }
                Ok(None) => return Ok(Some(any)),
                Err(Errno::CHILD) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn must_stop(&self) -> bool {
        self.stops > 0 || self.orphaned
    }

    /// Sleeps until a signal, the end of decree, or the timeout.
    fn listen(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut fds = vec![
            PollFd::new(&self.stop_signals, PollFlags::IN),
            PollFd::new(&self.death_signals, PollFlags::IN),
            PollFd::new(&self.child_signals, PollFlags::IN),
        ];
        if let Some(control) = &self.control
            && !self.orphaned
        {
            fds.push(PollFd::new(control, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // decree sends nothing after the input, so anything to read is end of file.
        self.orphaned |= fds.get(3).is_some_and(|fd| !fd.revents().is_empty());
        self.orphaned |= drain(&mut self.death_signals) > 0;
        self.stops += drain(&mut self.stop_signals);
        drain(&mut self.child_signals);
        Ok(())
    }

    /// Sends a signal to every descendant of this process. Returns how many there are.
    fn signal_all(&self, signal: Signal) -> usize {
        let found = table::descendants(&table::all(), &[getpid()], |_| false);
        table::signal(&found, signal);
        found.len()
    }
}

/// Receives the program's input into a file in memory, so that the supervisor need not feed it and wait.
fn receive(socket: &mut UnixStream, length: u64) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    io::copy(&mut socket.take(length), &mut file)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads all pending signal bytes; returns how many there were.
fn drain(pipe: &mut UnixStream) -> usize {
    let mut buffer = [0; 64];
    let mut count = 0;
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        count += n;
    }
    count
}
