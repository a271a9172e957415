//! Repositories in which no stash entry can be created, and the hint in each error.

use std::fs;

use serde_json::json;

use super::{Failure, Repo, git_in};

#[track_caller]
fn says(failure: &Failure, words: &[&str]) {
    for word in words {
        assert!(failure.text.contains(word), "{word:?} is not in {}", failure.text);
    }
}

#[test]
fn before_the_first_commit() {
    let repo = Repo::empty(&["init", "-q"], "");
    repo.write("a", "a\n");
    let failure = repo.refused(json!({ "message": "x" }));
    says(&failure, &["has no commit yet", "git commit", "file_backup"]);
}

#[test]
fn without_a_repository_or_a_work_tree() {
    let mut repo = Repo::empty(&["version"], "");
    repo.variables = vec![("GIT_CEILING_DIRECTORIES", "/dev/shm:/tmp")];
    let (mut child, file) = repo.start("create", json!({ "message": "x" }));
    child.wait().unwrap();
    let text = fs::read_to_string(file.with_extension("answer")).unwrap();
    says(&Failure { text, integrity: false }, &["is not in a git repository", "file_backup"]);
    git_in(repo.root(), ["init", "-q", "--bare", "."]).ok();
    let (mut child, file) = repo.start("create", json!({ "message": "x" }));
    child.wait().unwrap();
    let text = fs::read_to_string(file.with_extension("answer")).unwrap();
    says(&Failure { text, integrity: false }, &["not in a git repository with a work tree", "bare"]);
}

#[test]
fn without_git() {
    let mut repo = Repo::new();
    repo.variables = vec![("PATH", "/nonexistent")];
    let failure = repo.refused(json!({ "message": "x" }));
    says(&failure, &["git is not on the PATH", "install git"]);
}

#[test]
fn with_conflicts() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "-b", "side"]).ok();
    repo.write("a", "side\n");
    repo.commit_all("side");
    repo.git(["checkout", "-q", "main"]).ok();
    repo.write("a", "main\n");
    repo.commit_all("main");
    assert_ne!(repo.git(["merge", "-q", "side"]).code, 0);
    let untouched = repo.untouched();
    let failure = repo.refused(json!({ "message": "x" }));
    says(&failure, &["conflicts", "\"a\"", "resolve them"]);
    assert_eq!(repo.untouched(), untouched);
    // Elsewhere it is possible.
    repo.write("b", "edited\n");
    repo.stash_with(json!({ "scope": ["b"] }));
    assert_eq!(repo.files("stash")["a"], "main");
}

#[test]
fn with_a_filter_that_fails_or_a_file_that_cannot_be_read() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.x filter=x\n").write("u.x", "x\n");
    repo.git(["config", "filter.x.clean", "false"]).ok();
    repo.git(["config", "filter.x.required", "true"]).ok();
    let failure = repo.refused(json!({ "message": "x" }));
    says(&failure, &["no stash entry was created", "u.x"]);
    repo.stash_with(json!({ "left_out": ["u.x"] }));
}
