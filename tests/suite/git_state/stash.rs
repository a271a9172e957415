//! Stash entries that a failed run made, beside those of the user.

use super::{repo, script};
use crate::publish::Repo;

const MAKE: &str = "echo failed >>notes.txt; git stash push -q -m FAILED";

/// A repository with two stash entries of the user.
fn with_entries(text: &str) -> Repo {
    let repo = repo(text);
    for text in ["first", "last"] {
        repo.write("notes.txt", text);
        repo.git(["stash", "push", "-q", "-m", text]).ok();
    }
    repo
}

/// The subjects of all entries, `stash@{0}` first.
fn subjects(repo: &Repo) -> Vec<String> {
    repo.says(["stash", "list", "--format=%gs"]).lines().map(str::to_owned).collect()
}

#[track_caller]
fn check_list(repo: &Repo, words: &str) {
    assert_eq!(subjects(repo), ["On main: last", "On main: first", "On main: FAILED"], "{words}");
    assert!(words.contains("stash@{2} (On main: FAILED)"), "{words}");
    assert_eq!(repo.blob("stash@{0}", "notes.txt"), b"last");
    assert_eq!(repo.blob("stash@{1}", "notes.txt"), b"first");
    assert_eq!(repo.blob("stash@{2}", "notes.txt"), b"one\r\ntwo\nfailed\n");
    repo.git(["stash", "drop", "-q", "stash@{2}"]).ok();
    repo.git(["stash", "pop", "-q"]).ok();
    assert_eq!(repo.read("notes.txt"), b"last");
    assert_eq!(subjects(repo), ["On main: first"]);
    repo.is_sound();
}

/// GIT-88.
#[test]
fn the_entries_of_the_user_come_first_and_those_of_a_failed_run_are_named() {
    for drop in ["git stash drop -q;", "git stash clear;", ""] {
        for reftable in [false, true] {
            let repo = with_entries(&format!("{drop} {MAKE}; exit 7"));
            if reftable && repo.git(["refs", "migrate", "--ref-format=reftable"]).code != 0 {
                continue;
            }
            let output = repo.process().fails(1);
            check_list(&repo, &output.err);
            let git = &repo.result(&repo.only_run())["git"][0];
            assert_eq!(git["stash_made"][0], "stash@{2} (On main: FAILED)", "{git}");
        }
        let repo = with_entries("");
        let line = script(&format!("{drop} {MAKE}; exit 7"));
        let output = repo.decree(["guard", "--", "bash", "-c", &line]).fails(7);
        check_list(&repo, &output.err);
    }
}

/// GIT-88. Where the user had none, the entry stays where it is, and is named.
#[test]
fn an_entry_of_a_failed_run_alone_is_named() {
    let repo = repo(&format!("{MAKE}; exit 7"));
    let output = repo.process().fails(1).mentions(&["stash@{0} (On main: FAILED)"]);
    assert_eq!(subjects(&repo), ["On main: FAILED"], "{}", output.err);
}
