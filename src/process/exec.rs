//! A program to run, and its result. [`Exec::run`] is in `running.rs`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;

/// Receives a program's output as it arrives. An error ends the program, and [`Exec::run`] returns it.
///
/// Timeouts are not checked while this runs, so it must not wait for a user.
pub type Output<'o> = dyn FnMut(&[u8]) -> Result<()> + 'o;

/// How long a program has between SIGTERM and SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracePeriods {
    /// After a timeout, and for the processes that the program leaves running when it ends.
    pub timeout: Duration,
    /// When decree itself was asked to stop. Shorter, because a CI runner soon sends SIGKILL.
    pub interrupt: Duration,
}

impl GracePeriods {
    pub const DEFAULT: GracePeriods =
        GracePeriods { timeout: Duration::from_secs(5), interrupt: Duration::from_secs(2) };
}

/// A program with its arguments, environment, input and time limit.
#[derive(Clone, Debug)]
pub struct Exec {
    /// A path, or a name to be found on the `PATH` of `environment`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The current one by default.
    pub directory: PathBuf,
    /// Empty by default: nothing is inherited. See [`super::environment::child_environment`].
    pub environment: BTreeMap<OsString, OsString>,
    /// What the program reads from standard input.
    pub input: Vec<u8>,
    /// The program is ended after this time.
    pub timeout: Option<Duration>,
    pub grace_periods: GracePeriods,
    /// How long the program may go on to its own end when decree is asked to stop or dies, before SIGTERM. Zero by default.
    pub finish: Duration,
    /// How many bytes of standard output are captured in [`ExecResult::stdout`]. Then only standard error is streamed.
    pub capture: Option<usize>,
    /// A file that the supervisor writes when it has ended everything because decree was killed: its time says when that was.
    pub end_note: Option<PathBuf>,
    /// The decree binary to supervise with: the running one, except in a test, which is another binary.
    pub supervisor: PathBuf,
}

/// The arguments of bash before a command line of the user's (`verify`, hooks, databases). As in a CI's step, the first command that
/// fails decides, also in a pipe and among several lines: otherwise `cargo test | tee log` would always succeed.
pub const STRICT_BASH: [&str; 4] = ["-e", "-o", "pipefail", "-c"];

impl Exec {
    pub fn new(program: impl Into<OsString>) -> Exec {
        Exec {
            program: program.into(),
            args: Vec::new(),
            directory: PathBuf::from("."),
            environment: BTreeMap::new(),
            input: Vec::new(),
            timeout: None,
            grace_periods: GracePeriods::DEFAULT,
            finish: Duration::ZERO,
            capture: None,
            end_note: None,
            // Not the path decree was started by: another version may have been installed there since.
            supervisor: PathBuf::from("/proc/self/exe"),
        }
    }

    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Exec {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Exec {
        self.directory = directory.into();
        self
    }

    /// Adds to the environment.
    pub fn environment(mut self, environment: BTreeMap<OsString, OsString>) -> Exec {
        self.environment.extend(environment);
        self
    }

    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Exec {
        self.environment.insert(name.into(), value.into());
        self
    }

    pub fn end_note(mut self, path: impl Into<PathBuf>) -> Exec {
        self.end_note = Some(path.into());
        self
    }

    pub fn timeout(mut self, timeout: Option<Duration>) -> Exec {
        self.timeout = timeout;
        self
    }
}

#[derive(Clone, Debug)]
pub struct ExecResult {
    pub end: ExecEnd,
    /// Standard output, up to the limit of [`Exec::capture`].
    pub stdout: Vec<u8>,
    /// Whether the program wrote more than that.
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
    /// Ended by decree after its timeout.
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

/// The path of a command, looked up as a shell does.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let is_executable = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|dir| dir.as_os_str() != OsStr::new(""))
        .map(|dir| dir.join(name))
        .find(|candidate| is_executable(candidate))
}
