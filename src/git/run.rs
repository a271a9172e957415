//! Executes git. No other code does.
//!
//! Routines run before and may have changed anything in the user's repository. So no hook runs, git does not prompt, no
//! variable from outside selects another repository or index, no token of decree or the CI runner is in the environment,
//! and git's messages are printed only without control characters and secrets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::process::environment::child_environment;
use crate::process::redact::Redactor;
use crate::process::{Exec, ExecEnd, find_program};
use crate::sanitize::strip_controls;

/// Config that overrides the repository's: a routine may have installed hooks, a file system monitor program or a list of commits.
const SETTINGS: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "core.commitGraph=false",
    "advice.graftFileDeprecated=false",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "trailer.separators=:",
];
/// Variables that would select another repository, or change how git works in it.
const REMOVED_VARIABLES: [&str; 18] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_EXTERNAL_DIFF",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
];
/// Objects are read as they are and as they are pushed, not as files of a routine show them: `git replace`, `info/grafts`.
const OBJECT_VARIABLES: [(&str, &str); 2] =
    [("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null")];
/// The limit for captured output, far above any real one.
const STDOUT_LIMIT: usize = 1 << 30;
/// Subcommands that are short and take locks in the user's repository. git leaves a lock behind if it is ended while it creates the
/// file, so these may finish.
const LOCKING: [&str; 3] = ["stash", "symbolic-ref", "update-ref"];
const TIME_TO_FINISH: Duration = Duration::from_secs(2);
/// How much of git's error output is kept for messages.
const STDERR_LIMIT: usize = 1 << 14;

/// git with a working directory, an environment and config.
pub struct Git {
    /// What every call starts from: everything up to git's subcommand.
    exec: Exec,
    /// Masks the secrets of the environment.
    pub redactor: Redactor,
}

/// One git command before it runs.
pub struct GitCall<'g> {
    git: &'g Git,
    /// The subcommand, for messages.
    command: String,
    exec: Exec,
}

/// The result of a git command.
pub struct GitOutput {
    command: String,
    end: ExecEnd,
    /// Standard output as raw bytes.
    pub out: Vec<u8>,
    /// Standard error, without control characters and secrets.
    pub err: String,
}

impl Git {
    /// git in `directory`, with `variables` as its environment, except for tokens and variables that select a repository.
    pub fn new(directory: &Path, variables: &BTreeMap<OsString, OsString>) -> Result<Git> {
        if find_program("git").is_none() {
            return Err(Error::failed("git is not on the PATH").hint(
                "install git; everything but publishing and checkpoints of the type git_stash works without it",
            ));
        }
        let mut environment = child_environment(variables.clone(), &[]);
        for name in REMOVED_VARIABLES {
            environment.remove(OsStr::new(name));
        }
        for (name, value) in
            [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "false")]
                .into_iter()
                .chain(OBJECT_VARIABLES)
        {
            environment.insert(name.into(), value.into());
        }
        let exec = Exec::new("git").args(["--no-pager"]).directory(directory).environment(environment);
        let mut git = Git { exec, redactor: Redactor::from_environment(variables) };
        git.exec.capture = Some(STDOUT_LIMIT);
        SETTINGS.iter().for_each(|setting| git.set_config(setting));
        Ok(git)
    }

    /// Sets the decree binary to supervise with. The default is the running one; a test is another binary.
    pub fn supervised_by(mut self, decree: impl Into<PathBuf>) -> Git {
        self.exec.supervisor = decree.into();
        self
    }

    /// Changes the working directory, and adds variables for every call.
    pub fn at(mut self, directory: &Path, variables: &[(&str, &OsStr)]) -> Git {
        self.exec.directory = directory.to_owned();
        variables.iter().for_each(|(name, value)| self.set_variable(name, value));
        self
    }

    pub fn set_variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.exec.environment.insert(name.into(), value.into());
    }

    /// Adds config for every call: `name=value`.
    pub fn set_config(&mut self, setting: &str) {
        self.exec.args.extend(["-c".into(), setting.into()]);
    }

    /// The value of a variable in the environment of every call.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.exec.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub fn call<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>) -> GitCall<'_> {
        let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
        let command = args.first().map_or_else(String::new, |arg| arg.to_string_lossy().into_owned());
        let mut exec = self.exec.clone().args(args);
        if LOCKING.contains(&&*command) {
            exec.finish = TIME_TO_FINISH;
        }
        GitCall { git: self, command, exec }
    }

    /// Runs `git config` with these arguments; `None` if the key is not set.
    pub fn config(&self, args: &[&str]) -> Result<Option<String>> {
        let output = self.call([&["config"], args].concat()).run()?;
        match output.end {
            ExecEnd::Exited(0) => Ok(Some(output.line()).filter(|value| !value.is_empty())),
            ExecEnd::Exited(1) => Ok(None),
            _ => Err(output.into_error()),
        }
    }

    /// The hash of the commit that a revision names, if it exists.
    pub fn commit_of(&self, name: &str) -> Result<Option<String>> {
        let output = self.call(["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")]).run()?;
        Ok(output.is_ok().then(|| output.line()))
    }

    /// Removes control characters and masks secrets, so that the text may be printed.
    pub fn printable(&self, text: &str) -> String {
        self.redactor.redact(&strip_controls(text)).into_owned()
    }
}

