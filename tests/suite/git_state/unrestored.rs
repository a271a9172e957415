//! Where git's state cannot be restored: that is said, and the run is settled all the same.

use std::os::unix::fs::symlink;

use super::{COMMIT, commit, repo, script, view};
use crate::harness::git_in_front::git_path;
use crate::harness::{CommandOutput, run_command, temp_dir};
use crate::publish::Repo;
use crate::publish::pushing::Remote;

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
    // Nothing is built on the commit of the reverted run, and the next command that finds git takes it back.
    repo.routine("develop", "echo fine >fine.txt").spec("02-b", "# B\n");
    without_git(&repo, &["process", "--spec", "02-*"]).fails(4).mentions(&["git is not on the PATH", &id]);
    repo.process_with(&["--spec", "02-*"]).ok().mentions(&["git: main is back at"]);
    assert_eq!(commit(&repo, "HEAD"), first);
    repo.publish(&[]).ok();
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
        &script(&format!("echo x >>notes.txt; {COMMIT} : >.git/refs/heads/main.lock; exit 7")),
    );
    let before = view(&repo).index;
    repo.process().fails(4).mentions(&["git's own state is not restored", "main.lock"]);
    assert!(!repo.exists(".git/index.lock"));
    assert_ne!(view(&repo).index, before);
    // The same for a guarded command.
    repo.remove(".git/refs/heads/main.lock");
    let line = script(&format!("echo y >>notes.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.decree(["guard", "--", "bash", "-c", &line]).fails(4).mentions(&["index.lock exists"]);
}

/// GIT-26. The next spec does not run on top of the failed commit, and the next command finishes the restore.
#[test]
fn a_batch_stops_at_a_lock_and_the_next_command_takes_the_commit_back() {
    let repo = repo(&format!(
        "echo $spec_file >>list.txt; {COMMIT} case $spec_file in *01-*) : >.git/index.lock; exit 7 ;; esac"
    ));
    repo.spec("02-b", "# B\n");
    repo.commit_all("second spec");
    let (first, before) = (commit(&repo, "HEAD"), view(&repo));
    repo.process().fails(4).mentions(&["index.lock exists", "git's own state"]);
    let id = repo.only_run();
    let failed = commit(&repo, "HEAD");
    assert_ne!(failed, first);
    assert_eq!(repo.summary()["messages"][1]["verdict"], "skipped");
    for args in [&["process"][..], &["run", "-p", "x"], &["guard", "--", "true"], &["publish"]] {
        repo.decree(args).fails(4).mentions(&["index.lock exists", &id, "remove that file"]);
    }
    assert_eq!(commit(&repo, "HEAD"), failed);
    repo.decree(["status"]).ok();
    repo.remove(".git/index.lock");
    repo.decree(["recover"]).ok().mentions(&["git: main is back at", &first[..10]]);
    assert_eq!(view(&repo), before);
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), failed);
    repo.process_with(&["--spec", "02-*"]).ok();
    assert_eq!(repo.subjects(), ["second spec", "by the routine"]);
    assert_eq!(repo.blob("HEAD", "list.txt"), b"specs/02-b.spec.md\n");
}

/// GIT-26. What is restored later is not reported as left, and what is left is not reported as restored.
#[test]
fn a_restore_that_is_finished_later_says_of_each_ref_what_became_of_it() {
    let repo = repo(&format!(
        "echo work >>list.txt; {COMMIT} git tag -d t >/dev/null; git stash clear; git tag made\n\
         : >.git/index.lock; exit 7"
    ));
    repo.git(["tag", "t"]).ok();
    repo.write("notes.txt", "stashed\n");
    repo.git(["stash", "-q"]).ok();
    let before = view(&repo);
    repo.process().fails(4).mentions(&["index.lock exists"]);
    repo.remove(".git/index.lock");
    repo.git(["tag", "-d", "made"]).ok();
    repo.git(["tag", "mine"]).ok();
    let output = repo.decree(["recover"]).ok();
    let said = |word: &str| output.err.lines().filter(|line| line.contains(word)).collect::<Vec<_>>();
    assert_eq!(said("refs/tags/t").len(), 1, "{}", output.err);
    assert_eq!(said("refs/tags/t"), said("deleted meanwhile, and restored: "));
    assert_eq!(said("the stash list"), said("deleted meanwhile, and restored: "));
    assert_eq!(said("refs/tags/mine"), said("left as they are: "));
    assert!(said("refs/tags/made").is_empty(), "{}", output.err);
    repo.git(["tag", "-d", "mine"]).ok();
    assert_eq!(view(&repo), before);
}

/// GIT-26. Nor does the last attempt of the same run.
#[test]
fn a_clean_slate_that_git_does_not_have_is_not_used() {
    let repo = repo(&format!("echo $DECREE_ATTEMPT >>list.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.config("max_retries: 1\n");
    let (first, tree) = (commit(&repo, "HEAD"), repo.snapshot());
    repo.process().fails(4).mentions(&["index.lock exists"]);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    assert_eq!(commit(&repo, "HEAD~1"), first, "one attempt");
    repo.remove(".git/index.lock");
    repo.routine("develop", "echo fine >>list.txt");
    repo.process().ok().mentions(&["git: main is back at"]);
    assert_eq!(commit(&repo, "HEAD"), first);
}

/// GIT-26. What a person has done meanwhile is not touched.
#[test]
fn a_state_that_moved_on_is_left_alone() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.process().fails(4);
    repo.remove(".git/index.lock");
    let failed = commit(&repo, "HEAD");
    repo.git(["commit", "-q", "--allow-empty", "-m", "mine"]).ok();
    let mine = commit(&repo, "HEAD");
    repo.routine("develop", "echo fine >fine.txt");
    repo.process().ok().mentions(&["moved after", "left alone"]);
    assert_eq!(commit(&repo, "HEAD"), mine);
    repo.publish(&[]).fails(1).mentions(&[&failed, "reverted"]);
}

/// GIT-27.
#[test]
fn the_commit_of_a_failed_guard_is_not_published() {
    let repo = repo("echo fine >fine.txt");
    let remote = Remote::of(&repo);
    let (first, pushed) = (commit(&repo, "HEAD"), remote.tip("main"));
    repo.process().ok();
    let line = script(&format!("echo work >>notes.txt; {COMMIT} : >.git/index.lock; exit 7"));
    repo.decree(["guard", "--", "bash", "-c", &line]).fails(4).mentions(&["index.lock exists"]);
    let failed = commit(&repo, "HEAD");
    repo.publish(&["--push"]).fails(4).mentions(&["index.lock exists"]);
    assert_eq!((remote.tip("main"), commit(&repo, "HEAD")), (pushed.clone(), failed.clone()));
    repo.remove(".git/index.lock");
    repo.publish(&["--push"]).ok().mentions(&["git: main is back at", &first[..10]]);
    assert_eq!(repo.subjects(), ["01-a: A"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    // A person may bring it back; decree does not publish it.
    repo.git(["merge", "-q", "--no-ff", "-m", "merged", &failed]).ok();
    repo.publish(&["--push"]).fails(1).mentions(&[&failed, "guarded command", "nothing was done"]);
}
