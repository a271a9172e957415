//! A program that is running: its output, its clock, its supervisor.

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
use super::report::SupervisorReport;
use crate::error::{Error, IoContext, Result};
use crate::interrupt;

/// How often to look whether somebody asked us to stop.
const TICK: Duration = Duration::from_millis(50);
/// A supervisor gives up sooner; one that does not end by then is killed itself.
const PATIENCE: Duration = Duration::from_secs(25);
/// `/proc/sys/fs/pipe-max-size`, as it usually is.
const MOST_IN_A_PIPE: usize = 1 << 20;

/// A program and its supervisor.
pub(super) struct RunningProcess<'e> {
    exec: &'e Exec,
    started: Instant,
    child: Child,
    watch: OrphanWatch,
    control: UnixStream,
    reply: Vec<u8>,
    streamed: Option<PipeReader>,
    captured: Option<PipeReader>,
    stdout: Vec<u8>,
    stdout_cut: bool,
    buffer: Vec<u8>,
    ending: Option<Ending>,
    failure: Option<Error>,
}

/// Why the program is being ended, and how far that is.
struct Ending {
    /// `None` if its output could not be written.
    how: Option<ExecEnd>,
    kill: Instant,
    killed: bool,
}

impl<'e> RunningProcess<'e> {
    /// Starts the supervisor, which starts the program.
    pub fn start(exec: &'e Exec) -> Result<Self> {
        let name = exec.program.to_string_lossy();
        if !exec.directory.is_dir() {
            let place = exec.directory.display();
            return Err(Error::failed(format!("cannot start {name} in {place}: there is no such directory")));
        }
        Self::spawn(exec).map_err(|error| {
            let too_much = error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error());
            let failure = Error::failed(format!("cannot start {name}")).caused_by(error);
            match too_much {
                true => failure.hint("its arguments and environment variables are too long taken together"),
                false => failure,
            }
        })
    }

    fn spawn(exec: &'e Exec) -> io::Result<Self> {
        become_subreaper()?;
        let (control, theirs) = UnixStream::pair()?;
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
            .arg(format!("--grace={}", exec.graces.timeout.as_millis()))
            .arg("--control")
            .arg(format!("--input={}", exec.input.len()))
            .arg("--")
            .arg(&exec.program)
            .args(&exec.args)
            .current_dir(&exec.directory)
            .env_clear()
            .envs(&exec.environment)
            .stdin(OwnedFd::from(theirs))
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
            stdout_cut: false,
            buffer: vec![0; 1 << 16],
            ending: None,
            failure: None,
        })
    }

    /// Streams the output until the supervisor has ended, and ends it when it is time.
    pub fn attend(mut self, sink: &mut dyn Output) -> Result<ExecResult> {
        // If the supervisor is gone already, the wait below is short and says so.
        let _ = self.control.write_all(&self.exec.input);
        let mut looked = self.started;
        loop {
            let now = Instant::now();
            self.look_at_clock(now);
            if now - looked >= TICK {
                looked = now;
                self.wake_supervisor();
            }
            if !self.read_some(sink) {
                break;
            }
        }
        self.settle(sink)
    }

    /// Waits for output or the end, but not long. Returns whether the supervisor is alive.
    fn read_some(&mut self, sink: &mut dyn Output) -> bool {
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

    /// Takes one piece of what is streamed. Returns its size.
    fn read_output(&mut self, sink: &mut dyn Output) -> usize {
        let n = read(&mut self.streamed, &mut self.buffer);
        if n > 0
            && self.failure.is_none()
            && let Err(error) = sink.output(&self.buffer[..n])
        {
            self.failure = Some(error);
        }
        n
    }

    /// Takes one piece of what is captured. Returns its size.
    fn read_captured(&mut self) -> usize {
        let n = read(&mut self.captured, &mut self.buffer);
        let room = self.exec.capture.unwrap_or(0).saturating_sub(self.stdout.len());
        self.stdout.extend_from_slice(&self.buffer[..n.min(room)]);
        self.stdout_cut |= n > room;
        n
    }

    /// Takes what the supervisor says. Returns whether it is alive: its end of the socket is its own, and closes
    /// with it.
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

    /// Begins to end the program if there is a reason, and goes on with it when it is time.
    fn look_at_clock(&mut self, now: Instant) {
        if self.failure.is_some() && self.ending.is_none() {
            self.end(None, self.exec.graces.interrupt);
        }
        let interrupted = self.ending.as_ref().is_some_and(|ending| ending.how == Some(ExecEnd::Interrupted));
        if !interrupted && interrupt::check().is_err() {
            self.end(Some(ExecEnd::Interrupted), self.exec.graces.interrupt);
        }
        let late = self.exec.timeout.is_some_and(|timeout| now - self.started >= timeout);
        if late && self.ending.is_none() {
            self.end(Some(ExecEnd::TimedOut), self.exec.graces.timeout);
        }
        let Some(ending) = &mut self.ending else { return };
        if now >= ending.kill && !ending.killed {
            ending.killed = true;
            self.signal_supervisor(Signal::TERM);
        } else if ending.killed && now >= ending.kill + PATIENCE {
            self.signal_supervisor(Signal::KILL);
        }
    }

    /// Tells the supervisor to end the program; once only, as twice means at once.
    fn end(&mut self, how: Option<ExecEnd>, grace: Duration) {
        let kill = Instant::now() + grace;
        match &mut self.ending {
            Some(ending) => {
                ending.how = how.or(ending.how);
                ending.kill = ending.kill.min(kill);
            }
            None => {
                self.ending = Some(Ending { how, kill, killed: false });
                self.signal_supervisor(Signal::TERM);
            }
        }
    }

    /// It is our child and not reaped: its number is its own.
    fn signal_supervisor(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// A routine may stop its supervisor, which would then see neither its end nor ours.
    fn wake_supervisor(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        if let Ok(Some(_)) = waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {
            self.signal_supervisor(Signal::CONT);
        }
    }

    /// The supervisor has ended: takes the rest of the output, and ends what it did not.
    fn settle(mut self, sink: &mut dyn Output) -> Result<ExecResult> {
        self.child.wait().at("wait for", &self.exec.program)?;
        let report =
            std::str::from_utf8(&self.reply).ok().and_then(|line| line.strip_suffix('\n')?.parse().ok());
        let strays = match report {
            None => self.watch.end_strays(),
            Some(_) => 0,
        };
        // What is in the pipes, and no more: somebody who could not be ended may go on writing.
        let mut room = MOST_IN_A_PIPE;
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
        let (how, survivors) = match report {
            Some(SupervisorReport::Unstartable { errno }) => return Err(unstartable(self.exec, errno)),
            Some(SupervisorReport::Exited { code, survivors }) => (ExecEnd::Exited(code), survivors),
            Some(SupervisorReport::Signalled { signal, survivors }) => {
                (ExecEnd::Signalled(signal), survivors)
            }
            Some(SupervisorReport::Unstarted) | None => (ExecEnd::SupervisorLost, strays),
        };
        Ok(ExecResult {
            how: self.ending.and_then(|ending| ending.how).unwrap_or(how),
            duration: self.started.elapsed(),
            stdout: self.stdout,
            stdout_cut: self.stdout_cut,
            survivors,
        })
    }
}

/// Reads what is there; forgets a pipe that nobody writes to any more.
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
            error.hint("is there such a file, and is what its first line (#!…) names installed?")
        }
        Errno::NOENT => error.hint(format!("is {name} installed, and its directory on PATH?")),
        Errno::ACCESS => error.hint(format!("make it executable: chmod +x {name}")),
        Errno::NOEXEC => error.hint("a script needs a first line such as #!/usr/bin/env bash"),
        _ => error,
    }
}
