//! `decree publish`: real git, real repositories, a bare one as the remote.

mod commits;
mod content;
mod elsewhere;
mod pull_requests;
pub mod pushing;
mod refusing;
mod repository;

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{CommandOutput, run_command};
use crate::pipeline::pipeline_project::PipelineProject;

/// Nothing of the machine's git settings, and a fixed person.
pub const VARIABLES: [(&str, &str); 7] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "Some One"),
    ("GIT_AUTHOR_EMAIL", "one@example.com"),
    ("GIT_COMMITTER_NAME", "Some One"),
    ("GIT_COMMITTER_EMAIL", "one@example.com"),
    ("LC_ALL", "C"),
];

/// A project in a repository, with everything committed.
pub struct Repo {
    project: PipelineProject,
}

impl Deref for Repo {
    type Target = PipelineProject;

    fn deref(&self) -> &PipelineProject {
        &self.project
    }
}

/// What a failed publish must not have changed.
#[derive(Debug, PartialEq)]
pub struct State {
    refs: String,
    head: String,
    index: Vec<u8>,
    status: String,
}

impl Repo {
    /// With this routine, and these specs.
    pub fn with(script: &str, specs: &[(&str, &str)]) -> Repo {
        let repo = Repo { project: PipelineProject::with(script) };
        for (name, text) in specs {
            repo.spec(name, text);
        }
        repo.begin();
        repo
    }

    /// Makes the repository and its first commit.
    fn begin(&self) {
        self.write(".decree/.gitignore", "*\n");
        self.git(["init", "-q", "-b", "main"]).ok();
        self.commit_all("first");
    }

    pub fn commit_all(&self, message: &str) {
        self.git(["add", "-A"]).ok();
        self.git(["commit", "-q", "-m", message]).ok();
    }

    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> CommandOutput {
        git_in(self.root(), args)
    }

    /// git's answer, without its last line break.
    #[track_caller]
    pub fn says<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.git(args).ok().text().trim_end().to_owned()
    }

    pub fn publish(&self, args: &[&str]) -> CommandOutput {
        self.publish_with(args, &[])
    }

    pub fn publish_with(&self, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let mut command = self.command();
        command.arg("publish").args(args).envs(VARIABLES).envs(variables.iter().copied());
        run_command(&mut command)
    }

    #[track_caller]
    pub fn publish_json(&self, args: &[&str]) -> Value {
        let output = self.publish(&[&["--format", "json"], args].concat()).ok();
        serde_json::from_slice(&output.out).unwrap()
    }

    /// The subjects of the commits since the first one, oldest first.
    pub fn subjects(&self) -> Vec<String> {
        let text = self.says(["log", "--reverse", "--format=%s", "HEAD"]);
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// What a commit has at a path.
    #[track_caller]
    pub fn blob(&self, commit: &str, path: &str) -> Vec<u8> {
        self.git(["cat-file", "blob", &format!("{commit}:{path}")]).ok().out
    }

    /// The trailers of a commit, as git reads them.
    pub fn trailers(&self, commit: &str) -> Vec<String> {
        let text = self.says(["log", "-1", "--format=%(trailers:only,unfold)", commit]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Everything that a publish may change.
    pub fn state(&self) -> State {
        State {
            refs: self.says(["for-each-ref"]),
            head: self.says(["rev-parse", "HEAD"]),
            index: self.git(["ls-files", "--stage", "-z"]).ok().out,
            status: self.says(["status", "--porcelain"]),
        }
    }

    /// Nothing is left to commit, and the repository is sound.
    #[track_caller]
    pub fn is_clean(&self) {
        assert_eq!(self.says(["status", "--porcelain"]), "");
        self.is_sound();
    }

    #[track_caller]
    pub fn is_sound(&self) {
        self.git(["fsck", "--strict", "--no-dangling"]).ok();
        let left: Vec<String> = self
            .names(".git")
            .into_iter()
            .filter(|name| name.starts_with("index.") || name.contains("decree"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        let scratch = self.names(".decree/tmp");
        assert!(scratch.iter().all(|name| !name.starts_with("publish-")), "{scratch:?}");
    }
}

/// git in a directory, with nothing of the machine's settings.
pub fn git_in<S: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = S>) -> CommandOutput {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", "/nonexistent").envs(VARIABLES).args(args);
    run_command(&mut command)
}
