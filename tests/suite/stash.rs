//! Stash entries that are created without touching anything: the library called directly, with plain git as the oracle.
//!
//! git is run below a supervisor, which a test binary with many threads cannot have. So each operation is a process of its own.

mod apply;
mod check;
mod kinds;
mod list;
mod refusing;
mod staged;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use decree::error::{ErrorKind, Result};
use decree::git::Git;
use decree::git::stash::{Stash, Stashes};
use serde_json::{Value, json};

use crate::harness::{CommandOutput, Project, TreeSnapshot, assert_same, snapshot, temp_dir};
use crate::publish::git_in;

const OPERATION: &str = "DECREE_TEST_STASH";

/// Not a test of its own: what an operation's process runs.
#[test]
fn operation() {
    let Some(file) = std::env::var_os(OPERATION) else { return };
    let file = PathBuf::from(file);
    let asked: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    decree::interrupt::listen().unwrap();
    let output = match carry_out(&asked) {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({
            "error": error.to_string(), "integrity": error.kind() == ErrorKind::Integrity,
            "details": error.detail_lines(), "hint": error.hint_text(),
        }),
    };
    fs::write(file.with_extension("answer"), output.to_string()).unwrap();
}

fn carry_out(asked: &Value) -> Result<Value> {
    let words = |name: &str| -> Option<Vec<String>> { serde_json::from_value(asked[name].clone()).unwrap() };
    let (scope, left_out) = (words("scope"), words("left_out").unwrap_or_default());
    let covers = |path: &[u8]| {
        let begins = |words: &Vec<String>| words.iter().any(|word| path.starts_with(word.as_bytes()));
        scope.as_ref().is_none_or(begins) && !begins(&left_out)
    };
    let root = Path::new(asked["root"].as_str().unwrap());
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = Git::new(root, &variables)?.supervised_by(env!("CARGO_BIN_EXE_decree"));
    let stashes = Stashes::of(git, root, &root.join(".decree/tmp"))?;
    let stash = || -> Stash { serde_json::from_value(asked["stash"].clone()).unwrap() };
    Ok(match asked["operation"].as_str().unwrap() {
        "create" => {
            let message = asked["message"].as_str().unwrap().to_owned();
            json!(stashes.create(&message, &covers)?)
        }
        "check" => json!(stashes.check(&stash())?),
        "is_listed" => json!(stashes.is_listed(&stash())?),
        "drop" => json!(stashes.drop_entry(&stash())?),
        "staged_since" => json!(stashes.staged_since(&stash(), &covers)?),
        "restore_index" => json!(stashes.restore_index(&stash(), &covers)?),
        other => panic!("{other}"),
    })
}

/// A project in a repository, with one commit.
pub struct Repo {
    project: Project,
    /// Requests to operations, and their answers.
    desk: tempfile::TempDir,
    /// Where the project is below the repository's top.
    below: &'static str,
    /// Variables for decree.
    variables: Vec<(&'static str, &'static str)>,
}

impl Deref for Repo {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

/// What an operation must not change.
#[derive(Debug, PartialEq)]
pub struct Untouched {
    index: Option<(Vec<u8>, SystemTime, u64)>,
    status: String,
    head: String,
}

/// What an operation's process said when it failed.
#[derive(Debug)]
pub struct Failure {
    pub text: String,
    pub integrity: bool,
}

impl Repo {
    /// With some files, committed.
    pub fn new() -> Repo {
        let repo = Repo::empty(&["init", "-q", "-b", "main"], "");
        repo.write("a", "a\n").write("b", "b\n").write("d/x", "x\n").write("d/y", "y\n");
        repo.commit_all("first");
        repo
    }

    /// Without a commit, made by this, with the project below its top.
    pub fn empty(init: &[&str], below: &'static str) -> Repo {
        let repo = Repo { project: Project::bare(), desk: temp_dir(), below, variables: Vec::new() };
        repo.write(
            repo.at(".decree/.gitignore"),
            "*\n!.gitignore\n!config.yml\n!routines/\n!routines/**\n!cron/\n!cron/**\n",
        );
        repo.mkdir(repo.at(".decree/tmp"));
        repo.git(init.iter().copied()).ok();
        repo
    }

    /// A path of the project from the top.
    pub fn at(&self, path: &str) -> String {
        if self.below.is_empty() { path.to_owned() } else { format!("{}/{path}", self.below) }
    }

    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> CommandOutput {
        git_in(self.root(), args)
    }

    #[track_caller]
    pub fn says<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.git(args).ok().text().trim_end().to_owned()
    }

    pub fn commit_all(&self, message: &str) {
        self.git(["add", "-A"]).ok();
        self.git(["commit", "-q", "-m", message]).ok();
    }

    pub fn status(&self) -> String {
        self.says(["--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all"])
    }

    pub fn git_dir(&self) -> PathBuf {
        self.says(["rev-parse", "--absolute-git-dir"]).into()
    }

