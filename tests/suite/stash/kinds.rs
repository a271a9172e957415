//! Everything that can be in a work tree and an index.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::Repo;

#[test]
fn names_of_any_bytes() {
    let repo = Repo::new();
    let names: [&[u8]; 8] =
        [b"new\nline", b"quo\"te", b"back\\slash", b"-rf", b"\xff\xfe", b":top", b"*", b"sp ace/ta\tb"];
    for name in names {
        repo.write(name, "old\n");
    }
    repo.commit_all("names");
    for (number, name) in names.into_iter().enumerate() {
        match number % 3 {
            0 => repo.write(name, "new\n"),
            1 => repo.remove(name),
            _ => repo.chmod(name, 0o755),
        };
        repo.write([name, b".u"].concat(), "untracked\n").write([name, b".s"].concat(), "staged\n");
    }
    repo.git(["add", "*.s"]).ok();
    repo.comes_back();
}

#[test]
fn links_modes_and_things_that_take_each_others_place() {
    let repo = Repo::new();
    repo.write("run", "#!\n")
        .write("file", "f\n")
        .write("dir/in/x", "x\n")
        .write("dir/y", "y\n")
        .link("link", "a");
    repo.write("f2l", "f\n")
        .write("linked/x", "x\n")
        .write("f2repo", "f\n")
        .write("staged/x", "x\n")
        .write("was", "w\n");
    repo.commit_all("kinds");
    repo.chmod("run", 0o755)
        .remove("link")
        .link("link", "nowhere/at/all")
        .link("dangling", "\n")
        .link("to-dir", "d");
    // A file becomes a directory, a directory a file, a file a link, a directory a link to one with the same names.
    repo.remove("file").write("file/inner", "i\n");
    repo.remove("dir").write("dir", "d\n");
    repo.remove("f2l").link("f2l", "a");
    repo.write("elsewhere/x", "other\n").remove("linked").link("linked", "elsewhere");
    // The same, staged.
    repo.remove("staged").write("staged", "file now\n").remove("was").write("was/inner", "dir now\n");
    repo.git(["add", "-A", "staged", "was"]).ok();
    repo.comes_back();
}

#[test]
fn a_file_that_is_not_tracked_any_more_but_is_still_there() {
    let repo = Repo::new();
    repo.git(["rm", "-q", "--cached", "a", "b", "d/x", "d/y"]).ok();
    repo.write("b", "edited\n").write(".gitignore", "d/x\n").remove("d/y").write("d/y/z", "z\n");
    let stash = repo.comes_back();
    assert_eq!(repo.names_in(&stash.commit), ["a", "b", "d/x"]);
    assert_eq!(repo.names_in(&format!("{}^3", stash.commit)), [".gitignore", "d/y/z"]);
}

#[test]
fn what_git_ignores_and_decrees_own_data_are_not_in_it() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.log\n/target/\n").write("d/.gitignore", "deep\n!kept.log\n");
    repo.write("x.log", "")
        .write("target/x", "")
        .write("d/deep", "")
        .write("d/kept.log", "kept\n")
        .write("u", "u\n");
    repo.write(".decree/store/pack", "p").write(".decree/routines/r.sh", "r\n");
    repo.stash();
    let expected = [".decree/routines/r.sh", ".gitignore", "d/.gitignore", "d/kept.log", "u"];
    assert_eq!(repo.names_in("stash^3"), expected);
    // And without its `.gitignore`, at least not what this very command makes.
    repo.remove(".decree/.gitignore");
    repo.stash();
    assert!(repo.names_in("stash^3").iter().all(|name| !name.contains("tmp")));
}

