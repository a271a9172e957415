//! Refs and stash entries that were deleted, and how each kind comes back.

use std::process::Command;

use super::{commit, repo, script, view};
use crate::harness::run_command;
use crate::publish::Repo;

/// Makes the repository keep its refs in git's binary format; false if this git has none.
fn to_reftable(repo: &Repo) -> bool {
    repo.git(["refs", "migrate", "--ref-format=reftable"]).code == 0
}

/// A repository with a remote-tracking branch, and the symbolic ref that a clone has for it.
fn with_remote() -> Repo {
    let repo = repo("true");
    let root = repo.root().display().to_string();
    repo.git(["remote", "add", "origin", &root]).ok();
    repo.git(["update-ref", "refs/remotes/origin/main", "HEAD"]).ok();
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]).ok();
    repo
}

/// GIT-72. As `git remote remove` does in every clone.
#[test]
fn a_symbolic_ref_that_was_deleted_is_a_symbolic_ref_again() {
    for reftable in [false, true] {
        let repo = with_remote();
        if reftable && !to_reftable(&repo) {
            continue;
        }
        let refs = || repo.says(["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
        let before = refs();
        assert!(before.contains("refs/remotes/origin/HEAD"), "{before}");
        let line = script("git remote remove origin; exit 7");
        let output = repo.decree(["guard", "--", "bash", "-c", &line]).fails(7);
        assert_eq!(refs(), before, "{}", output.err);
        assert!(!output.err.contains("not restored"), "{}", output.err);
        output.mentions(&["deleted meanwhile, and restored: ", "refs/remotes/origin/HEAD (deleted; it was"]);
        // Nothing has happened, and nothing is said of it.
        let output = repo.decree(["guard", "--", "bash", "-c", "exit 7"]).fails(7);
        assert!(!output.err.contains("git:"), "{}", output.err);
    }
}

/// GIT-84. git allows any byte but a few in a name.
#[test]
fn a_branch_whose_name_is_not_utf8_is_there_again() {
    let repo = repo("true");
    let make = r"git branch $'caf\xe9'; git symbolic-ref $'refs/heads/\xe9' refs/heads/main";
    run_command(Command::new("bash").args(["-c", make]).current_dir(repo.root())).ok();
    let names = || {
        let list = r"git for-each-ref --format='%(refname) %(objectname) %(symref)' | od -c";
        let list = run_command(Command::new("bash").args(["-c", list]).current_dir(repo.root())).ok();
        String::from_utf8(list.out).unwrap()
    };
    let before = names();
    assert!(before.contains("351"), "{before}");
    let delete = script(r"git branch -q -D $'caf\xe9'; git symbolic-ref -d $'refs/heads/\xe9'; exit 7");
    let output = repo.decree(["guard", "--", "bash", "-c", &delete]).fails(7);
    assert_eq!(names(), before, "{}", output.err);
    output.mentions(&["deleted meanwhile, and restored: "]);
}

/// GIT-73. They are the only names of what earlier failed commands committed.
#[test]
fn names_of_decree_that_were_deleted_are_there_again() {
    for format in ["loose", "packed", "reftable"] {
        let repo = repo("true");
        if format == "reftable" && !to_reftable(&repo) {
            continue;
        }
        let work = script("echo x >x.txt; git add -A; git commit -q -m failed; exit 7");
        repo.decree(["guard", "--", "bash", "-c", &work]).fails(7);
        if format == "packed" {
            repo.git(["pack-refs", "--all"]).ok();
        }
        let kept = || repo.says(["for-each-ref", "--format=%(refname) %(objectname)", "refs/decree"]);
        let before = kept();
        let name = before.split(' ').next().unwrap().to_owned();
        assert!(name.starts_with("refs/decree/runs/"), "{before}");
        let line =
            "git for-each-ref --format='delete %(refname)' refs/decree | git update-ref --stdin; exit 7";
        let output = repo.decree(["guard", "--", "bash", "-c", line]).fails(7);
        assert_eq!(kept(), before, "{format}: {}", output.err);
        output.mentions(&["deleted meanwhile, and restored: ", &format!("{name} (deleted; it was")]);
        // A name that decree itself adds is no change of a run.
        repo.decree(["guard", "--", "bash", "-c", &work]).fails(7);
        let output = repo.decree(["guard", "--", "bash", "-c", "exit 7"]).fails(7);
        assert!(!output.err.contains("git:"), "{format}: {}", output.err);
        assert_eq!(kept().lines().count(), 2);
    }
}

/// A repository with a branch, a tag and two stash entries; its routine keeps its work, and deletes what it can of them.
fn deleting() -> Repo {
    let repo = repo(
        "echo work >made.txt; git stash drop -q; git branch -q -D gone; git tag -d t >/dev/null\n\
         git branch -q -f moved HEAD~1",
    );
    repo.write("second.txt", "second\n");
    repo.commit_all("second");
    repo.git(["branch", "gone"]).ok();
    repo.git(["branch", "other"]).ok();
    repo.git(["commit", "-q", "--allow-empty", "-m", "only on moved"]).ok();
    repo.git(["branch", "moved"]).ok();
    repo.git(["reset", "-q", "--hard", "HEAD~1"]).ok();
    repo.git(["tag", "-a", "-m", "one", "t"]).ok();
    for text in ["first", "last"] {
        repo.write("notes.txt", text);
        repo.git(["stash", "push", "-q", "-m", text]).ok();
    }
    repo
}

/// GIT-74.
#[test]
fn what_a_kept_run_deleted_is_there_again_when_it_is_reverted() {
    let repo = deleting();
    let (before, stash, moved) = (view(&repo), repo.says(["stash", "list"]), commit(&repo, "moved"));
    repo.process().ok();
    let id = repo.only_run();
    assert_eq!(repo.says(["stash", "list"]).lines().count(), 1);
    repo.git(["branch", "-q", "-D", "other"]).ok();
    let output = repo.decree(["revert", &id]).ok();
    let refs = |text: &str| -> Vec<String> {
        let is_same = |line: &&str| !line.ends_with("/moved") && !line.ends_with("/other");
        text.lines().filter(is_same).map(str::to_owned).collect()
    };
    assert_eq!(refs(&view(&repo).refs), refs(&before.refs), "{}", output.err);
    assert_eq!(repo.says(["stash", "list"]), stash);
    assert_eq!(repo.blob("stash@{0}", "notes.txt"), b"last");
    assert_eq!(repo.blob("stash@{1}", "notes.txt"), b"first");
    let said = |word: &str| output.err.lines().filter(|line| line.contains(word)).collect::<Vec<_>>();
    let restored = said("deleted meanwhile, and restored: ");
    for name in ["refs/heads/gone", "refs/tags/t", "the stash list"] {
        assert_eq!(said(name), restored, "{name}: {}", output.err);
    }
    // What a person deleted after the run stays deleted, and a branch that was moved stays where it is; its commit has a name.
    assert_eq!(said("refs/heads/other"), said("left as they are: "));
    assert_eq!(said("refs/heads/moved"), said("left as they are: "));
    assert_ne!(repo.git(["rev-parse", "--verify", "-q", "refs/heads/other"]).code, 0);
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), moved);
    output.mentions(&[&format!("refs/decree/runs/{id} ({})", &moved[..10])]);
    repo.is_sound();
}

/// GIT-74. The list is a person's by then, and the entry that is missing has a name.
#[test]
fn a_stash_list_that_was_changed_after_the_run_is_left_and_no_entry_is_lost() {
    let repo = deleting();
    let dropped = commit(&repo, "stash@{0}");
    repo.process().ok();
    let id = repo.only_run();
    repo.write("notes.txt", "a person's");
    repo.git(["stash", "push", "-q", "-m", "mine"]).ok();
    let stash = repo.says(["stash", "list"]);
    let output = repo.decree(["revert", &id]).ok();
    assert_eq!(repo.says(["stash", "list"]), stash);
    let names = repo.says(["for-each-ref", "--format=%(objectname)", "refs/decree/runs"]);
    assert!(names.contains(&dropped), "{names}\n{}", output.err);
    output.mentions(&["left as they are: ", "the stash list", &dropped[..10], "are kept as"]);
    run_command(repo.command().args(["guard", "--", "true"])).ok();
}
