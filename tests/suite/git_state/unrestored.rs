//! Where git's state cannot be restored: that is said, and the run is settled all the same.

use std::os::unix::fs::symlink;

use super::{COMMIT, commit, repo, view};
use crate::harness::{CommandOutput, run_command, temp_dir};
use crate::publish::Repo;

/// Runs decree with a `PATH` that has everything but git.
fn without_git(repo: &Repo, args: &[&str]) -> CommandOutput {
    let programs = temp_dir();
    for dir in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with("git") {
                let _ = symlink(entry.path(), programs.path().join(entry.file_name()));
            }
        }
    }
    let mut command = repo.command();
    run_command(command.env("PATH", programs.path()).args(args))
}

/// The path of git, for a routine that finds it by itself.
fn git_path() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists());
    found.unwrap().display().to_string()
}

/// GIT-08.
#[test]
fn without_git_a_commit_is_reported_as_not_taken_back() {
    let git = git_path();
    let own = COMMIT.replace("git ", &format!("{git} "));
    let repo = repo(&format!("echo work >>notes.txt; {own} exit 7"));
    let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
    let output = without_git(&repo, &["process"]).fails(4);
    output.mentions(&["git's own state is not restored", "git is not on the PATH"]);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    let id = repo.only_run();
    let result = repo.result(&id);
    assert_eq!(result["git"][0]["restored"], false);
    assert!(result["git"][0]["not_restored"][0].as_str().unwrap().contains("PATH"));
    assert_eq!(result["put_back"]["paths"], 1);
    assert!(!repo.exists(".decree/running.json"), "the run is settled");
    assert_ne!(commit(&repo, "HEAD"), first);
    // The commit of the reverted run is still on the branch: it is not published.
    repo.routine("develop", "echo fine >fine.txt").spec("02-b", "# B\n");
    repo.process_with(&["--spec", "02-*"]).ok();
    let failed = commit(&repo, "HEAD");
    repo.publish(&[]).fails(1).mentions(&[&failed, &id, "reverted", "by the routine"]);
    assert_eq!(commit(&repo, "HEAD"), failed);
}

/// GIT-08. Without git nothing is said where nothing happened, and an index alone is restored.
#[test]
fn without_git_an_unchanged_state_is_not_mentioned_and_an_index_is_restored() {
    let git = git_path();
    let repo = repo(&format!("echo work >>notes.txt; {git} add -A; exit 7"));
    let before = view(&repo);
    let output = without_git(&repo, &["process"]).fails(1);
    assert!(!output.err.contains("git"), "{}", output.err);
    assert_eq!(view(&repo), before);
}

/// GIT-08.
#[test]
fn a_lock_of_another_git_is_respected() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} : >.git/index.lock; exit 7"));
    let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
    let output = repo.process().fails(4);
    output.mentions(&["git's own state is not restored", "index.lock exists", "remove that file"]);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    assert!(repo.exists(".git/index.lock"));
    assert!(!repo.exists(".decree/running.json"), "the run is settled");
    assert_ne!(commit(&repo, "HEAD"), first, "HEAD and the index move together or not at all");
    repo.remove(".git/index.lock");
    // A ref that another process has locked.
    repo.routine(
        "develop",
        &super::script(&format!("echo x >>notes.txt; {COMMIT} : >.git/refs/heads/main.lock; exit 7")),
    );
    let before = view(&repo).index;
    repo.process().fails(4).mentions(&["git's own state is not restored", "main.lock"]);
    assert!(!repo.exists(".git/index.lock"));
    assert_ne!(view(&repo).index, before);
    // The same for a guarded command.
    repo.remove(".git/refs/heads/main.lock");
    let line = super::script(&format!("echo y >>notes.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.decree(["guard", "--", "bash", "-c", &line]).fails(4).mentions(&["index.lock exists"]);
}
