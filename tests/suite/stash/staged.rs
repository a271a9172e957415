//! The index: compared and restored.

use std::fs;

use decree::git::stash::Stash;
use serde_json::json;

use super::Repo;

fn staged_since(repo: &Repo, stash: &Stash) -> Vec<String> {
    let paths: Vec<Vec<u8>> =
        serde_json::from_value(repo.operate("staged_since", json!({ "stash": stash })).unwrap()).unwrap();
    paths.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
}

fn entries(repo: &Repo) -> String {
    repo.says(["ls-files", "--stage", "-v"])
}

#[test]
fn the_index_comes_back_and_the_work_tree_stays() {
    let repo = Repo::new();
    repo.write("a", "staged\n").write("new", "new\n").write("e", "e\n");
    repo.git(["add", "a", "new"]).ok();
    repo.git(["rm", "-q", "--cached", "b"]).ok();
    let (before, stash) = (entries(&repo), repo.stash());
    assert_eq!(staged_since(&repo, &stash), Vec::<String>::new());
    repo.git(["reset", "-q"]).ok();
    repo.write("d/x", "later\n").write("a", "later\n");
    repo.git(["add", "d/x", "e"]).ok();
    repo.git(["mv", "d/y", "moved"]).ok();
    assert_eq!(staged_since(&repo, &stash), ["a", "b", "d/x", "d/y", "e", "moved", "new"]);
    let tree = repo.snapshot();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(entries(&repo), before);
    assert_eq!(staged_since(&repo, &stash), Vec::<String>::new());
    crate::harness::assert_same(&repo.snapshot(), &tree);
    repo.git(["fsck", "--strict", "--no-dangling"]).ok();
}

#[test]
fn an_index_that_is_right_is_not_even_written() {
    let repo = Repo::new();
    repo.write("a", "staged\n").write("meant", "m\n");
    repo.git(["add", "a"]).ok();
    repo.git(["add", "-N", "meant"]).ok();
    let stash = repo.stash();
    let untouched = repo.untouched();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(repo.untouched(), untouched);
}

#[test]
fn only_what_is_covered_comes_back() {
    let repo = Repo::new();
    repo.write("a", "staged\n").write("d/x", "staged\n");
    repo.git(["add", "-A"]).ok();
    let stash = repo.stash();
    repo.write("a", "later\n").write("d/x", "later\n").write("d/n", "n\n");
    repo.git(["add", "-A"]).ok();
    repo.operate("restore_index", json!({ "stash": stash, "scope": ["d/"] })).unwrap();
    assert_eq!(repo.says(["show", ":a"]), "later");
    assert_eq!(repo.says(["show", ":d/x"]), "staged");
    assert!(!entries(&repo).contains("d/n"));
}

#[test]
fn what_is_the_same_keeps_what_git_knows_of_it() {
    let repo = Repo::new();
    repo.write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    let stash = repo.stash();
    let known = || {
        let text = repo.says(["ls-files", "--debug", "b", "d"]);
        text.lines().filter(|line| !line.contains("flags")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = known();
    repo.git(["reset", "-q", "a"]).ok();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(known(), before);
    // And what came back was looked at: nothing is left for `git status` to read.
    assert_eq!(repo.says(["diff-files", "--name-only"]), "");
}

#[test]
fn flags_and_intentions_come_back() {
    let repo = Repo::new();
    repo.write("meant", "m\n").write("meant too", "m\n").write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    repo.git(["add", "-N", "meant", "meant too"]).ok();
    repo.git(["update-index", "--skip-worktree", "a"]).ok();
    repo.git(["update-index", "--assume-unchanged", "b"]).ok();
    let (before, status, stash) = (entries(&repo), repo.status(), repo.stash());
    repo.git(["add", "meant"]).ok();
    repo.git(["rm", "-q", "--cached", "meant too"]).ok();
    for name in ["a", "b"] {
        let blob = repo.says(["hash-object", "-w", name]);
        let other = repo.says(["rev-parse", "HEAD:d/x"]);
        assert_ne!(blob, other);
        repo.git(["update-index", "--cacheinfo", &format!("100644,{other},{name}")]).ok();
    }
    repo.git(["update-index", "--skip-worktree", "a"]).ok();
    repo.git(["update-index", "--assume-unchanged", "b"]).ok();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(entries(&repo), before);
    assert_eq!(repo.status(), status);
}

#[test]
fn conflicts_go_when_the_index_comes_back() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "-b", "side"]).ok();
    repo.write("a", "side\n");
    repo.commit_all("side");
    repo.git(["checkout", "-q", "main"]).ok();
    repo.write("a", "main\n");
    repo.commit_all("main");
    let (before, stash) = (entries(&repo), repo.stash());
    assert_ne!(repo.git(["merge", "-q", "side"]).code, 0);
    assert_eq!(staged_since(&repo, &stash), ["a"]);
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(entries(&repo), before);
}

#[test]
fn a_file_and_a_directory_in_each_others_place() {
    let repo = Repo::new();
    repo.remove("a").write("a/in", "i\n").remove("d").write("d", "d\n");
    repo.git(["add", "-A"]).ok();
    let (before, stash) = (entries(&repo), repo.stash());
    repo.git(["reset", "-q"]).ok();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert_eq!(entries(&repo), before);
}

#[test]
fn the_lock_of_another_git_is_respected() {
    let repo = Repo::new();
    repo.write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    let stash = repo.stash();
    repo.git(["reset", "-q"]).ok();
    let index = fs::read(repo.path(".git/index")).unwrap();
    repo.write(".git/index.lock", "theirs");
    let (mut child, file) = repo.start("restore_index", json!({ "stash": stash }));
    child.wait().unwrap();
    let output = fs::read_to_string(file.with_extension("answer")).unwrap();
    assert!(output.contains("another git process is working here"), "{output}");
    assert_eq!(repo.read(".git/index.lock"), b"theirs");
    assert_eq!(fs::read(repo.path(".git/index")).unwrap(), index);
    // An entry can be made all the same.
    let (mut child, file) = repo.start("create", json!({ "message": "x" }));
    child.wait().unwrap();
    assert!(fs::read_to_string(file.with_extension("answer")).unwrap().contains("\"ok\""));
}