#[test]
fn repositories_in_between_are_left_alone() {
    let repo = Repo::new();
    for nested in ["nested", "d/unborn", "replaced"] {
        repo.mkdir(nested);
    }
    repo.remove("replaced").write("replaced", "file\n");
    repo.commit_all("with a file");
    repo.remove("replaced").mkdir("replaced");
    for nested in ["nested", "replaced"] {
        super::git_in(&repo.path(nested), ["init", "-q"]).ok();
        repo.write(format!("{nested}/f"), "f\n");
        super::git_in(&repo.path(nested), ["add", "f"]).ok();
        super::git_in(&repo.path(nested), ["commit", "-q", "-m", "x"]).ok();
    }
    super::git_in(&repo.path("d/unborn"), ["init", "-q"]).ok();
    repo.write("d/unborn/f", "f\n").write("u", "u\n").write("a", "edited\n");
    repo.stash();
    assert_eq!(repo.names_in("stash^3"), ["u"]);
    assert_eq!(repo.names_in("stash"), ["a", "b", "d/x", "d/y"]);
}

#[test]
fn a_submodule_is_kept_with_the_commit_it_is_at() {
    let origin = Repo::new();
    let repo = Repo::new();
    let url = origin.root().to_str().unwrap();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]).ok();
    repo.commit_all("with a submodule");
    repo.write("sub/a", "edited within\n").write("sub/u", "untracked within\n").write("a", "edited\n");
    repo.stash();
    let link = |commit: &str| repo.says(["ls-tree", commit, "sub"]);
    assert_eq!(link("stash"), link("HEAD"));
    // Not `files`: the submodule's commit is no object of this repository, unless both were made in the same second.
    assert_eq!(repo.says(["show", "stash:a"]), "edited");
    super::git_in(&repo.path("sub"), ["commit", "-q", "-a", "-m", "moved on"]).ok();
    repo.stash();
    assert!(link("stash").contains(super::git_in(&repo.path("sub"), ["rev-parse", "HEAD"]).text().trim()));
    assert_eq!(link("stash^2"), link("HEAD"));
    repo.git(["checkout", "-q", "a"]).ok();
    repo.git(["stash", "apply", "-q"]).ok();
    assert_eq!(repo.read("a"), b"edited\n");
}

#[test]
fn what_is_only_meant_to_be_added_is_there_with_its_content() {
    let repo = Repo::new();
    repo.write("meant", "content\n").write("gone", "").write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    repo.git(["add", "-N", "meant", "gone"]).ok();
    repo.remove("gone");
    repo.stash();
    assert!(!repo.names_in("stash^2").contains(&"meant".to_owned()));
    for (args, status) in [
        (&["stash", "apply", "-q"][..], " M a\nA  meant"),
        (&["stash", "apply", "-q", "--index"], "M  a\n?? meant"),
    ] {
        repo.clear();
        repo.git(args).ok();
        assert_eq!(repo.says(["status", "--porcelain"]), status);
        assert_eq!(repo.read("meant"), b"content\n");
        assert!(!repo.exists("gone"));
    }
}

#[test]
fn paths_that_git_is_configured_to_skip_are_not_taken_for_deleted() {
    let repo = Repo::new();
    repo.git(["update-index", "--assume-unchanged", "b"]).ok();
    repo.write("b", "not looked at\n").remove("b");
    repo.git(["update-index", "--skip-worktree", "d/x"]).ok();
    repo.remove("d/x").write("a", "edited\n");
    repo.stash();
    let files = repo.files("stash");
    assert_eq!((files["b"].as_str(), files["d/x"].as_str(), files["a"].as_str()), ("b", "x", "edited"));
}

#[test]
fn a_sparse_checkout_with_a_sparse_index() {
    let repo = Repo::new();
    repo.write("far/off/f", "f\n").write("far/g", "g\n");
    repo.commit_all("more");
    repo.git(["sparse-checkout", "set", "--cone", "--sparse-index", "d"]).ok();
    assert!(!repo.exists("far/g"));
    repo.write("d/x", "edited\n").write("d/u", "u\n");
    let stash = repo.comes_back();
    assert_eq!(repo.files("stash")["far/off/f"], "f");
    repo.git(["rm", "-q", "--cached", "d/x"]).ok();
    repo.operate("restore_index", json!({ "stash": stash })).unwrap();
    assert!(!repo.status().contains("far"), "{}", repo.status());
}

