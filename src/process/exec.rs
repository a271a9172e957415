//! A program to run, and how it ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::marked::{MARK_VARIABLE, ProcessMark};
use super::running::RunningProcess;
use crate::error::Result;

/// Where a program's output goes, as it arrives.
pub trait Output {
    /// Takes some of the output. An error ends the program, and is what [`Exec::run`] returns.
    /// While this works, nobody looks at the clock: it should not wait for a person.
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
    /// When its time is up; also for what it leaves running when it ends.
    pub timeout: Duration,
    /// When decree itself is asked to stop, and will soon be killed.
    pub interrupt: Duration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        GracePeriods { timeout: Duration::from_secs(5), interrupt: Duration::from_secs(2) }
    }
}

/// A program, what it is given, and how long it may take.
#[derive(Clone, Debug)]
pub struct Exec {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) input: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) graces: GracePeriods,
    pub(super) capture: Option<usize>,
    pub(super) supervisor: PathBuf,
}

impl Exec {
    /// A program; found on the `PATH` of [`Exec::environment`] if it has no slash.
    pub fn new(program: impl Into<OsString>) -> Exec {
        Exec {
            program: program.into(),
            args: Vec::new(),
            directory: PathBuf::from("."),
            environment: BTreeMap::new(),
            input: Vec::new(),
            timeout: None,
            graces: GracePeriods::default(),
            capture: None,
            // Not the path it was started by: there may be another decree there by now.
            supervisor: PathBuf::from("/proc/self/exe"),
        }
    }

    /// Adds arguments.
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Exec {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Where to run it; here, unless told.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Exec {
        self.directory = directory.into();
        self
    }

    /// Its whole environment; nothing is inherited. See [`super::environment::child_environment`].
    pub fn environment(mut self, environment: BTreeMap<OsString, OsString>) -> Exec {
        self.environment.extend(environment);
        self
    }

    /// Adds one variable.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Exec {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Marks it and its descendants, for [`super::marked::end`].
    pub fn mark(self, mark: &ProcessMark) -> Exec {
        self.variable(MARK_VARIABLE, mark.as_str())
    }

    /// What it reads from standard input; nothing, unless told.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Exec {
        self.input = bytes.into();
        self
    }

    /// How long it may take.
    pub fn timeout(mut self, timeout: Option<Duration>) -> Exec {
        self.timeout = timeout;
        self
    }

    /// How long it has to end when it has to.
    pub fn graces(mut self, graces: GracePeriods) -> Exec {
        self.graces = graces;
        self
    }

    /// Keeps standard output apart, its first `limit` bytes in [`ExecResult::stdout`]; only standard error is streamed.
    pub fn capture_stdout(mut self, limit: usize) -> Exec {
        self.capture = Some(limit);
        self
    }

    /// The decree to supervise with; this one, unless told. For tests, which are programs of their own.
    pub fn supervisor(mut self, decree: impl Into<PathBuf>) -> Exec {
        self.supervisor = decree.into();
        self
    }

    /// Runs it to its end and streams its output, standard output and standard error in the order they were
    /// written. When this returns, even with an error, nothing that it started is alive, but for
    /// [`ExecResult::survivors`].
    ///
    /// Has to be called from a thread that lives until it returns, as it does. An error means that it could not be
    /// started, or that `sink` failed.
    pub fn run(&self, sink: &mut dyn Output) -> Result<ExecResult> {
        RunningProcess::start(self)?.attend(sink)
    }
}

/// How a program ended, and after how long.
#[derive(Clone, Debug)]
pub struct ExecResult {
    /// What happened.
    pub how: ExecEnd,
    /// From the start to when everything it had started was gone.
    pub duration: Duration,
    /// What [`Exec::capture_stdout`] kept.
    pub stdout: Vec<u8>,
    /// Whether there was more.
    pub stdout_cut: bool,
    /// How many processes could not be ended: they belong to another user, or hang in the kernel.
    pub survivors: usize,
}

impl ExecResult {
    /// Whether it exited with 0, in time.
    pub fn is_success(&self) -> bool {
        self.how == ExecEnd::Exited(0)
    }
}

/// What happened to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecEnd {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it, and not ours.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// decree was asked to stop.
    Interrupted,
    /// It, or something else, killed its supervisor; its own end is not known.
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
