//! A running program: reads its output, watches its timeout, and signals its supervisor.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::exec::{Exec, ExecEnd, ExecResult, Output};
use super::orphans::{OrphanWatch, become_subreaper};
use super::supervisor::SupervisorReport;
use crate::error::{Error, IoContext, Result};
use crate::fs::descriptors;
use crate::interrupt;

/// How often timeouts and requests to stop are checked.
const TICK: Duration = Duration::from_millis(50);
/// A supervisor gives up sooner than this; one that has not ended by then is killed.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(25);
/// The usual value of `/proc/sys/fs/pipe-max-size`.
const PIPE_CAPACITY: usize = 1 << 20;

impl Exec {
    /// Runs the program to its end and streams its output, standard output and standard error in the order they were
    /// written. When this returns, even with an error, no process that it started is alive, except for
    /// [`ExecResult::survivors`].
    ///
    /// An error means that the program could not be started, or that `sink` failed. The calling thread must live until
    /// this returns: the kernel signals the supervisor when the thread that started it ends.
    pub fn run(&self, sink: &mut Output<'_>) -> Result<ExecResult> {
        RunningProcess::start(self)?.attend(sink)
    }
}

struct RunningProcess<'e> {
    exec: &'e Exec,
    started: Instant,
    child: Child,
    watch: OrphanWatch,
    control: UnixStream,
    reply: Vec<u8>,
    streamed: Option<PipeReader>,
    captured: Option<PipeReader>,
    stdout: Vec<u8>,
    stdout_truncated: bool,
    buffer: Vec<u8>,
    termination: Option<Termination>,
    failure: Option<Error>,
}

/// Why the program is being terminated, and how far that is.
struct Termination {
    /// The end to report; `None` if the program is terminated because its output could not be written.
    reason: Option<ExecEnd>,
    kill_at: Instant,
    killed: bool,
}

