//! git's own state around runs: HEAD, branches, the index. Real git, before and after.

mod copied_secrets;
mod deleted;
mod git_data;
mod guarded;
mod inside;
mod interrupted;
mod kept;
mod nested;
mod overwritten;
mod places;
mod published;
mod revert_again;
mod reverted;
mod stash;
mod uncompared;
mod unrestored;

use std::fs;
use std::time::SystemTime;

use crate::publish::{Repo, git_in};

/// A routine that commits everything it did.
const COMMIT: &str = "git add -A && git commit -q -m 'by the routine'\n";

/// Lets the git of a routine commit.
fn script(text: &str) -> String {
    format!(
        "export GIT_AUTHOR_NAME=agent GIT_AUTHOR_EMAIL=agent@localhost\n\
         export GIT_COMMITTER_NAME=agent GIT_COMMITTER_EMAIL=agent@localhost\n{text}\n"
    )
}

/// A repository whose routine is this script, with one spec and one attempt.
fn repo(text: &str) -> Repo {
    let repo = Repo::with(&script(text), &[("01-a", "# A\n")]);
    repo.config("max_retries: 0\n");
    repo
}

/// A repository in `nested/`, and a submodule of it in `lib/`.
fn add_nested_and_submodule(repo: &Repo) {
    let nested = repo.path("nested");
    fs::create_dir_all(&nested).unwrap();
    fs::write(nested.join("a.txt"), "a\n").unwrap();
    git_in(&nested, ["init", "-q", "-b", "main"]).ok();
    git_in(&nested, ["add", "-A"]).ok();
    git_in(&nested, ["commit", "-q", "-m", "nested"]).ok();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    repo.git(add.into_iter().chain([nested.to_str().unwrap(), "lib"])).ok();
    repo.git(["commit", "-q", "-m", "submodule"]).ok();
}

/// All that has to be the same after a revert.
#[derive(Debug, PartialEq)]
struct GitView {
    head: String,
    refs: String,
    index: Option<(Vec<u8>, SystemTime)>,
    entries: String,
    status: String,
    unstaged: String,
    staged: String,
}

/// What git says in the repository, without changing its index.
fn view(repo: &Repo) -> GitView {
    let path = repo.path(".git/index");
    let index = fs::read(&path).ok().map(|bytes| (bytes, path.metadata().unwrap().modified().unwrap()));
    let says = |args: &[&str]| {
        let quiet = ["--no-optional-locks", "-c", "diff.autoRefreshIndex=false"];
        let answer = repo.git(quiet.iter().chain(args).copied());
        if answer.code == 0 { answer.text() } else { format!("exit code {}", answer.code) }
    };
    GitView {
        head: fs::read_to_string(repo.path(".git/HEAD")).unwrap(),
        refs: says(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]),
        index,
        entries: says(&["ls-files", "--stage", "-v"]),
        status: says(&["status", "--porcelain=v2", "--branch"]),
        unstaged: says(&["diff"]),
        staged: says(&["diff", "--cached"]),
    }
}

/// The repository with something staged, something not, something announced and something hidden.
fn make_busy(repo: &Repo) {
    repo.write("notes.txt", "staged\n");
    repo.git(["add", "notes.txt"]).ok();
    repo.write("notes.txt", "staged, and edited again\n").write("docs/guide.md", "edited\n");
    repo.write("announced.txt", "not yet\n").write("untracked.txt", "mine\n");
    repo.git(["add", "-N", "announced.txt"]).ok();
    repo.git(["update-index", "--skip-worktree", "tool.sh"]).ok();
}

/// Commits the tracker, which stays as an empty file when its last line goes.
fn commit_tracker(repo: &Repo) {
    repo.write("specs/processed-spec.md", "");
    repo.commit_all("tracker");
}

/// The commit that a ref names.
fn commit(repo: &Repo, name: &str) -> String {
    repo.says(["rev-parse", "--verify", &format!("{name}^{{commit}}")])
}
