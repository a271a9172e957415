//! A stash entry is created, listed and applied.

use std::fs;

use serde_json::json;

use super::Repo;

#[test]
fn plain_git_restores_the_tree_with_untracked_files_and_the_index() {
    let repo = Repo::new();
    repo.write("a", "staged\n").write("new", "staged too\n");
    repo.git(["add", "a", "new"]).ok();
    repo.write("a", "edited\n").write("b", "edited\n").write("deep/down/untracked", "u\n").remove("d/y");
    let stash = repo.comes_back();
    assert_eq!(repo.says(["stash", "list"]), "stash@{0}: On main: kept");
    assert_eq!(stash.branch.as_deref(), Some("main"));
    assert_eq!(stash.base, repo.says(["rev-parse", "HEAD"]));
    assert_eq!(repo.says(["rev-parse", "stash^2^{tree}"]), stash.index_tree);
    assert_eq!(repo.says(["log", "-1", "--format=%B", "stash"]), "On main: kept");
    let head = repo.says(["log", "-1", "--format=%h %s"]);
    assert_eq!(repo.says(["log", "-1", "--format=%B", "stash^2"]), format!("index on main: {head}"));
    assert_eq!(
        repo.says(["log", "-1", "--format=%B", "stash^3"]),
        format!("untracked files on main: {head}")
    );
    assert_eq!(repo.says(["rev-list", "--count", "stash^3"]), "1");
    assert_eq!(repo.names_in("stash^3"), ["deep/down/untracked"]);
    repo.clear();
    repo.git(["stash", "pop", "-q"]).ok();
    assert_eq!(repo.says(["stash", "list"]), "");
}

#[test]
fn git_makes_the_same_trees_of_the_same_work() {
    let repo = Repo::new();
    repo.write("a", "staged\n").write("n", "new\n");
    repo.git(["add", "a", "n"]).ok();
    repo.git(["mv", "b", "moved"]).ok();
    repo.write("a", "edited\n").remove("d/x").write("u", "untracked\n").link("l", "a").chmod("d/y", 0o755);
    repo.stash();
    let trees = || {
        ["^{tree}", "^2^{tree}", "^3^{tree}"].map(|part| repo.says(["rev-parse", &format!("stash{part}")]))
    };
    let ours = trees();
    repo.git(["stash", "push", "-q", "-u"]).ok();
    assert_eq!(trees(), ours);
}

#[test]
fn an_entry_of_a_clean_tree_is_made_and_applying_it_does_no_harm() {
    let repo = Repo::new();
    let stash = repo.comes_back();
    assert_eq!(repo.says(["rev-list", "--parents", "-n1", "stash"]).split(' ').count(), 3);
    repo.write("a", "since\n");
    repo.git(["stash", "apply", "-q", &stash.commit]).ok();
    assert_eq!(repo.read("a"), b"since\n");
}

#[test]
fn a_detached_head_has_no_branch() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "--detach"]).ok();
    repo.write("a", "edited\n");
    let stash = repo.comes_back();
    assert_eq!(stash.branch, None);
    assert_eq!(repo.says(["stash", "list"]), "stash@{0}: On (no branch): kept");
}

#[test]
fn no_git_identity_is_needed() {
    let mut repo = Repo::new();
    repo.variables = vec![("EMAIL", "")];
    repo.git(["config", "user.useConfigOnly", "true"]).ok();
    repo.write("a", "edited\n");
    repo.stash();
    assert_eq!(
        repo.says(["log", "-1", "--format=%an <%ae> %cn <%ce>", "stash"]),
        "decree <decree@stash> decree <decree@stash>"
    );
    repo.variables = vec![("GIT_AUTHOR_NAME", "Some One"), ("GIT_AUTHOR_EMAIL", "one@example.com")];
    repo.stash();
    assert_eq!(repo.says(["log", "-1", "--format=%an %cn", "stash"]), "Some One decree");
}

#[test]
fn a_message_is_one_plain_line() {
    let repo = Repo::new();
    repo.stash_with(json!({ "message": "-m two\nlines \u{1b}[31mred\u{7}" }));
    assert_eq!(repo.says(["stash", "list"]), "stash@{0}: On main: -m two lines red");
}

#[test]
fn no_hook_runs_and_no_monitor() {
    let repo = Repo::new();
    for hook in ["reference-transaction", "post-index-change", "pre-commit", "post-checkout"] {
        repo.write(format!(".git/hooks/{hook}"), "#!/bin/sh\ntouch \"$(git rev-parse --git-dir)/ran\"\n");
        repo.chmod(format!(".git/hooks/{hook}"), 0o755);
    }
    repo.write("a", "edited\n").write("u", "u\n");
    let stash = repo.operate("create", json!({ "message": "x" })).unwrap();
    repo.git(["rm", "-q", "--cached", "b"]).ok();
    let _ = fs::remove_file(repo.path(".git/ran"));
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    repo.operate("drop", json!({ "stash": stash })).unwrap();
    assert!(!repo.exists(".git/ran"));
}

