//! Repositories below the project's own: nested ones, submodules, linked work trees. Their state goes back like that of the project's own.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::interrupted::cut_off;
use super::{COMMIT, add_nested_and_submodule, repo, script};
use crate::harness::{skip, temp_dir};
use crate::publish::git_in;

/// What git says in a repository, without decree's own refs.
fn state(dir: &Path) -> Vec<String> {
    let says = |args: &[&str]| {
        let answer = git_in(dir, ["--no-optional-locks"].iter().chain(args).copied());
        if answer.code == 0 { answer.text() } else { format!("exit code {}", answer.code) }
    };
    vec![
        says(&["symbolic-ref", "-q", "HEAD"]),
        says(&["rev-parse", "-q", "--verify", "HEAD"]),
        says(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]),
        says(&["stash", "list", "--format=%H %gs", "--date=raw"]),
        says(&["ls-files", "--stage", "-v"]),
        says(&["status", "--porcelain=v2"]),
    ]
}

/// Two commits, two stash entries, a tag, a second branch and something staged.
fn furnish(dir: &Path) {
    let git = |args: &[&str]| git_in(dir, args.iter().copied()).ok();
    fs::write(dir.join("a.txt"), "second\n").unwrap();
    git(&["commit", "-q", "-a", "-m", "second"]);
    for text in ["one\n", "two\n"] {
        fs::write(dir.join("a.txt"), text).unwrap();
        git(&["stash", "-q"]);
    }
    git(&["tag", "v1"]);
    git(&["branch", "spare", "HEAD~1"]);
    fs::write(dir.join("staged.txt"), "staged\n").unwrap();
    git(&["add", "staged.txt"]);
}

/// The subjects of the commits that decree keeps in a repository.
fn kept(dir: &Path) -> Vec<String> {
    let text = git_in(dir, ["for-each-ref", "--format=%(subject)", "refs/decree"]).ok().text();
    text.lines().map(str::to_owned).collect()
}

const WRECKS: [&str; 9] = [
    "git stash clear",
    "git stash drop -q",
    "git stash drop -q stash@{1}",
    "git reset -q --hard; git stash pop -q",
    "git reset -q --hard HEAD~1",
    "git commit -q --amend -m amended; git commit -q --amend -m again",
    "git tag -d v1 >/dev/null; git branch -q -D spare; git stash clear",
    "git checkout -q --detach; git branch -q -D main; git commit -q -m detached; git stash clear",
    "git checkout -q --orphan fresh; git commit -q -m fresh; git checkout -q --detach; git branch -q -D fresh",
];

/// GIT-40.
#[test]
fn stashes_and_branches_of_nested_repositories_go_back() {
    for (number, wreck) in WRECKS.into_iter().enumerate() {
        let repo = repo("");
        add_nested_and_submodule(&repo);
        let dir = ["nested", "lib", "nested/deep"][number % 3];
        if dir == "nested/deep" {
            git_in(&repo.path("nested"), ["clone", "-q", ".", "deep"]).ok();
        }
        let place = repo.path(dir);
        furnish(&place);
        let wreck = script(&format!("cd {dir} || exit 9; {wreck}; exit 7"));
        repo.routine("develop", &wreck);
        let before = state(&place);
        for args in [&["process"][..], &["guard", "--", "bash", "-c", &wreck]] {
            let output = repo.decree(args);
            assert!([1, 7].contains(&output.code), "{wreck}\n{}", output.err);
            let output = output.mentions(&[&format!("git in {dir}: ")]);
            assert_eq!(state(&place), before, "{wreck}\n{}", output.err);
            git_in(&place, ["fsck", "--strict", "--no-dangling"]).ok();
        }
        let amended = wreck.contains("amend");
        assert_eq!(kept(&place).contains(&"again".to_owned()), amended, "{wreck}");
        assert!(!repo.exists(".decree/git-pending.json"));
    }
}

/// GIT-40. A branch that is not HEAD's stays where it was moved, is named, and its commit has a name.
#[test]
fn a_moved_branch_of_a_nested_repository_is_named_and_its_commit_kept() {
    let repo = repo("cd nested; git branch -q -f topic HEAD~1; git branch made; exit 7");
    add_nested_and_submodule(&repo);
    let nested = repo.path("nested");
    furnish(&nested);
    git_in(&nested, ["reset", "-q", "--hard"]).ok();
    git_in(&nested, ["checkout", "-q", "-b", "topic"]).ok();
    git_in(&nested, ["commit", "-q", "--allow-empty", "-m", "only on topic"]).ok();
    git_in(&nested, ["checkout", "-q", "main"]).ok();
    repo.process().fails(1).mentions(&[
        "git in nested: changed meanwhile, and left as they are: refs/heads/made (created), refs/heads/topic (moved",
        "git in nested: commits that no branch leads to any more are kept as refs/decree/runs/",
    ]);
    assert_eq!(kept(&nested), ["only on topic"]);
    let result = repo.result(&repo.only_run());
    assert_eq!(
        (&result["git"][0]["repository"], &result["git"][0]["restored"]),
        (&"nested".into(), &true.into())
    );
}

