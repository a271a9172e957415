//! A revert of a kept run that cannot restore git's own state at once: killed, or held up by a lock.

use std::fs;

use super::{COMMIT, commit, commit_tracker, repo, script, view};
use crate::harness::git_in_front::{FIND_DECREE, GitInFront, git_path};
use crate::harness::{assert_same, run_command};
use crate::publish::Repo;

/// A routine whose run is kept, with a commit and more than one file.
const KEPT: &str = "echo work >>notes.txt; echo new >made.txt;";

/// Reverts a run with a `git` in front of the real one that kills decree at the first command which begins like this.
fn killed_at(repo: &Repo, id: &str, command: &str, after: bool) {
    let before = if after { format!("{} \"$@\";", git_path()) } else { String::new() };
    let kill = format!("{FIND_DECREE}; kill -9 $decree; exit 1");
    let killer = GitInFront::new(&format!("case \" $* \" in *' {command} '*) {before} {kill} ;; esac"));
    let output = run_command(repo.command().env("PATH", killer.search_path()).args(["revert", id]));
    assert_eq!(output.code, -1, "{}", output.err);
}

/// GIT-70. Killed when the files are reverted and recorded, and before or after the branch is moved back.
#[test]
fn after_a_kill_of_a_revert_the_next_command_takes_the_commit_back() {
    for after in [false, true] {
        let repo = repo(&format!("{KEPT} {COMMIT}"));
        commit_tracker(&repo);
        let (before, tree) = (view(&repo), repo.snapshot());
        repo.process().ok();
        let (id, made) = (repo.only_run(), commit(&repo, "HEAD"));
        killed_at(&repo, &id, "update-ref", after);
        assert_same(&repo.snapshot(), &tree);
        assert_ne!(view(&repo), before);
        // The spec runs again on the state before the run that was reverted.
        repo.routine("develop", &script(&format!("echo second >second.txt; {COMMIT}")));
        repo.decree(["guard", "--", "true"]).ok().mentions(&["git: main is back at"]);
        let same = view(&repo);
        assert_eq!((&same.head, &same.refs, &same.index), (&before.head, &before.refs, &before.index));
        assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), made);
        let git = &repo.result(&id)["git"][0];
        assert_eq!((&git["restored"], &git["after"]), (&true.into(), &made.clone().into()));
        assert_eq!(git["commits"], serde_json::json!([made]));
        repo.decree(["guard", "--", "true"]).ok();
        assert!(!repo.exists(".decree/git-pending.json"));
        assert!(!repo.exists(".git/index.lock"));
        repo.process().ok();
        assert!(!repo.says(["ls-tree", "-r", "--name-only", "HEAD"]).contains("made.txt"));
        repo.is_sound();
    }
}

/// GIT-70. Killed before the files are reverted: the run is kept, and so is its commit.
#[test]
fn a_revert_that_never_began_leaves_the_commit_alone() {
    let repo = repo(&format!("{KEPT} {COMMIT}"));
    repo.process().ok();
    let id = repo.only_run();
    let (made, tree) = (view(&repo), repo.snapshot());
    // A revert that is refused because of an edit has noted nothing that the next command would do.
    repo.write("notes.txt", "edited\n");
    repo.decree(["revert", &id]).fails(1);
    repo.write("notes.txt", "one\r\ntwo\nwork\n");
    assert_same(&repo.snapshot(), &tree);
    let output = repo.decree(["guard", "--", "true"]).ok();
    assert!(!output.err.contains("git:"), "{}", output.err);
    assert_eq!((view(&repo).head, view(&repo).refs), (made.head, made.refs));
    assert!(!repo.exists(".decree/git-pending.json"));
}

/// GIT-71.
#[test]
fn a_revert_that_a_lock_holds_up_is_finished_by_the_next_command() {
    let repo = repo(&format!("{KEPT} {COMMIT}"));
    commit_tracker(&repo);
    let (before, tree) = (view(&repo), repo.snapshot());
    repo.process().ok();
    let (id, made) = (repo.only_run(), commit(&repo, "HEAD"));
    fs::write(repo.path(".git/index.lock"), "").unwrap();
    repo.decree(["revert", &id]).fails(4).mentions(&["index.lock exists", "git's own state is not restored"]);
    assert_same(&repo.snapshot(), &tree);
    assert_eq!(commit(&repo, "HEAD"), made);
    for args in [&["process"][..], &["run", "-p", "x"], &["guard", "--", "true"], &["publish"]] {
        repo.decree(args).fails(4).mentions(&["index.lock exists", &id, "remove that file"]);
    }
    repo.decree(["revert", &id]).fails(4).mentions(&["index.lock exists"]);
    assert_eq!(commit(&repo, "HEAD"), made);
    repo.remove(".git/index.lock");
    repo.decree(["guard", "--", "true"]).ok().mentions(&["git: main is back at"]);
    let after = view(&repo);
    assert_eq!((after.head, after.refs, after.index), (before.head, before.refs, before.index));
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), made);
    assert_eq!(repo.result(&id)["git"][0]["restored"], true);
}

/// GIT-71. All commits of a chain, from the last to the first, also if the first try fails.
#[test]
fn a_chain_that_a_lock_holds_up_is_taken_back_as_a_whole() {
    let repo = repo(&format!(
        "echo $seq >>notes.txt; [ $seq = 0 ] && echo more >.decree/inbox/$chain-1.md; {COMMIT} true"
    ));
    commit_tracker(&repo);
    let before = view(&repo);
    repo.process().ok();
    let chain = repo.runs()[0].split('-').next().unwrap().to_owned();
    fs::write(repo.path(".git/index.lock"), "").unwrap();
    repo.decree(["revert", &chain]).fails(4).mentions(&["index.lock exists"]);
    assert_eq!(repo.subjects().len(), 3);
    repo.remove(".git/index.lock");
    repo.decree(["recover"]).ok().mentions(&["git: main is back at"]);
    assert_eq!(view(&repo), before);
    assert!(repo.runs().iter().all(|id| repo.result(id)["git"][0]["restored"] == true));
}
