//! What a routine does inside of `.git`: settings, hooks, reflogs, objects, and everything at once.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};

use rustix::process::Signal;

use super::interrupted::cut_off;
use super::{COMMIT, add_nested_and_submodule, commit, make_busy, repo, script, view};
use crate::harness::{TreeSnapshot, assert_same, skip, snapshot};
use crate::publish::{Repo, git_in};
use crate::revert::{as_nobody, hand_over};

/// Everything in `.git` but the objects, which may be there twice.
fn inside(repo: &Repo) -> TreeSnapshot {
    let mut files = snapshot(&repo.path(".git"));
    files.retain(|name, _| !String::from_utf8_lossy(name).contains("objects"));
    files
}

/// A repository with settings, a hook, two branches and packed refs.
fn furnished(text: &str) -> Repo {
    let repo = repo(text);
    repo.git(["branch", "other"]).ok();
    repo.git(["pack-refs", "--all"]).ok();
    repo.write("second.txt", "second\n");
    repo.commit_all("second");
    repo.git(["branch", "loose"]).ok();
    repo.git(["config", "user.nickname", "mine"]).ok();
    let hook = repo.path(".git/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    make_busy(&repo);
    repo
}

const WRECKS: [&str; 18] = [
    "rm -rf .git/*",
    "rm -rf .git",
    "rm -rf .git; git init -q .",
    "rm -rf .git/objects",
    "rm -rf .git/objects/??",
    "rm .git/HEAD",
    "echo nothing >.git/HEAD",
    "echo nothing >.git/refs/heads/main",
    ": >.git/refs/heads/loose",
    "rm .git/config",
    "rm -rf .git/refs .git/packed-refs",
    "rm -rf .git/logs",
    "rm -rf .git/hooks",
    "rm .git/hooks/pre-push; git config user.nickname other",
    "echo exit 1 >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo '*.md' >.git/info/exclude",
    "chmod 600 .git/hooks/pre-push; chmod 700 .git/refs",
    "chmod 000 .git",
    "git reset -q --hard; git reflog expire --expire=now --all; git gc -q --prune=now",
];

/// GIT-22, GIT-23.
#[test]
fn a_failed_run_leaves_the_inside_of_git_as_it_was() {
    for wreck in WRECKS {
        let repo = furnished(&format!("{wreck}; echo x >>docs/guide.md; exit 7"));
        let (before, tree, files) = (view(&repo), repo.snapshot(), inside(&repo));
        let mode = repo.path(".git").metadata().unwrap().permissions().mode();
        let output = repo.process().fails(1);
        assert_eq!(repo.path(".git").metadata().unwrap().permissions().mode(), mode, "{wreck}");
        assert_eq!(view(&repo), before, "{wreck}\n{}", output.err);
        assert_same(&repo.snapshot(), &tree);
        if !wreck.contains("gc") {
            assert_same(&inside(&repo), &files);
        }
        assert_eq!(repo.blob("", "notes.txt"), b"staged\n", "{wreck}");
        output.mentions(&["changed or deleted, and restored: "]);
        repo.git(["fsck", "--strict", "--no-dangling"]).ok();
        assert!(!repo.exists(".decree/git-objects"), "{wreck}");
    }
}

/// GIT-22. New hooks are set aside, not deleted.
#[test]
fn what_a_failed_run_wrote_among_the_settings_is_set_aside() {
    let repo = furnished("echo evil >.git/hooks/pre-commit; git config core.pager evil; exit 7");
    repo.process().fails(1).mentions(&[".git/config", ".git/hooks/pre-commit"]);
    let place = format!("set-aside/.git/{}", "hooks/pre-commit");
    assert_eq!(repo.of_run(&repo.only_run(), &place), "evil\n");
    assert!(repo.of_run(&repo.only_run(), "set-aside/.git/config").contains("evil"));
}

/// GIT-24.
#[test]
fn a_run_that_broke_the_repository_is_not_kept() {
    for (wreck, why) in [
        ("rm -rf .git/*", ".git lost its HEAD, config, objects, refs"),
        ("rm -rf .git/objects/??", ".git lost objects that it needs"),
        ("rm .git/config", ".git lost its config"),
    ] {
        let repo = furnished(&format!("{wreck}; echo x >>docs/guide.md"));
        let (before, tree, files) = (view(&repo), repo.snapshot(), inside(&repo));
        repo.process().fails(1);
        let result = repo.result(&repo.only_run());
        assert_eq!(result["status"], "policy");
        assert!(result["reason"].as_str().unwrap().contains(why), "{result}");
        let output = repo.decree(["guard", "--", "bash", "-c", &format!("{wreck}; echo x >>docs/guide.md")]);
        output.fails(1).mentions(&[why, "rolled back", "changed or deleted, and restored: "]);
        assert_eq!(view(&repo), before, "{wreck}");
        assert_same(&repo.snapshot(), &tree);
        assert_same(&inside(&repo), &files);
        repo.git(["fsck", "--strict", "--no-dangling"]).ok();
        assert!(!repo.exists(".decree/git-objects"), "{wreck}");
    }
}

/// GIT-24. What is not needed may go: that is named, and stays so. What git packs is not gone.
#[test]
fn a_kept_run_may_delete_hooks_and_pack_the_repository() {
    let repo = furnished("rm -rf .git/hooks .git/logs; git gc -q --prune=now; echo x >>docs/guide.md");
    repo.process().ok().mentions(&["gone from git's directory", ".git/hooks/pre-push", ".git/logs"]);
    assert!(!repo.exists(".git/hooks/pre-push"));
    assert!(!repo.exists(".decree/git-objects"));
    repo.git(["fsck", "--strict", "--no-dangling"]).ok();
}

/// GIT-23, GIT-25. Rewritten history, with everything that leads back to the old one removed.
#[test]
fn a_history_that_a_failed_run_rewrote_and_pruned_comes_back() {
    let wreck = format!(
        "git checkout -q --orphan fresh; {COMMIT} git branch -q -D main other; git stash clear\n\
         git reflog expire --expire=now --all; git gc -q --prune=now; exit 7"
    );
    let repo = repo("");
    repo.git(["branch", "other"]).ok();
    repo.routine("develop", &script(&wreck));
    repo.write("second.txt", "second\n");
    repo.commit_all("second");
    repo.write("docs/guide.md", "stashed\n");
    repo.git(["stash", "-q"]).ok();
    make_busy(&repo);
    let (before, tree) = (view(&repo), repo.snapshot());
    let stash = repo.says(["stash", "list"]);
    repo.process().fails(1);
    let without_new = |refs: &str| -> Vec<String> {
        refs.lines().filter(|line| !line.ends_with("/fresh")).map(str::to_owned).collect()
    };
    let after = view(&repo);
    assert_eq!(without_new(&after.refs), without_new(&before.refs));
    assert_eq!((after.head, after.index, after.staged), (before.head, before.index, before.staged));
    assert_eq!(repo.says(["stash", "list"]), stash);
    assert_eq!(repo.blob("stash@{0}", "docs/guide.md"), b"stashed\n");
    assert_same(&repo.snapshot(), &tree);
    repo.git(["fsck", "--strict", "--no-dangling"]).ok();
}

/// GIT-22. The repositories of submodules are in `.git`, too; nested ones are beside it.
#[test]
fn submodules_and_nested_repositories_come_back() {
    for wreck in ["rm -rf .git/modules", "rm -rf nested/.git/*", "rm -rf lib/.git", "rm -rf nested/.git"] {
        let repo = repo(&format!("{wreck}; exit 7"));
        add_nested_and_submodule(&repo);
        let (tree, files) = (repo.snapshot(), inside(&repo));
        let head = |dir: &str| git_in(&repo.path(dir), ["rev-parse", "HEAD"]).ok().text();
        let before = (head("nested"), head("lib"));
        let output = repo.process().fails(1);
        assert_same(&repo.snapshot(), &tree);
        assert_same(&inside(&repo), &files);
        assert_eq!((head("nested"), head("lib")), before, "{wreck}\n{}", output.err);
        assert!(!output.err.contains("renamed"), "{}", output.err);
        git_in(&repo.path("nested"), ["fsck", "--strict"]).ok();
        git_in(&repo.path("lib"), ["fsck", "--strict"]).ok();
    }
}

/// GIT-23. After `kill -9`, too.
#[test]
fn objects_that_a_killed_run_pruned_come_back() {
    let repo = repo(
        "git reset -q --hard; git reflog expire --expire=now --all; git gc -q --prune=now; touch .decree/ready; sleep 60",
    );
    make_busy(&repo);
    let before = view(&repo);
    cut_off(&repo, Signal::KILL);
    assert!(repo.exists(".decree/git-objects"));
    repo.decree(["revert", &repo.only_run()]).ok();
    assert_eq!(view(&repo), before);
    assert_eq!(repo.blob("", "notes.txt"), b"staged\n");
    assert!(!repo.exists(".decree/git-objects"));
    repo.git(["fsck", "--strict", "--no-dangling"]).ok();
    assert_eq!(commit(&repo, "HEAD"), commit(&repo, "main"));
}

/// GIT-28. After `kill -9`, a renamed `.git` is found by its inode.
#[test]
fn a_git_directory_that_a_killed_run_renamed_is_moved_back() {
    for place in [".git.bak", "docs/old"] {
        let repo = repo(&format!("mv .git {place}; touch .decree/ready; sleep 60"));
        make_busy(&repo);
        let (before, tree) = (view(&repo), repo.snapshot());
        cut_off(&repo, Signal::KILL);
        repo.decree(["revert", &repo.only_run()])
            .ok()
            .mentions(&[".git had been renamed, and is moved back"]);
        assert_eq!(view(&repo), before);
        assert_same(&repo.snapshot(), &tree);
    }
}

/// GIT-28. What is left of a repository that is gone is kept.
#[test]
fn the_objects_of_a_repository_that_a_killed_run_deleted_are_kept() {
    let repo = repo("rm -rf .git; touch .decree/ready; sleep 60");
    let (first, blob) = (commit(&repo, "HEAD"), repo.says(["rev-parse", "HEAD:notes.txt"]));
    cut_off(&repo, Signal::KILL);
    let output = repo.decree(["process"]).fails(4);
    output.mentions(&["kept in .decree/git-objects-2", "NOT restored: .git"]);
    assert!(!repo.exists(".git"));
    for hash in [first, blob] {
        assert!(repo.exists(format!(".decree/git-objects-2/0/{}/{}", &hash[..2], &hash[2..])));
    }
}

/// GIT-22. What a repository needs besides its objects: the ends of a shallow history, the place of other objects.
#[test]
fn the_lists_that_a_repository_needs_come_back() {
    for (file, wreck) in [("shallow", "rm"), ("shallow", ": >"), ("objects/info/alternates", ": >")] {
        for (end, words) in [("exit 7", ".git"), ("exit 0", "lost objects that it needs")] {
            let repo = repo(&format!("{wreck} .git/{file}; echo x >>docs/guide.md; {end}"));
            repo.write("second.txt", "second\n");
            repo.commit_all("second");
            let elsewhere = crate::harness::temp_dir();
            if file == "shallow" {
                fs::write(repo.path(".git/shallow"), format!("{}\n", commit(&repo, "HEAD"))).unwrap();
                repo.git(["reflog", "expire", "--expire=now", "--all"]).ok();
                repo.git(["gc", "-q", "--prune=now"]).ok();
            } else {
                let place = elsewhere.path().join("objects");
                fs::rename(repo.path(".git/objects"), &place).unwrap();
                fs::create_dir_all(repo.path(".git/objects/info")).unwrap();
                fs::create_dir_all(repo.path(".git/objects/pack")).unwrap();
                fs::write(repo.path(".git").join(file), format!("{}\n", place.display())).unwrap();
            }
            let (before, list) = (view(&repo), fs::read(repo.path(".git").join(file)).unwrap());
            repo.process().fails(1).mentions(&[words]);
            assert_eq!(fs::read(repo.path(".git").join(file)).unwrap(), list, "{file}, {wreck}, {end}");
            assert_eq!(view(&repo), before);
            repo.git(["log", "--oneline"]).ok();
        }
    }
}

/// GIT-22, GIT-27. Files of a routine where decree keeps what it needs to restore git's state.
#[test]
fn what_a_routine_puts_in_the_place_of_the_held_state_of_git_does_no_harm() {
    let plant = "rm -rf .decree/git-objects; echo j >.decree/git-objects; echo '{' >.decree/git-pending.json";
    let repo = furnished(&format!("{plant}; echo x >>docs/guide.md"));
    repo.process().ok();
    assert!(!repo.exists(".decree/git-pending.json"));
    fs::write(repo.path(".decree/git-pending.json"), "{").unwrap();
    repo.process().fails(4).mentions(&["git-pending.json", "decree recover --keep"]);
    repo.decree(["recover", "--keep"]).ok().mentions(&["git's own state stays as it is"]);
    repo.process().ok();
    fs::write(repo.path(".decree/git-objects"), "j\n").unwrap();
    let before = view(&repo);
    repo.decree(["guard", "--", "sh", "-c", "rm -rf .git; exit 3"]).fails(3);
    assert_eq!(view(&repo), before);
}

/// GIT-45. An ordinary user may not link objects of another one.
#[test]
fn objects_of_another_user_are_named_before_and_the_others_are_held() {
    if !skip::as_root() {
        return;
    }
    if fs::read_to_string("/proc/sys/fs/protected_hardlinks").unwrap_or_default().trim() != "1" {
        return skip::skip(skip::Lack::Right("the kernel lets users link files of others"));
    }
    let (foreign, own) = ("find .git/objects -user root -type f", "find .git/objects ! -user root -type f");
    for (wreck, mode, code) in [
        ("true".to_owned(), 0o400, 1),
        (format!("rm -f $({own})"), 0o400, 1),
        (format!("rm -f $({foreign})"), 0o400, 4),
        // What can be read is held open.
        (format!("rm -f $({foreign})"), 0o444, 1),
    ] {
        let repo = repo(&format!("{wreck}; exit 7"));
        repo.write("second.txt", "second\n");
        repo.commit_all("second");
        let blob = repo.says(["rev-parse", "HEAD:notes.txt"]);
        hand_over(repo.root());
        let object = repo.path(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
        lchown(&object, Some(0), Some(0)).unwrap();
        fs::set_permissions(&object, fs::Permissions::from_mode(mode)).unwrap();
        let words = "git objects cannot be restored after a failure: 1 of .git/objects (";
        let output = as_nobody(&repo, &["process"]).fails(code);
        assert_eq!(output.err.contains(words), mode == 0o400, "{}", output.err);
        let is_lost = output.err.contains("NOT restored: .git/objects (a repository: 1 objects are gone");
        assert_eq!(is_lost, code == 4, "{}", output.err);
        assert_eq!(object.exists(), code != 4);
        if code != 4 {
            repo.git(["-c", "safe.directory=*", "fsck", "--strict", "--no-dangling"]).ok();
        }
    }
}