/// GIT-40. A detached HEAD, and a branch without a commit.
#[test]
fn nested_repositories_with_a_detached_head_or_without_a_commit_go_back() {
    for begin in [&["checkout", "-q", "--detach"][..], &["checkout", "-q", "--orphan", "empty"]] {
        let repo = repo("");
        add_nested_and_submodule(&repo);
        let nested = repo.path("nested");
        furnish(&nested);
        git_in(&nested, begin.iter().copied()).ok();
        repo.routine("develop", &script(&format!("cd nested; {COMMIT} git stash clear; exit 7")));
        let before = state(&nested);
        let output = repo.process().fails(1);
        assert_eq!(state(&nested), before, "{begin:?}\n{}", output.err);
        assert_eq!(kept(&nested), ["by the routine"]);
    }
}

/// GIT-40. Work trees that share their refs: with the project's own repository, and with one outside of the project.
#[test]
fn linked_work_trees_in_the_tree_go_back_and_no_ref_is_reported_that_goes_back() {
    let outside = temp_dir();
    let other = outside.path().join("other");
    for (dir, owner) in [("inner", None), ("inner", Some(&other))] {
        let repo = repo("");
        if let Some(other) = owner {
            git_in(outside.path(), ["clone", "-q", repo.root().to_str().unwrap(), "other"]).ok();
            git_in(other, ["worktree", "add", "-q", "-b", "inner", repo.path(dir).to_str().unwrap()]).ok();
        } else {
            repo.git(["worktree", "add", "-q", "-b", "inner", dir]).ok();
        }
        let place = repo.path(dir);
        fs::write(place.join("notes.txt"), "stashed\n").unwrap();
        git_in(&place, ["stash", "-q"]).ok();
        git_in(&place, ["tag", "v1"]).ok();
        let wreck =
            format!("cd {dir}; echo b >b.txt; {COMMIT} git stash clear; git tag -d v1 >/dev/null; exit 7");
        repo.routine("develop", &script(&wreck));
        let before = (state(&place), state(repo.root()));
        let output =
            repo.process().fails(1).mentions(&["git in inner: inner is back at", "refs/tags/v1 (deleted"]);
        assert_eq!((state(&place), state(repo.root())), before, "{}", output.err);
        assert!(!output.err.contains("left as they are"), "{}", output.err);
        assert_eq!(kept(&place), ["by the routine"]);
    }
}

/// GIT-40. A linked work tree that the routine removed, and its record in the repository with it.
#[test]
fn a_removed_work_tree_goes_back() {
    let repo = repo("git worktree remove --force inner; exit 7");
    repo.git(["worktree", "add", "-q", "-b", "inner", "inner"]).ok();
    fs::write(repo.path("inner/staged.txt"), "staged\n").unwrap();
    git_in(&repo.path("inner"), ["add", "staged.txt"]).ok();
    let before = (state(&repo.path("inner")), repo.says(["worktree", "list", "--porcelain"]));
    let output = repo.process().fails(1);
    let after = (state(&repo.path("inner")), repo.says(["worktree", "list", "--porcelain"]));
    assert_eq!(after, before, "{}", output.err);
}

/// GIT-41. As for the project's own repository: it is said, the exit code is 4, nothing starts on top of it, and the next command
/// finishes it.
#[test]
fn a_lock_in_a_nested_repository_is_respected_and_the_next_command_finishes() {
    for dir in ["nested", "lib"] {
        let repo = repo("");
        add_nested_and_submodule(&repo);
        let place = repo.path(dir);
        furnish(&place);
        let lock = git_in(&place, ["rev-parse", "--path-format=absolute", "--git-path", "index.lock"]).line();
        let wreck = format!("cd {dir}; {COMMIT} git stash clear; git tag -d v1; : >{lock}; exit 7");
        repo.routine("develop", &script(&wreck));
        let (before, first) = (state(&place), git_in(&place, ["rev-parse", "HEAD"]).line());
        let says = format!("git's own state in {dir} is not restored: ");
        repo.process().fails(4).mentions(&[&says, "index.lock exists"]);
        assert_ne!(git_in(&place, ["rev-parse", "HEAD"]).line(), first);
        repo.process().fails(4).mentions(&["git's own state is not restored", &says, "index.lock exists"]);
        fs::remove_file(&lock).unwrap();
        repo.routine("develop", "echo fine >fine.txt");
        let output = repo.process().ok();
        let lines: Vec<&str> = output.err.lines().filter(|line| line.contains("refs/tags/v1")).collect();
        assert_eq!(lines.len(), 1, "{}", output.err);
        assert!(lines[0].contains(&format!("git in {dir}: deleted meanwhile, and restored: ")), "{lines:?}");
        assert_eq!(state(&place), before, "{}", output.err);
        assert_eq!(kept(&place), ["by the routine"]);
        // The same for a guarded command.
        repo.decree(["guard", "--", "bash", "-c", &script(&wreck)]).fails(4).mentions(&[&says]);
        repo.decree(["recover", "--keep"]).ok().mentions(&["git's own state stays as it is"]);
    }
}