impl<'e> RunningProcess<'e> {
    /// Starts the supervisor, which starts the program.
    fn start(exec: &'e Exec) -> Result<Self> {
        let name = exec.program.to_string_lossy();
        if !exec.directory.is_dir() {
            let directory = exec.directory.display();
            return Err(Error::failed(format!("cannot start {name} in {directory}: no such directory")));
        }
        Self::spawn(exec).map_err(|error| {
            let too_long = error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error());
            let failure = Error::failed(format!("cannot start {name}")).caused_by(error);
            if too_long {
                failure.hint("its arguments and environment variables together exceed the limit of the OS")
            } else {
                failure
            }
        })
    }

    fn spawn(exec: &'e Exec) -> io::Result<Self> {
        become_subreaper()?;
        let (control, supervisor_end) = UnixStream::pair()?;
        let (streamed, stderr) = io::pipe()?;
        let (captured, stdout) = match exec.capture {
            Some(_) => io::pipe().map(|(reader, writer)| (Some(reader), writer))?,
            None => (None, stderr.try_clone()?),
        };
        for pipe in [Some(&streamed), captured.as_ref()].into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let mut command = Command::new(&exec.supervisor);
        command
            .arg0("decree")
            .arg("supervise")
            .arg(format!("--grace={}", exec.grace_periods.timeout.as_millis()))
            .arg(format!("--finish={}", exec.finish.as_millis()))
            .arg("--control")
            .arg(format!("--input={}", exec.input.len()))
            .args(descriptors::original_limit().map(|limit| format!("--open-files={limit}")))
            .args(exec.end_note.iter().flat_map(|path| [OsStr::new("--end-note"), path.as_os_str()]))
            .arg("--")
            .arg(&exec.program)
            .args(&exec.args)
            .current_dir(&exec.directory)
            .env_clear()
            .envs(&exec.environment)
            .stdin(OwnedFd::from(supervisor_end))
            .stdout(stdout)
            .stderr(stderr);
        let started = Instant::now();
        let (child, watch) = OrphanWatch::start(|| command.spawn())?;
        Ok(RunningProcess {
            exec,
            started,
            child,
            watch,
            control,
            reply: Vec::new(),
            streamed: Some(streamed),
            captured,
            stdout: Vec::new(),
            stdout_truncated: false,
            buffer: vec![0; 1 << 16],
            termination: None,
            failure: None,
        })
    }

    /// Streams the output until the supervisor has ended, and terminates it when it is time.
    fn attend(mut self, sink: &mut Output<'_>) -> Result<ExecResult> {
        // If the supervisor has already ended, the loop below notices at once.
        let _ = self.control.write_all(&self.exec.input);
        let mut last_check = self.started;
        loop {
            let now = Instant::now();
            self.check_termination(now);
            if now - last_check >= TICK {
                last_check = now;
                self.wake_supervisor();
            }
            if !self.read_some(sink) {
                break;
            }
        }
        interrupt::wait_if_ending();
        self.settle(sink)
    }

    /// Waits for output or the end for at most one tick. Returns whether the supervisor is alive.
    fn read_some(&mut self, sink: &mut Output<'_>) -> bool {
        let mut fds = vec![PollFd::new(&self.control, PollFlags::IN)];
        let pipes = [&self.streamed, &self.captured];
        fds.extend(pipes.iter().filter_map(|pipe| Some(PollFd::new(pipe.as_ref()?, PollFlags::IN))));
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        if poll(&mut fds, Some(&tick)).is_err() {
            return true;
        }
        let replied = !fds[0].revents().is_empty();
        self.read_output(sink);
        self.read_captured();
        !replied || self.read_reply()
    }

    /// Passes one piece of streamed output on. Returns its size.
    fn read_output(&mut self, sink: &mut Output<'_>) -> usize {
        let n = read(&mut self.streamed, &mut self.buffer);
        if n > 0
            && self.failure.is_none()
            && let Err(error) = sink(&self.buffer[..n])
        {
            self.failure = Some(error);
        }
        n
    }

    /// Keeps one piece of captured output. Returns its size.
    fn read_captured(&mut self) -> usize {
        let n = read(&mut self.captured, &mut self.buffer);
        let room = self.exec.capture.unwrap_or(0).saturating_sub(self.stdout.len());
        self.stdout.extend_from_slice(&self.buffer[..n.min(room)]);
        self.stdout_truncated |= n > room;
        n
    }

    /// Reads from the control socket. Returns whether the supervisor is alive: only it holds the other end, which closes when
    /// it ends.
    fn read_reply(&mut self) -> bool {
        let mut bytes = [0; 128];
        match self.control.read(&mut bytes) {
            Ok(0) => false,
            Ok(n) => {
                self.reply.extend_from_slice(&bytes[..n]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Starts to terminate the program if there is a reason, and escalates when the grace period is over.
    fn check_termination(&mut self, now: Instant) {
        if self.failure.is_some() && self.termination.is_none() {
            self.terminate(None, self.exec.grace_periods.interrupt);
        }
        let interrupted = self.termination.as_ref().is_some_and(|t| t.reason == Some(ExecEnd::Interrupted));
        if !interrupted && interrupt::check().is_err() {
            self.terminate(Some(ExecEnd::Interrupted), self.exec.grace_periods.interrupt);
        }
        let late = self.exec.timeout.is_some_and(|timeout| now - self.started >= timeout);
        if late && self.termination.is_none() {
            self.terminate(Some(ExecEnd::TimedOut), self.exec.grace_periods.timeout);
        }
        let Some(termination) = &mut self.termination else { return };
        if now >= termination.kill_at && !termination.killed {
            termination.killed = true;
            self.signal_supervisor(Signal::TERM);
        } else if termination.killed && now >= termination.kill_at + SUPERVISOR_LIMIT {
            self.signal_supervisor(Signal::KILL);
        }
    }

    /// Asks the supervisor to end the program. Signals only once here: to a supervisor, a second SIGTERM means kill now.
    fn terminate(&mut self, reason: Option<ExecEnd>, grace: Duration) {
        let kill_at = Instant::now() + self.exec.finish + grace;
        match &mut self.termination {
            Some(termination) => {
                termination.reason = reason.or(termination.reason);
                termination.kill_at = termination.kill_at.min(kill_at);
            }
            None => {
                self.termination = Some(Termination { reason, kill_at, killed: false });
                self.signal_supervisor(Signal::TERM);
            }
        }
    }

    /// Safe by pid: the supervisor is our child and not reaped yet, so the number cannot have been reused.
    fn signal_supervisor(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Continues a stopped supervisor. A routine may send it SIGSTOP, and a stopped one would notice neither the program's end
    /// nor decree's.
    fn wake_supervisor(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if let Ok(Some(_)) = waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            self.signal_supervisor(Signal::CONT);
        }
    }

    /// Called when the supervisor has ended: reads the rest of the output, and ends the orphans if it was killed.
    fn settle(mut self, sink: &mut Output<'_>) -> Result<ExecResult> {
        self.child.wait().at("wait for", &self.exec.program)?;
        // None, or a part of one, if the supervisor was killed.
        let report = serde_json::from_slice(&self.reply).ok();
        let orphans = if report.is_none() { self.watch.end_orphans() } else { 0 };
        // At most what the pipes can hold: a process that could not be ended may keep writing.
        let mut room = PIPE_CAPACITY;
        while room > 0 {
            let n = self.read_output(sink) + self.read_captured();
            if n == 0 {
                break;
            }
            room = room.saturating_sub(n);
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (end, survivors) = match report {
            Some(SupervisorReport::Unstartable { errno }) => return Err(unstartable(self.exec, errno)),
            Some(SupervisorReport::Exited { code, survivors }) => (ExecEnd::Exited(code), survivors),
            Some(SupervisorReport::Signalled { signal, survivors }) => {
                (ExecEnd::Signalled(signal), survivors)
            }
            Some(SupervisorReport::Unstarted) | None => (ExecEnd::SupervisorLost, orphans),
        };
        // A program that used its time to finish has ended by itself.
        let has_finished = !self.exec.finish.is_zero() && matches!(end, ExecEnd::Exited(_));
        let reason = self.termination.filter(|_| !has_finished).and_then(|termination| termination.reason);
        Ok(ExecResult {
            end: reason.unwrap_or(end),
            stdout: self.stdout,
            stdout_truncated: self.stdout_truncated,
            survivors,
        })
    }
}

/// Reads what is available, and drops a pipe at its end of file.
fn read(pipe: &mut Option<PipeReader>, buffer: &mut [u8]) -> usize {
    match pipe.as_mut().map(|pipe| pipe.read(buffer)) {
        Some(Ok(0)) => {
            *pipe = None;
            0
        }
        Some(Ok(n)) => n,
        _ => 0,
    }
}

fn unstartable(exec: &Exec, errno: i32) -> Error {
    let name = exec.program.to_string_lossy();
    let error = Error::failed(format!("cannot start {name}")).caused_by(io::Error::from_raw_os_error(errno));
    match Errno::from_raw_os_error(errno) {
        Errno::NOENT if name.contains('/') => {
            error.hint("does the file exist, and is the interpreter in its first line (#!…) installed?")
        }
        Errno::NOENT => error.hint(format!("is {name} installed and on PATH?")),
        Errno::ACCESS => error.hint(format!("make it executable: chmod +x {name}")),
        Errno::NOEXEC => error.hint("a script needs a first line such as #!/usr/bin/env bash"),
        _ => error,
    }
}
