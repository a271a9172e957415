//! Running git, and nothing but git: the one place that does.
//!
//! What runs here runs after routines that may have left anything behind, in a repository that is the user's. So no hook
//! runs, nobody is asked anything, nothing from outside says which repository or index is meant, no token of decree's or
//! of the runner's is in the environment, and what git says is shown only after it was made plain and secrets were taken
//! out of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::process::environment::child_environment;
use crate::process::redact::Redactor;
use crate::process::{Exec, ExecEnd, find_program};
use crate::sanitize::strip_controls;

/// Settings that outrank everybody's. A routine may have left hooks, or a monitor that is a program of its own.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "trailer.separators=:",
];
/// Variables that would say which repository is meant, or change what git does with it.
const MISLEADING: [&str; 18] = [
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
/// No answer of git's is longer.
const LONGEST: usize = 1 << 30;
/// Nobody reads more of its complaints.
const COMPLAINTS: usize = 1 << 14;

/// git, in a place and with an environment.
pub struct Git {
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    settings: Vec<&'static str>,
    supervisor: Option<PathBuf>,
    redactor: Redactor,
}

/// One call of git.
pub struct GitCall<'g> {
    git: &'g Git,
    args: Vec<OsString>,
    directory: Option<PathBuf>,
    elsewhere: bool,
    variables: Vec<(OsString, OsString)>,
    input: Vec<u8>,
}

/// What git said.
pub struct GitOutput {
    command: String,
    how: ExecEnd,
    /// On standard output, as it is.
    pub out: Vec<u8>,
    /// On standard error: plain, and without secrets.
    pub err: String,
}

impl Git {
    /// git in `directory`, with the environment of this process as far as that is nobody's secret.
    pub fn new(directory: &Path, variables: &BTreeMap<OsString, OsString>) -> Result<Git> {
        if find_program("git").is_none() {
            return Err(Error::failed("git is not on the PATH").hint(
                "install git; all but publishing and checkpoints of the type git_stash works without it",
            ));
        }
        let mut environment = child_environment(variables.clone(), &[]);
        for name in MISLEADING {
            environment.remove(OsStr::new(name));
        }
        for (name, value) in
            [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "false")]
        {
            environment.insert(name.into(), value.into());
        }
        let redactor = Redactor::from_environment(variables);
        Ok(Git {
            directory: directory.to_owned(),
            environment,
            settings: SETTINGS.to_vec(),
            supervisor: None,
            redactor,
        })
    }

    /// The decree to supervise it with; this one, unless told. For tests, which are programs of their own.
    pub fn supervised_by(mut self, decree: impl Into<PathBuf>) -> Git {
        self.supervisor = Some(decree.into());
        self
    }

    /// The same git, elsewhere and with these variables for every call.
    pub fn at(mut self, directory: &Path, variables: &[(&str, &OsStr)]) -> Git {
        self.directory = directory.to_owned();
        self.environment.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        self
    }

    /// Sets a variable for every call.
    pub fn set_variable(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.insert(name.into(), value.into());
    }

    /// Adds a setting for every call: `name=value`.
    pub fn set_setting(&mut self, setting: &'static str) {
        self.settings.push(setting);
    }

    /// A variable that every call has.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A call with these arguments.
    pub fn call<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>) -> GitCall<'_> {
        GitCall {
            git: self,
            args: args.into_iter().map(Into::into).collect(),
            directory: None,
            elsewhere: false,
            variables: Vec::new(),
            input: Vec::new(),
        }
    }

    /// A setting; `None` if there is none.
    pub fn config(&self, args: &[&str]) -> Result<Option<String>> {
        let answer = self.call([&["config"], args].concat()).run()?;
        match answer.how {
            ExecEnd::Exited(0) => Ok(Some(answer.line()).filter(|value| !value.is_empty())),
            ExecEnd::Exited(1) => Ok(None),
            _ => Err(answer.into_error()),
        }
    }

    /// The commit that a name stands for, if there is one.
    pub fn commit_of(&self, name: &str) -> Result<Option<String>> {
        let answer = self.call(["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")]).run()?;
        Ok(answer.is_ok().then(|| answer.line()))
    }

    /// What knows the secrets of the environment.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Text that may be shown.
    pub fn shown(&self, text: &str) -> String {
        self.redactor.redact(&strip_controls(text)).into_owned()
    }
}

impl GitCall<'_> {
    /// Adds an argument of any bytes.
    pub fn push(&mut self, arg: &OsStr) {
        self.args.push(arg.to_owned());
    }

    /// Where it runs.
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// In another repository, a bare one.
    pub fn in_bare(mut self, bare: &Path) -> Self {
        self.elsewhere = true;
        self.directory(bare).variable("GIT_DIR", bare)
    }

    /// Adds a variable.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// What it reads.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// Runs it to its end, whatever that is. Only being interrupted is an error.
    pub fn run(self) -> Result<GitOutput> {
        let git = self.git;
        let command = self.args.first().map_or_else(String::new, |arg| arg.to_string_lossy().into_owned());
        let mut environment = git.environment.clone();
        if self.elsewhere {
            environment.remove(OsStr::new("GIT_WORK_TREE"));
        }
        let mut exec = Exec::new("git")
            .args(["--no-pager"])
            .args(git.settings.iter().flat_map(|setting| ["-c", setting]))
            .args(self.args)
            .directory(self.directory.unwrap_or_else(|| git.directory.clone()))
            .environment(environment)
            .input(self.input)
            .capture_stdout(LONGEST);
        for (name, value) in self.variables {
            exec = exec.variable(name, value);
        }
        if let Some(supervisor) = &git.supervisor {
            exec = exec.supervisor(supervisor);
        }
        let mut complaints = Vec::new();
        let ended = exec.run(&mut |bytes: &[u8]| {
            let room = COMPLAINTS.saturating_sub(complaints.len());
            complaints.extend_from_slice(&bytes[..bytes.len().min(room)]);
            Ok(())
        })?;
        if ended.end == ExecEnd::Interrupted {
            crate::interrupt::check()?;
        }
        let err = git.shown(&String::from_utf8_lossy(&complaints));
        Ok(GitOutput { command, how: ended.end, out: ended.stdout, err })
    }

    /// Runs it; anything but success is an error that says what git said.
    pub fn ok(self) -> Result<GitOutput> {
        let answer = self.run()?;
        match answer.is_ok() {
            true => Ok(answer),
            false => Err(answer.into_error()),
        }
    }

    /// The same, for those who want its one line of output.
    pub fn line(self) -> Result<String> {
        self.ok().map(|answer| answer.line())
    }
}

impl GitOutput {
    /// Whether it went well.
    pub fn is_ok(&self) -> bool {
        self.how == ExecEnd::Exited(0)
    }

    /// Whether it exited with this code.
    pub fn is_code(&self, code: i32) -> bool {
        self.how == ExecEnd::Exited(code)
    }

    /// Standard output without its last line break.
    pub fn line(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end_matches(['\n', '\r']).to_owned()
    }

    /// The same for a path, which may have any bytes.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.out.strip_suffix(b"\n").unwrap_or(&self.out)))
    }

    /// The pieces of what was asked for with `-z`.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.out.strip_suffix(b"\0").into_iter().flat_map(|out| out.split(|byte| *byte == 0))
    }

    /// An error that says what git said.
    pub fn into_error(self) -> Error {
        let lines: Vec<String> =
            self.err.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Error::new(ErrorKind::Failed, format!("`git {}` failed: {}", self.command, self.how))
            .details(lines, 20)
    }
}