/// GIT-41. What cannot be read is said before.
#[test]
fn a_nested_repository_that_cannot_be_read_is_named_before_the_routine_runs() {
    let repo = repo("exit 7");
    add_nested_and_submodule(&repo);
    fs::remove_file(repo.path("nested/.git/index")).unwrap();
    fs::create_dir(repo.path("nested/.git/index")).unwrap();
    let words = "git's own state cannot be read, and not be restored after a failure, in: nested";
    repo.process().fails(1).mentions(&[words]);
    repo.decree(["guard", "--", "true"]).ok().mentions(&[words]);
}

/// GIT-41. What cannot be created again is said, and ends with 4.
#[test]
fn a_ref_of_a_nested_repository_that_cannot_be_created_is_an_error() {
    let repo = repo("cd nested; git branch -q -D spare; git branch spare/more; exit 7");
    add_nested_and_submodule(&repo);
    furnish(&repo.path("nested"));
    repo.process()
        .fails(4)
        .mentions(&["git's own state in nested is not restored: refs/heads/spare (deleted"]);
}

/// GIT-42. The checkpoint has the state of nested repositories: it outlives decree.
#[test]
fn after_a_kill_nested_repositories_go_back() {
    let repo = repo("");
    add_nested_and_submodule(&repo);
    let (nested, lib) = (repo.path("nested"), repo.path("lib"));
    furnish(&nested);
    furnish(&lib);
    let wreck = "git commit -q -m 'by the routine'; git stash clear; git branch -q -D spare";
    repo.routine(
        "develop",
        &script(&format!("(cd nested; {wreck}); (cd lib; {wreck}); touch .decree/ready; sleep 60")),
    );
    let before = (state(&nested), state(&lib));
    cut_off(&repo, Signal::KILL);
    repo.decree(["revert", &repo.only_run()])
        .ok()
        .mentions(&["git in nested: main is back at", "git in lib: "]);
    assert_eq!((state(&nested), state(&lib)), before);
    assert_eq!(
        (kept(&nested), kept(&lib)),
        (vec!["by the routine".to_owned()], vec!["by the routine".to_owned()])
    );
    repo.decree(["checkpoint", "gc"]).ok();
}

/// GIT-12. A rollback moves no branch of a nested repository, either.
#[test]
fn a_rollback_says_of_a_nested_repository_that_it_moves_no_branch() {
    let repo = repo("");
    add_nested_and_submodule(&repo);
    let (id, nested) = (repo.checkpoint(), repo.path("nested"));
    furnish(&nested);
    let before = state(&nested)[..3].to_vec();
    repo.decree(["rollback", &id])
        .ok()
        .mentions(&["git's HEAD in nested was at ", "a rollback moves no branch"]);
    assert_eq!(state(&nested)[..3], before);
}

/// GIT-40. Repositories that the routine makes or deletes.
#[test]
fn nested_repositories_that_a_failed_run_makes_or_deletes() {
    let repo = repo("rm -rf nested; git init -q made; cd made; git commit -q --allow-empty -m made; exit 7");
    add_nested_and_submodule(&repo);
    let nested = repo.path("nested");
    furnish(&nested);
    let (before, tree) = (state(&nested), repo.snapshot());
    let output = repo.process().fails(1);
    assert_eq!(state(&nested), before, "{}", output.err);
    crate::harness::assert_same(&repo.snapshot(), &tree);
}

/// GIT-40. In the reftable format, too.
#[test]
fn a_nested_repository_in_the_reftable_format_goes_back() {
    let repo = repo("");
    let nested = repo.path("nested");
    fs::create_dir(&nested).unwrap();
    if git_in(&nested, ["init", "-q", "-b", "main", "--ref-format=reftable"]).code != 0 {
        return skip::skip(skip::Lack::Tool("a git that knows reftable"));
    }
    fs::write(nested.join("a.txt"), "a\n").unwrap();
    git_in(&nested, ["add", "-A"]).ok();
    git_in(&nested, ["commit", "-q", "-m", "nested"]).ok();
    furnish(&nested);
    for wreck in [
        "git reset -q --hard HEAD~1; git tag -d v1; git branch -q -D spare",
        "git stash drop -q stash@{1}",
        "git stash clear",
    ] {
        repo.routine("develop", &script(&format!("cd nested; {wreck}; exit 7")));
        let before = state(&nested);
        let output = repo.process().fails(1);
        assert_eq!(state(&nested), before, "{wreck}\n{}", output.err);
    }
}
