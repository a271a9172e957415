//! The small process between decree and a program: `decree supervise -- PROGRAM ARGS…`.
//!
//! It is a child subreaper: whatever the program starts, however far it forks away, ends up below it. So "nothing
//! is left" is a question the kernel answers at once (`wait` says that there are no children), not one for a scan.
//! When the program ends, or when it is asked to stop, the rest gets SIGTERM, some time, and SIGKILL.
//!
//! It stops when it gets SIGTERM, SIGINT or SIGHUP, when its parent dies (a signal, and the end of its control
//! socket), and it stops waiting when asked twice. It is a session of its own, away from the terminal: Ctrl-C
//! reaches decree alone, and a program that asks `/dev/tty` for a password fails instead of waiting for ever.
//!
//! With [`SupervisedCommand::control`], its standard input is a socket: decree sends the program's input, it answers with one
//! [`SupervisorReport`]. A routine cannot open that socket through `/proc`, and so not write a report of its own. Without,
//! the program inherits the input, and the report is the exit code.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
    setsid, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

pub use super::report::SupervisorReport;
use super::table::{self, Pid};

/// How long nothing may happen after SIGKILL before what is left is given up: it belongs to somebody else, or
/// hangs in the kernel.
const STUCK: Duration = Duration::from_secs(3);
/// How long to kill what keeps forking.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to supervise.
#[derive(Debug)]
pub struct SupervisedCommand {
    /// The program; found on `PATH` if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Whether standard input is decree's control socket.
    pub control: bool,
    /// How many bytes of input come over the socket first.
    pub input: u64,
}

/// Whether a program is where it is looked for, executable or not.
fn is_on_path(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).symlink_metadata().is_ok())
}

/// Runs the program, ends all that it leaves, and tells how it went. With a control socket, tells it there too.
pub fn supervise(job: &SupervisedCommand) -> SupervisorReport {
    let control = job.control.then(io::stdin);
    let report = begin(job).and_then(|mut supervisor| supervisor.run(job)).unwrap_or_else(|error| {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        // The system says "denied" if it may not look into one directory of the PATH, although the program is in none.
        let nowhere = errno == Errno::ACCESS.raw_os_error() && !is_on_path(&job.program);
        SupervisorReport::Unstartable { errno: if nowhere { Errno::NOENT.raw_os_error() } else { errno } }
    });
    if let Some(control) = control
        && let Ok(socket) = control.as_fd().try_clone_to_owned()
    {
        // If this fails, there is nobody left to tell.
        let _ = UnixStream::from(socket).write_all(format!("{report}\n").as_bytes());
    }
    report
}

struct Supervisor {
    me: Pid,
    /// A byte for each signal that asks to stop.
    stop: UnixStream,
    /// A byte when a child ended.
    child: UnixStream,
    control: Option<UnixStream>,
    stops: usize,
    orphaned: bool,
    program: Option<Pid>,
    status: Option<WaitStatus>,
}

#[derive(Clone, Copy)]
enum Phase {
    Running,
    Ending { until: Instant },
    Killing { since: Instant, progress: Instant },
}

fn begin(job: &SupervisedCommand) -> io::Result<Supervisor> {
    let parent = getppid();
    set_child_subreaper(Some(getpid()))?;
    let (stop, stopper) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, stopper.try_clone()?)?;
    }
    let (child, chld) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGCHLD, chld)?;
    stop.set_nonblocking(true)?;
    child.set_nonblocking(true)?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The leader of a group, as a shell starts it, cannot: then it stays where it is.
    let _ = setsid();
    let control = match job.control {
        true => Some(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?)),
        false => None,
    };
    // A parent that died before the signal was asked for sends none.
    let orphaned = getppid() != parent;
    Ok(Supervisor { me: getpid(), stop, child, control, stops: 0, orphaned, program: None, status: None })
}

impl Supervisor {
    fn run(&mut self, job: &SupervisedCommand) -> io::Result<SupervisorReport> {
        let input = match &mut self.control {
            Some(socket) if job.input > 0 => Stdio::from(receive(socket, job.input)?),
            Some(_) => Stdio::null(),
            None => Stdio::inherit(),
        };
        self.listen(Some(Duration::ZERO))?;
        if self.is_asked() {
            return Ok(SupervisorReport::Unstarted);
        }
        let program = Command::new(&job.program).args(&job.args).stdin(input).process_group(0).spawn()?;
        self.program = Some(Pid::from_child(&program));
        let survivors = self.attend(job.grace)?;
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

    /// Waits for the program, then ends the rest. Returns how many could not be ended.
    fn attend(&mut self, grace: Duration) -> io::Result<usize> {
        let mut phase = Phase::Running;
        loop {
            let before = Instant::now();
            let Some(reaped) = self.reap()? else { return Ok(0) };
            let wait = match phase {
                Phase::Running if self.status.is_some() || self.is_asked() => {
                    self.signal_all(Signal::TERM);
                    phase = Phase::Ending { until: before + grace };
                    Some(Duration::ZERO)
                }
                Phase::Running => None,
                Phase::Ending { until } if before >= until || self.stops > 1 => {
                    phase = Phase::Killing { since: before, progress: before };
                    Some(Duration::ZERO)
                }
                Phase::Ending { until } => Some(until - before),
                Phase::Killing { since, progress } => {
                    let progress = if reaped { before } else { progress };
                    let left = self.signal_all(Signal::KILL);
                    if before - since > PATIENCE || before - progress > STUCK {
                        return Ok(left.max(1));
                    }
                    phase = Phase::Killing { since, progress };
                    Some(if reaped { Duration::ZERO } else { Duration::from_millis(10) })
                }
            };
            self.listen(wait)?;
        }
    }

    /// Takes note of children that ended: whether there were any, or `None` if there is nobody left.
    fn reap(&mut self) -> io::Result<Option<bool>> {
        let mut any = false;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    any = true;
                    if self.program == Some(pid) {
                        self.status = Some(status);
                        // The number may be given to another process now.
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

    fn is_asked(&self) -> bool {
        self.stops > 0 || self.orphaned
    }

    /// Sleeps until something happens.
    fn listen(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.child, PollFlags::IN)];
        if let Some(control) = &self.control
            && !self.orphaned
        {
            fds.push(PollFd::new(control, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // decree sends nothing after the input: whatever there is to read is the end.
        self.orphaned |= fds.get(2).is_some_and(|fd| !fd.revents().is_empty());
        self.stops += drain(&mut self.stop);
        drain(&mut self.child);
        Ok(())
    }

    /// Sends a signal to all that are below this process. Returns how many there are.
    fn signal_all(&self, signal: Signal) -> usize {
        let found = table::below(&table::all(), &[self.me], |_| false);
        table::signal(&found, signal);
        found.len()
    }
}

/// The program's input, as a file that only exists in memory: there is nothing to feed, and nobody to wait for.
fn receive(socket: &mut UnixStream, length: u64) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    io::copy(&mut socket.take(length), &mut file)?;
    file.rewind()?;
    Ok(file.into())
}

/// Empties a pipe of signals; returns how many there were.
fn drain(pipe: &mut UnixStream) -> usize {
    let mut buffer = [0; 64];
    let mut count = 0;
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        count += n;
    }
    count
}