    pub fn untouched(&self) -> Untouched {
        let index = self.git_dir().join("index");
        let bytes = fs::read(&index).ok();
        let index = bytes.map(|bytes| {
            let metadata = fs::metadata(&index).unwrap();
            (bytes, metadata.modified().unwrap(), metadata.ino())
        });
        Untouched {
            index,
            status: self.status(),
            head: self.says(["rev-parse", "--symbolic-full-name", "HEAD"]),
        }
    }

    /// Begins an operation in a process of its own.
    pub fn start(&self, operation: &str, mut asked: Value) -> (Child, PathBuf) {
        asked["operation"] = json!(operation);
        asked["root"] = json!(self.path(self.below).to_str().unwrap().trim_end_matches('/'));
        let file = self.desk.path().join(decree::fs::random_hex());
        fs::write(&file, asked.to_string()).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stash::operation", "--test-threads=1", "--nocapture"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(self.variables.iter().copied())
            .env(OPERATION, &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (child, file)
    }

    pub fn operate(&self, operation: &str, asked: Value) -> std::result::Result<Value, Failure> {
        let (mut child, file) = self.start(operation, asked);
        let status = child.wait().unwrap();
        let output = fs::read(file.with_extension("answer"));
        assert!(status.success(), "{operation}: {status}");
        let output: Value = serde_json::from_slice(&output.unwrap()).unwrap();
        let locks: Vec<String> =
            names(&self.git_dir()).into_iter().filter(|name| name.starts_with("index.")).collect();
        assert!(locks.is_empty(), "{locks:?}");
        assert_eq!(names(&self.path(self.at(".decree/tmp"))), Vec::<String>::new());
        match output.get("ok") {
            Some(value) => Ok(value.clone()),
            None => Err(Failure { text: output.to_string(), integrity: output["integrity"] == json!(true) }),
        }
    }

    /// Makes an entry, and sees that nothing else changed.
    #[track_caller]
    pub fn stash_with(&self, asked: Value) -> Stash {
        let mut whole = json!({ "message": "kept", "scope": null, "left_out": [] });
        whole.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
        let (untouched, tree) = (self.untouched(), self.snapshot());
        let stash = self.operate("create", whole).unwrap();
        assert_eq!(self.untouched(), untouched);
        assert_same(&self.snapshot(), &tree);
        let stash: Stash = serde_json::from_value(stash).unwrap();
        assert_eq!(self.says(["rev-parse", "refs/stash"]), stash.commit);
        self.git(["fsck", "--strict", "--no-dangling"]).ok();
        stash
    }

    #[track_caller]
    pub fn stash(&self) -> Stash {
        self.stash_with(json!({}))
    }

    #[track_caller]
    pub fn refused(&self, asked: Value) -> Failure {
        let failure = self.operate("create", asked).unwrap_err();
        assert!(!self.git(["rev-parse", "-q", "--verify", "refs/stash"]).text().contains(|_| true));
        failure
    }

    /// What a user does who wants nothing of it any more.
    pub fn clear(&self) {
        self.git(["reset", "-q", "--hard"]).ok();
        self.git(["clean", "-q", "-f", "-d"]).ok();
    }

    /// All of the tree comes back with `git stash apply`, and with `--index` all of the index too.
    #[track_caller]
    pub fn comes_back(&self) -> Stash {
        let (tree, status) = (visible(self), self.status());
        let stash = self.stash();
        self.clear();
        self.git(["stash", "apply", "-q"]).ok();
        assert_same(&visible(self), &tree);
        self.clear();
        self.git(["stash", "apply", "-q", "--index"]).ok();
        assert_same(&visible(self), &tree);
        assert_eq!(readable(&self.status()), readable(&status));
        self.git(["stash", "show", "-p", "--include-untracked"]).ok();
        stash
    }

    /// Path and content of what is in a commit.
    pub fn files(&self, commit: &str) -> BTreeMap<String, String> {
        let list = self.says(["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", commit]);
        let names = list.lines().filter(|name| !name.is_empty());
        names.map(|name| (name.to_owned(), self.says(["show", &format!("{commit}:{name}")]))).collect()
    }

    pub fn names_in(&self, commit: &str) -> Vec<String> {
        self.files(commit).into_keys().filter(|name| !name.ends_with(".decree/.gitignore")).collect()
    }
}

fn readable(status: &str) -> Vec<&str> {
    status.split('\0').collect()
}

/// The tree without what git cannot know: modes but for `x`, and directories.
pub fn visible(repo: &Repo) -> TreeSnapshot {
    use crate::harness::TreeEntry;
    let tree = snapshot(repo.root()).into_iter().filter(|(_, thing)| !matches!(thing, TreeEntry::Dir { .. }));
    tree.map(|(path, thing)| match thing {
        TreeEntry::File { mode, bytes } => (path, TreeEntry::File { mode: mode & 0o100, bytes }),
        thing => (path, thing),
    })
    .collect()
}

pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