#[test]
fn a_project_below_the_top_stashes_only_what_is_its_own() {
    let repo = Repo::empty(&["init", "-q", "-b", "main"], "one/two");
    repo.write("one/two/a", "a\n").write("one/outside", "o\n").write("one/staged", "s\n");
    repo.commit_all("first");
    repo.write("one/two/a", "edited\n").write("one/two/new", "n\n").write("one/two/gone", "g\n");
    repo.write("one/outside", "theirs\n").write("one/staged", "theirs\n").write("one/new", "theirs\n");
    repo.git(["add", "one/staged", "one/two/gone"]).ok();
    repo.stash();
    let w = repo.files("stash");
    assert_eq!(
        (w["one/two/a"].as_str(), w["one/outside"].as_str(), w["one/staged"].as_str()),
        ("edited", "o", "s")
    );
    assert_eq!(repo.files("stash^2")["one/staged"], "s");
    assert_eq!(repo.names_in("stash^3"), ["one/two/new"]);
    assert!(repo.names_in("stash^2").contains(&"one/two/gone".to_owned()));
    // With a scope of its own, in the project's words.
    repo.stash_with(json!({ "scope": ["new"] }));
    assert_eq!(repo.files("stash")["one/two/a"], "a");
    assert_eq!(repo.names_in("stash^3"), ["one/two/new"]);
}

#[test]
fn what_is_out_of_scope_or_left_out_is_as_the_commit_has_it() {
    let repo = Repo::new();
    repo.write(".env", "old\n").write("d/.env", "old\n");
    repo.commit_all("with secrets");
    for name in ["a", "b", ".env", "d/x", "d/.env"] {
        repo.write(name, "staged\n");
    }
    repo.write(".env.new", "staged\n");
    repo.git(["add", "-A"]).ok();
    for name in ["a", "b", ".env", "d/x", "d/.env", ".env.new", "d/u", ".env.untracked", "u"] {
        repo.write(name, "edited\n");
    }
    repo.stash_with(json!({ "scope": ["d/", ".env", "b"], "left_out": [".env", "d/.env"] }));
    let tracked = ["d/x", "b", "a", ".env", "d/.env"];
    let content = |commit: &str| tracked.map(|name| repo.files(commit)[name].clone());
    assert_eq!(content("stash"), ["edited", "edited", "a", "old", "old"]);
    assert_eq!(content("stash^2"), ["staged", "staged", "a", "old", "old"]);
    assert!(!repo.files("stash").contains_key(".env.new") && !repo.files("stash^2").contains_key(".env.new"));
    assert_eq!(repo.names_in("stash^3"), ["d/u"]);
}

#[test]
fn a_merge_without_conflicts_may_be_under_way() {
    let repo = Repo::new();
    repo.git(["checkout", "-q", "-b", "side"]).ok();
    repo.write("s", "side\n");
    repo.commit_all("side");
    repo.git(["checkout", "-q", "main"]).ok();
    repo.git(["merge", "-q", "--no-ff", "--no-commit", "side"]).ok();
    repo.write("a", "edited\n");
    repo.stash();
    assert!(repo.exists(".git/MERGE_HEAD"));
    assert_eq!(repo.names_in("stash^2"), ["a", "b", "d/x", "d/y", "s"]);
}

#[test]
fn killed_at_any_moment_it_leaves_the_index_alone() {
    let repo = Repo::new();
    repo.write("a", "edited\n").write("u", "u\n");
    let untouched = repo.untouched();
    for delay in [5, 20, 40, 60, 80, 100, 130, 160, 200] {
        let (mut child, _) = repo.start("create", json!({ "message": "x" }));
        std::thread::sleep(std::time::Duration::from_millis(delay));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let is_in_it = |process: fs::DirEntry| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(repo.root()))
    };
    crate::harness::wait_until("the end of what was started", || {
        !fs::read_dir("/proc").unwrap().flatten().any(is_in_it)
    });
    assert_eq!(repo.untouched(), untouched);
    assert!(!repo.exists(".git/index.lock"));
    fs::remove_dir_all(repo.path(".decree/tmp")).ok();
    repo.comes_back();
}

#[test]
fn two_at_once_both_get_their_entry() {
    let repo = Repo::new();
    repo.write("a", "edited\n").write("u", "u\n");
    let started: Vec<_> =
        (0..4).map(|n| repo.start("create", json!({ "message": format!("n{n}") }))).collect();
    for (mut child, file) in started {
        assert!(child.wait().unwrap().success());
        let output = fs::read_to_string(file.with_extension("answer")).unwrap();
        assert!(output.starts_with("{\"ok\""), "{output}");
    }
    assert_eq!(repo.says(["stash", "list"]).lines().count(), 4);
}
