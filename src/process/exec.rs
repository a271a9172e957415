//! A program to run, and its result. [`Exec::run`] is in `running.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::marked::{MARK_VARIABLE, ProcessMark};
use crate::error::Result;

/// Where a program's output goes, as it arrives.
pub trait Output {
    /// Receives the next bytes of output. An error ends the program, and [`Exec::run`] returns it.
    ///
    /// Timeouts are not checked while this runs, so it must not wait for a user.
    fn output(&mut self, bytes: &[u8]) -> Result<()>;
}

impl<F: FnMut(&[u8]) -> Result<()>> Output for F {
    fn output(&mut self, bytes: &[u8]) -> Result<()> {
        self(bytes)
    }
}

/// How long a program has between SIGTERM and SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriods {
    /// After a timeout, and for the processes that the program leaves running when it ends.
    pub timeout: Duration,
    /// When decree itself was asked to stop. Shorter, because a CI runner soon sends SIGKILL.
    pub interrupt: Duration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        GracePeriods { timeout: Duration::from_secs(5), interrupt: Duration::from_secs(2) }
    }
}

/// A program with its arguments, environment, input and time limit.
#[derive(Clone, Debug)]
pub struct Exec {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) input: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) grace_periods: GracePeriods,
    pub(super) capture: Option<usize>,
    pub(super) supervisor: PathBuf,
}

impl Exec {
    /// A program by path, or by name to be found on the `PATH` of [`Exec::environment`].
    pub fn new(program: impl Into<OsString>) -> Exec {
        Exec {
            program: program.into(),
            args: Vec::new(),
            directory: PathBuf::from("."),
            environment: BTreeMap::new(),
            input: Vec::new(),
            timeout: None,
            grace_periods: GracePeriods::default(),
            capture: None,
            // Not the path decree was started by: another version may have been installed there since.
            supervisor: PathBuf::from("/proc/self/exe"),
        }
    }

    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Exec {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory. The default is the current one.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Exec {
        self.directory = directory.into();
        self
    }

    /// Adds to the environment, which starts empty: nothing is inherited. See [`super::environment::child_environment`].
    pub fn environment(mut self, environment: BTreeMap<OsString, OsString>) -> Exec {
        self.environment.extend(environment);
        self
    }

    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Exec {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Marks the program and its descendants, so that [`super::marked::end`] finds them.
    pub fn mark(self, mark: &ProcessMark) -> Exec {
        self.variable(MARK_VARIABLE, mark.as_str())
    }

    /// Sets what the program reads from standard input. The default is nothing.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Exec {
        self.input = bytes.into();
        self
    }

    /// Ends the program after this time. The default is no limit.
    pub fn timeout(mut self, timeout: Option<Duration>) -> Exec {
        self.timeout = timeout;
        self
    }

    /// Sets the time between SIGTERM and SIGKILL.
    pub fn grace_periods(mut self, grace_periods: GracePeriods) -> Exec {
        self.grace_periods = grace_periods;
        self
    }

    /// Captures the first `limit` bytes of standard output in [`ExecResult::stdout`]; only standard error is streamed.
    pub fn capture_stdout(mut self, limit: usize) -> Exec {
        self.capture = Some(limit);
        self
    }

    /// Sets the decree binary to supervise with. The default is the running one; a test is another binary.
    pub fn supervisor(mut self, decree: impl Into<PathBuf>) -> Exec {
        self.supervisor = decree.into();
        self
    }
}

#[derive(Clone, Debug)]
pub struct ExecResult {
    pub end: ExecEnd,
    /// From the start until the program and all its descendants had ended.
    pub duration: Duration,
    /// Standard output, if [`Exec::capture_stdout`] was called.
    pub stdout: Vec<u8>,
    /// Whether the program wrote more than [`Exec::capture_stdout`] allows.
    pub stdout_truncated: bool,
    /// How many processes could not be ended, because they belong to another user or hang in the kernel.
    pub survivors: usize,
}

impl ExecResult {
    /// Whether the program exited with 0 before its timeout.
    pub fn is_success(&self) -> bool {
        self.end == ExecEnd::Exited(0)
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    Exited(i32),
    /// Ended by a signal that decree did not send.
    Signalled(i32),
    /// Ended by decree after [`Exec::timeout`].
    TimedOut,
    /// Ended because decree was asked to stop.
    Interrupted,
    /// Its supervisor was killed, so its own exit status is unknown.
    SupervisorLost,
}

impl std::fmt::Display for ExecEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExecEnd::Exited(code) => write!(f, "exit code {code}"),
            ExecEnd::Signalled(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            ExecEnd::TimedOut => write!(f, "timed out"),
            ExecEnd::Interrupted => write!(f, "interrupted"),
            ExecEnd::SupervisorLost => write!(f, "its supervisor was killed"),
        }
    }
}
