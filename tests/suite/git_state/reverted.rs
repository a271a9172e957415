//! A run that failed: HEAD, its branch and the index are as before, and what was committed has a name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{COMMIT, commit, make_busy, repo, script, view};
use crate::harness::git_in_front::{GitInFront, git_path};
use crate::harness::{assert_same, run_command, snapshot};
use crate::publish::Repo;

/// GIT-01, GIT-13.
#[test]
fn what_a_failed_routine_committed_is_on_no_branch_and_has_a_name() {
    let repo = repo(&format!("echo work >>notes.txt; echo new >made.txt; {COMMIT} exit 7"));
    make_busy(&repo);
    for hook in ["reference-transaction", "post-checkout", "post-index-change"] {
        let path = repo.path(format!(".git/hooks/{hook}"));
        fs::write(&path, "#!/bin/sh\necho \"$PWD\" >>\"$GIT_DIR/../.decree/hook-ran-$PPID\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    repo.routine("develop", &script(&format!("echo work >>notes.txt; echo new >made.txt; git config core.hooksPath /dev/null; {COMMIT} git config --unset core.hooksPath; exit 7")));
    let (before, tree) = (view(&repo), repo.snapshot());
    let first = commit(&repo, "HEAD");
    let output = repo.process().fails(1);
    assert_eq!(view(&repo), before);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    assert!(repo.names(".decree").iter().all(|name| !name.starts_with("hook-ran")), "a hook ran");
    let id = repo.only_run();
    let kept = format!("refs/decree/runs/{id}");
    assert_eq!(repo.says(["log", "-1", "--format=%s", &kept]), "by the routine");
    assert_eq!(repo.blob(&kept, "made.txt"), b"new\n");
    assert_eq!(commit(&repo, &format!("{kept}~1")), first);
    output.mentions(&["git: main is back at", &first[..10], &kept, "1 commit"]);
    let git = &repo.result(&id)["git"];
    assert_eq!((&git[0]["before"], &git[0]["restored"]), (&first.clone().into(), &true.into()));
    assert_eq!(git[0]["after"], commit(&repo, &kept).as_str());
    assert_eq!(git[0]["commits"], serde_json::json!([commit(&repo, &kept)]));
    assert_eq!(git[0]["kept_as"], serde_json::json!([kept]));
    assert_eq!(repo.summary()["messages"][0]["git"], *git);
    assert!(repo.says(["reflog", "show", "main"]).contains(&format!("decree: run {id} is reverted")));
    repo.is_sound();
}

/// GIT-02. Whatever a routine does to HEAD and its branch.
#[test]
fn head_its_branch_and_the_index_are_as_before_whatever_a_failed_routine_did() {
    let work = "echo work >>notes.txt; echo new >made.txt";
    let cases = [
        format!("{work}; {COMMIT} echo more >>made.txt; git commit -q -a --amend -m amended"),
        format!("{work}; git checkout -q -b topic; {COMMIT}"),
        format!("git stash -q -u; git checkout -q other; {work}; {COMMIT}"),
        format!("git checkout -q --detach; {work}; {COMMIT}"),
        format!("{COMMIT} git checkout -q --detach; {work}; {COMMIT}"),
        "git reset -q --hard HEAD~1".to_owned(),
        "git checkout -q --detach; git branch -q -D main".to_owned(),
        format!("{work}; {COMMIT} git branch -M renamed"),
        format!("{work}; {COMMIT} git pack-refs --all --prune; git gc -q"),
        "git pack-refs --all --prune; git gc -q".to_owned(),
        "git add -A; git rm -q --cached docs/guide.md; git status >/dev/null".to_owned(),
        "git rm -rq .; git commit -qm empty".to_owned(),
        "rm .git/index; git add notes.txt".to_owned(),
        "git checkout -q --orphan fresh; git add -A; git commit -qm fresh".to_owned(),
    ];
    for case in cases {
        let repo = repo(&format!("{case}; exit 7"));
        repo.git(["branch", "other"]).ok();
        repo.write("second.txt", "second\n");
        repo.commit_all("second");
        make_busy(&repo);
        let (before, tree) = (view(&repo), repo.snapshot());
        let output = repo.process().fails(1);
        let after = view(&repo);
        let heads = |refs: &str| {
            let ours = |line: &&str| line.ends_with("/main") || line.ends_with("/other");
            refs.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>()
        };
        if !case.contains("git checkout -q other") {
            assert_eq!(heads(&after.refs), heads(&before.refs), "{case}\n{}", output.err);
        }
        let rest = |view: &super::GitView| super::GitView {
            head: view.head.clone(),
            refs: String::new(),
            index: view.index.clone(),
            entries: view.entries.clone(),
            status: view.status.clone(),
            unstaged: view.unstaged.clone(),
            staged: view.staged.clone(),
        };
        assert_eq!(rest(&after), rest(&before), "{case}\n{}", output.err);
        crate::harness::assert_same(&repo.snapshot(), &tree);
        repo.git(["fsck", "--strict", "--no-dangling"]).ok();
    }
}

/// GIT-02. A commit on a branch that was renamed or left keeps its name there, and has one of decree's.
#[test]
fn every_commit_that_head_or_its_branch_leave_has_a_name() {
    let repo = repo(&format!(
        "echo a >a.txt; {COMMIT} git checkout -q --detach HEAD~1; echo b >b.txt; {COMMIT} exit 7"
    ));
    repo.process().fails(1);
    let id = repo.only_run();
    let names = repo.says(["for-each-ref", "--format=%(refname)", "refs/decree"]);
    assert_eq!(names, format!("refs/decree/runs/{id}\nrefs/decree/runs/{id}_2"));
    let mut files: Vec<String> =
        names.lines().map(|name| repo.says(["show", "--format=", "--name-only", name])).collect();
    files.sort();
    assert_eq!(files, ["a.txt", "b.txt"]);
    assert_eq!(repo.result(&id)["git"][0]["commits"].as_array().unwrap().len(), 2);
}

/// GIT-03.
#[test]
fn tags_branches_and_stash_entries_are_left_and_named() {
    let repo = repo(
        "git tag v1; git branch topic; git branch -q -f old HEAD~1; git branch -q -D gone\n\
         echo stashed >>notes.txt; git stash -q; echo work >>notes.txt; exit 7",
    );
    for branch in ["old", "gone"] {
        repo.git(["branch", branch]).ok();
    }
    repo.write("second.txt", "second\n");
    repo.commit_all("second");
    repo.git(["branch", "-f", "old"]).ok();
    let before = view(&repo);
    let output = repo.process().fails(1);
    let after = view(&repo);
    assert_eq!(commit(&repo, "v1"), commit(&repo, "HEAD"));
    assert_eq!(commit(&repo, "old"), commit(&repo, "HEAD~1"));
    assert_eq!(repo.says(["stash", "list"]).lines().count(), 1);
    assert_eq!((after.status, after.index), (before.status, before.index));
    output.mentions(&[
        "left as they are",
        "refs/tags/v1 (created)",
        "refs/heads/topic (created)",
        "refs/heads/old (moved; it was",
        "the stash list",
        "deleted meanwhile, and restored: refs/heads/gone (deleted; it was",
    ]);
    let git = &repo.result(&repo.only_run())["git"][0];
    assert_eq!(git["left"].as_array().unwrap().len(), 4, "{git}");
    assert_eq!(repo.says(["for-each-ref", "refs/decree"]), "");
}

/// GIT-25. Branches, tags and stash entries that a failed run deleted, and commits that it left without a name.
#[test]
fn what_a_failed_run_deleted_is_there_again_and_its_own_commits_have_a_name() {
    let repo = repo(&format!(
        "git branch -q -D other; git tag -d v1 >/dev/null; git stash drop -q; git branch -q -f old HEAD\n\
         git checkout -q -b agent; echo work >work.txt; {COMMIT} git checkout -q main; git branch -q -D agent; exit 7"
    ));
    repo.write("other.txt", "other\n");
    repo.commit_all("other");
    repo.git(["branch", "other"]).ok();
    repo.git(["branch", "old"]).ok();
    repo.git(["tag", "-a", "-m", "one", "v1"]).ok();
    repo.git(["reset", "-q", "--hard", "HEAD~1"]).ok();
    for text in ["first", "second"] {
        repo.write("notes.txt", text);
        repo.git(["stash", "push", "-q", "-m", text]).ok();
    }
    repo.git(["branch", "-q", "-D", "old"]).ok();
    repo.git(["commit", "-q", "--allow-empty", "-m", "only on old"]).ok();
    repo.git(["branch", "old"]).ok();
    repo.git(["reset", "-q", "--hard", "HEAD~1"]).ok();
    let (before, stash, old) = (view(&repo), repo.says(["stash", "list"]), commit(&repo, "old"));
    let output = repo.process().fails(1);
    let (after, id) = (view(&repo), repo.only_run());
    let but_old = |refs: &str| -> Vec<String> {
        refs.lines().filter(|line| !line.ends_with("/old")).map(str::to_owned).collect()
    };
    assert_eq!(but_old(&after.refs), but_old(&before.refs), "{}", output.err);
    assert_eq!((after.head, after.status, after.index), (before.head, before.status, before.index));
    assert_eq!(repo.says(["stash", "list"]), stash);
    assert_eq!(repo.blob("stash@{0}", "notes.txt"), b"second");
    assert_eq!(repo.blob("stash@{1}", "notes.txt"), b"first");
    let kept = repo.says(["for-each-ref", "--format=%(objectname) %(refname)", "refs/decree"]);
    assert_eq!(kept.lines().count(), 2, "{kept}");
    assert!(kept.contains(&old), "{kept}");
    let work = kept.lines().find(|line| !line.starts_with(&old)).unwrap().split(' ').nth(1).unwrap();
    assert_eq!(repo.blob(work, "work.txt"), b"work\n");
    let made = commit(&repo, work);
    output.mentions(&[
        "git: deleted meanwhile, and restored: ",
        "refs/heads/other (deleted; it was",
        "refs/tags/v1 (deleted; it was",
        "the stash list",
        "commits that no branch leads to any more are kept as",
        &format!("refs/decree/runs/{id}"),
        &made[..10],
        &old[..10],
    ]);
    repo.is_sound();
}

/// GIT-05.
#[test]
fn a_clean_slate_is_one_for_git_too() {
    let repo = repo("");
    repo.config("max_retries: 2\n");
    repo.routine(
        "develop",
        &script(&format!(
            "git log --oneline | wc -l >>.decree/seen\ngit status --porcelain >>.decree/seen\n\
             echo $DECREE_ATTEMPT >>made.txt; {COMMIT} git commit -q --amend -m $(date +%s%N); exit 7"
        )),
    );
    let before = view(&repo);
    repo.process().fails(1);
    assert_eq!(view(&repo), before);
    assert_eq!(repo.text(".decree/seen"), "1\n2\n1\n");
    let id = repo.only_run();
    assert_eq!(repo.blob(&format!("refs/decree/runs/{id}.2"), "made.txt"), b"1\n2\n");
    assert_eq!(repo.blob(&format!("refs/decree/runs/{id}"), "made.txt"), b"3\n");
    let git = &repo.result(&id)["git"];
    assert_eq!((&git[0]["attempt"], git[0]["commits"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!((git[1].get("attempt"), git[1]["commits"].as_array().unwrap().len()), (None, 1));
    // The same message again: the names that are taken stay.
    let failed = commit(&repo, &format!("refs/decree/runs/{id}"));
    repo.decree(["retry", &id]).ok();
    repo.process().fails(1);
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), failed);
    assert_eq!(repo.blob(&format!("refs/decree/runs/{id}_2"), "made.txt"), b"3\n");
    assert_eq!(view(&repo), before);
}

/// GIT-09.
#[test]
fn a_merge_that_a_failed_routine_left_is_not_in_progress() {
    let repo = repo("git merge -q topic >/dev/null; git cherry-pick topic >/dev/null 2>&1; exit 7");
    repo.git(["checkout", "-q", "-b", "topic"]).ok();
    repo.write("notes.txt", "theirs\n");
    repo.commit_all("theirs");
    repo.git(["checkout", "-q", "main"]).ok();
    repo.write("notes.txt", "ours\n");
    repo.commit_all("ours");
    let before = view(&repo);
    let output = repo.process().fails(1);
    assert_eq!(view(&repo), before);
    assert!(!repo.exists(".git/MERGE_HEAD") && !repo.exists(".git/MERGE_MSG"));
    let id = repo.only_run();
    assert!(repo.run_has(&id, "git/MERGE_HEAD"));
    output.mentions(&["git: an operation that was begun is undone", &format!(".decree/runs/{id}/git")]);
    // The next commit has one parent.
    repo.git(["commit", "-q", "--allow-empty", "-m", "next"]).ok();
    assert_eq!(repo.says(["show", "-s", "--format=%P"]).split(' ').count(), 1);
}

/// GIT-46. A merge, a rebase and a bisection that were in progress, and that a failed routine ended or went on with.
#[test]
fn an_operation_that_was_in_progress_is_in_progress_again() {
    let merge = "git merge -q --no-commit side";
    let rebase = "git rebase -q side";
    let bisect = "git bisect start HEAD HEAD~2";
    let finish = "echo done >notes.txt; git add notes.txt; GIT_EDITOR=true git rebase --continue";
    let finish_all = &*format!("{finish}; echo all >>notes.txt; {}", finish.replace("done", "all done"));
    for (begin, wreck) in [
        (merge, COMMIT),
        (merge, "git merge --abort"),
        (rebase, finish),
        (rebase, finish_all),
        (rebase, "git rebase --abort"),
        (rebase, "git rebase --quit"),
        (bisect, "git bisect reset"),
    ] {
        let repo = repo(&format!("{wreck}; git stash clear; git tag -d t >/dev/null; exit 7"));
        let edit = |text: &str| {
            repo.write("notes.txt", text);
            repo.commit_all(text);
        };
        repo.git(["tag", "t"]).ok();
        repo.write("docs/guide.md", "stashed\n");
        repo.git(["stash", "-q"]).ok();
        repo.git(["checkout", "-q", "-b", "side"]).ok();
        edit("side");
        repo.git(["checkout", "-q", "main"]).ok();
        edit("main");
        edit("main again");
        run_command(Command::new("bash").current_dir(repo.root()).args(["-c", &script(begin)]));
        let stash = repo.says(["stash", "list"]);
        let operation = |repo: &Repo| {
            let mut files = snapshot(&repo.path(".git"));
            let begins = ["MERGE_", "AUTO_MERGE", "REBASE_HEAD", "rebase-merge", "BISECT_"];
            files.retain(|name, _| begins.iter().any(|begin| name.starts_with(begin.as_bytes())));
            files
        };
        let (before, files) = (view(&repo), operation(&repo));
        assert!(!files.is_empty(), "{begin}");
        let output = repo.process().fails(1);
        assert_eq!(view(&repo), before, "{begin}, {wreck}\n{}", output.err);
        assert_same(&operation(&repo), &files);
        assert_eq!(repo.says(["stash", "list"]), stash);
        if wreck == finish_all {
            run_command(Command::new("bash").current_dir(repo.root()).args(["-c", &script(finish_all)])).ok();
            assert_eq!(repo.says(["symbolic-ref", "HEAD"]), "refs/heads/main");
        }
    }
}

/// GIT-43. A `git` in front of the real one counts how often decree calls it.
#[test]
fn restoring_takes_as_many_git_processes_for_many_commits_as_for_few() {
    let git = git_path();
    let calls = |commits: u32| {
        let commit = format!("{git} checkout -q --detach main; {git} commit -q --allow-empty -m $n");
        let repo = repo(&format!("for n in $(seq {commits}); do {commit}; done; exit 7"));
        let counter = GitInFront::new("echo \"$@\" >>\"$(dirname \"$0\")/count\"");
        run_command(repo.command().env("PATH", counter.search_path()).arg("process")).fails(1);
        let names = repo.says(["for-each-ref", "--format=%(refname)", "refs/decree"]);
        assert_eq!(names.lines().count(), commits as usize, "{names}");
        fs::read_to_string(counter.dir().join("count")).unwrap().lines().count()
    };
    assert_eq!(calls(40), calls(2));
}