impl GitCall<'_> {
    /// Adds an argument, which may be any bytes.
    pub fn push(&mut self, arg: &OsStr) {
        self.exec.args.push(arg.to_owned());
    }

    /// Sets the working directory of this call.
    pub fn directory(mut self, directory: &Path) -> Self {
        self.exec.directory = directory.to_owned();
        self
    }

    /// Runs in another, bare repository.
    pub fn in_bare(mut self, bare: &Path) -> Self {
        self.exec.environment.remove(OsStr::new("GIT_WORK_TREE"));
        self.directory(bare).variable("GIT_DIR", bare)
    }

    /// Adds an environment variable to this call.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.exec.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.exec.input = bytes;
        self
    }

    /// Runs git to its end, whatever its exit code. It is an error if git cannot be started or decree is interrupted.
    pub fn run(self) -> Result<GitOutput> {
        let mut stderr = Vec::new();
        let result = self.exec.run(&mut |bytes: &[u8]| {
            let room = STDERR_LIMIT.saturating_sub(stderr.len());
            stderr.extend_from_slice(&bytes[..bytes.len().min(room)]);
            Ok(())
        })?;
        if result.end == ExecEnd::Interrupted {
            crate::interrupt::check()?;
        }
        let err = self.git.printable(&String::from_utf8_lossy(&stderr));
        Ok(GitOutput { command: self.command, end: result.end, out: result.stdout, err })
    }

    /// Runs git; any exit code but 0 is an error with git's own message.
    pub fn ok(self) -> Result<GitOutput> {
        let output = self.run()?;
        if output.is_ok() { Ok(output) } else { Err(output.into_error()) }
    }

    /// Like [`GitCall::ok`], but returns the one line of output.
    pub fn line(self) -> Result<String> {
        self.ok().map(|output| output.line())
    }
}

impl GitOutput {
    pub fn is_ok(&self) -> bool {
        self.end == ExecEnd::Exited(0)
    }

    pub fn is_code(&self, code: i32) -> bool {
        self.end == ExecEnd::Exited(code)
    }

    /// Standard output without its last line break.
    pub fn line(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end_matches(['\n', '\r']).to_owned()
    }

    /// Standard output without its last line break, as a path, which may be any bytes.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.out.strip_suffix(b"\n").unwrap_or(&self.out)))
    }

    /// The records of a command with `-z`.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.out.strip_suffix(b"\0").into_iter().flat_map(|out| out.split(|byte| *byte == 0))
    }

    /// An error with git's own message.
    pub fn into_error(self) -> Error {
        let lines: Vec<String> =
            self.err.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Error::new(ErrorKind::Failed, format!("`git {}` failed: {}", self.command, self.end))
            .details(lines, 20)
    }
}