#[test]
fn a_split_index_is_read_and_left_as_it_is() {
    let repo = Repo::new();
    repo.git(["config", "core.splitIndex", "true"]).ok();
    repo.git(["update-index", "--split-index"]).ok();
    repo.write("a", "staged\n");
    repo.git(["add", "a"]).ok();
    assert!(super::names(&repo.path(".git")).iter().any(|name| name.starts_with("sharedindex.")));
    repo.write("b", "edited\n").write("u", "u\n");
    repo.comes_back();
}

#[test]
fn hashes_of_sha_256_and_refs_in_a_table() {
    for init in [
        &["init", "-q", "-b", "main", "--object-format=sha256"][..],
        &["init", "-q", "-b", "main", "--ref-format=reftable"],
    ] {
        let repo = Repo::empty(&["version"], "");
        if repo.git(init).code != 0 {
            continue;
        }
        repo.write("a", "a\n");
        repo.commit_all("first");
        repo.write("a", "edited\n").write("u", "u\n");
        let stash = repo.comes_back();
        repo.operate("check", json!({ "stash": stash })).unwrap();
        assert_eq!(repo.operate("drop", json!({ "stash": stash })).unwrap(), json!(true));
        assert_eq!(repo.says(["stash", "list"]), "");
    }
}

#[test]
fn a_linked_work_tree_has_an_index_of_its_own() {
    let main = Repo::new();
    main.write("a", "edited in the other\n");
    main.git(["add", "a"]).ok();
    let mut repo = Repo::empty(&["version"], "");
    repo.remove(".decree");
    main.git(["worktree", "add", "-q", "-f", repo.root().to_str().unwrap(), "-b", "side"]).ok();
    repo.variables = vec![];
    assert!(repo.path(".git").is_file());
    repo.write("b", "edited here\n").write("u", "u\n");
    let before = main.untouched();
    repo.comes_back();
    assert_eq!(main.untouched(), before);
    assert_eq!(main.says(["stash", "list"]), "stash@{0}: On side: kept");
}

#[test]
fn line_endings_and_filters_are_as_with_git_add() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.txt text=auto\n*.up filter=up\n")
        .write("t.txt", "a\nb\n")
        .write("f.up", "x\n");
    repo.git(["config", "filter.up.clean", "tr a-z A-Z"]).ok();
    repo.git(["config", "core.safecrlf", "true"]).ok();
    repo.git(["config", "core.autocrlf", "input"]).ok();
    repo.commit_all("attributes");
    repo.write("t.txt", "a\r\nc\r\n").write("u.txt", "u\r\n").write("f.up", "shout\n").write("u.up", "new\n");
    repo.stash();
    assert_eq!(repo.git(["show", "stash:t.txt"]).out, b"a\nc\n");
    assert_eq!(repo.git(["show", "stash^3:u.txt"]).out, b"u\n");
    assert_eq!(repo.git(["show", "stash:f.up"]).out, b"SHOUT\n");
    assert_eq!(repo.git(["show", "stash^3:u.up"]).out, b"NEW\n");
}

#[test]
fn an_edit_of_the_same_size_and_time_as_the_index_is_seen() {
    let repo = Repo::new();
    repo.write("a", "1\n");
    repo.git(["add", "a"]).ok();
    repo.git(["commit", "-q", "-m", "one"]).ok();
    // The very moment that the index was written at, a while ago: only by that can git know that it has to look.
    let time = SystemTime::now() - Duration::from_secs(100);
    let age =
        |name: &str| File::options().write(true).open(repo.path(name)).unwrap().set_modified(time).unwrap();
    repo.git(["config", "core.trustctime", "false"]).ok();
    age("a");
    repo.git(["update-index", "--refresh"]).ok();
    age(".git/index");
    fs::write(repo.path("a"), "2\n").unwrap();
    age("a");
    repo.stash();
    assert_eq!(repo.files("stash")["a"], "2");
}

#[test]
fn a_large_file() {
    let repo = Repo::new();
    repo.write("a", vec![7; 40 << 20]).write("u", vec![9; 40 << 20]);
    repo.git(["config", "core.bigFileThreshold", "1m"]).ok();
    let stash = repo.comes_back();
    repo.operate("check", json!({ "stash": stash })).unwrap();
}
