//! What is pushed, and what is not.

use super::{COMMIT, commit, repo, script};
use crate::publish::pushing::Remote;

/// GIT-15.
#[test]
fn the_commit_of_a_failed_spec_is_not_pushed_with_another_one() {
    let repo =
        repo(&format!("echo $spec_file >>list.txt; case $spec_file in *01-*) {COMMIT} exit 7 ;; esac"));
    repo.spec("02-b", "# B\n");
    repo.commit_all("second spec");
    let remote = Remote::of(&repo);
    repo.process().fails(1);
    repo.publish(&["--push"]).ok();
    assert_eq!(repo.subjects(), ["second spec", "02-b: B"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "list.txt"), b"specs/02-b.spec.md\n");
    repo.is_clean();
}

/// GIT-15.
#[test]
fn a_branch_that_contains_a_reverted_runs_commit_is_not_published() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT} exit 7"));
    let remote = Remote::of(&repo);
    let pushed = remote.tip("main");
    repo.process().fails(1);
    let id = repo.only_run();
    let failed = commit(&repo, &format!("refs/decree/runs/{id}"));
    repo.git(["merge", "-q", "--no-ff", "-m", "merged", &failed]).ok();
    repo.routine("develop", "echo fine >fine.txt").spec("02-b", "# B\n");
    repo.process_with(&["--spec", "02-*"]).ok();
    let before = repo.state();
    for args in [&["--push"][..], &[], &["--branch", "other"]] {
        repo.publish(args).fails(1).mentions(&[&failed, &id, "reverted", "nothing was done"]);
    }
    assert_eq!((repo.state(), remote.tip("main")), (before, pushed));
    // A person who pushes it decides for it.
    repo.git(["push", "-q", "origin", "main"]).ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-15. A clean slate is a revert, too.
#[test]
fn the_commit_of_a_failed_attempt_is_not_published_with_its_kept_run() {
    let repo = repo(&format!("echo $DECREE_ATTEMPT >>list.txt; {COMMIT} [ $DECREE_ATTEMPT = 2 ]"));
    repo.config("max_retries: 1\n");
    let remote = Remote::of(&repo);
    repo.process().ok();
    repo.publish(&["--push"]).ok();
    assert_eq!(repo.blob("HEAD", "list.txt"), b"2\n");
    assert_eq!(repo.subjects(), ["by the routine", "01-a: A"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
}

/// GIT-16.
#[test]
fn runs_that_committed_and_runs_that_did_not_are_published_together() {
    let text = format!(
        "echo $spec_file >>list.txt; echo x >\"$(basename $spec_file).txt\"\n\
         case $spec_file in *01-*|*03-*) {COMMIT} ;; *04-*) git add list.txt; git commit -qm half ;; esac"
    );
    let repo = repo(&text);
    for (name, heading) in [("02-b", "# B\n"), ("03-c", "# C\n"), ("04-d", "# D\n"), ("05-e", "# E\n")] {
        repo.spec(name, heading);
    }
    repo.commit_all("specs");
    let remote = Remote::of(&repo);
    repo.process().ok();
    let own = commit(&repo, "HEAD");
    let output = repo.publish(&["--push"]).ok();
    output.mentions(&["committed by itself", &own[..10], "half", "pushed main to origin"]);
    assert_eq!(remote.tip("main"), commit(&repo, "HEAD"));
    assert_eq!(repo.blob("HEAD", "list.txt"), repo.read("list.txt"));
    let list = |commit: &str| repo.says(["show", "--format=", "--name-only", commit]);
    assert_eq!(list(":/04-d"), "04-d.spec.md.txt\nspecs/processed-spec.md");
    assert_eq!(list(":/03-c"), "specs/processed-spec.md");
    assert_eq!(list(":/05-e"), "05-e.spec.md.txt\nlist.txt\nspecs/processed-spec.md");
    // The third run committed what the first two had left, with their lines of the tracker.
    let subjects = repo.subjects();
    assert_eq!(subjects[4..], ["03-c: C", "04-d: D", "05-e: E"], "{subjects:?}");
    repo.is_clean();
    repo.publish(&["--push"]).ok().mentions(&["nothing to commit"]);
}

/// GIT-16. Nothing is left to commit, and there is something to push.
#[test]
fn what_a_run_committed_is_pushed_even_if_nothing_else_is_to_commit() {
    let repo = repo(&format!("echo work >>list.txt; {COMMIT}"));
    let remote = Remote::of(&repo);
    repo.run(&["-p", "do it"]).ok();
    let own = commit(&repo, "HEAD");
    let answer = repo.publish_json(&["--push"]);
    assert_eq!((&answer["pushed"], &answer["own_commits"][0]["sha"]), (&true.into(), &own.clone().into()));
    assert_eq!(answer["commits"], serde_json::json!([]));
    assert_eq!(remote.tip("main"), own);
}

/// GIT-16. A secret in what a routine committed is found like in any other change.
#[test]
fn a_secret_in_a_routines_own_commit_is_not_pushed() {
    let repo = repo("");
    repo.routine("develop", &script(&format!("echo hush-hush-hush >>list.txt; {COMMIT}")));
    let remote = Remote::of(&repo);
    let pushed = remote.tip("main");
    repo.process().ok();
    let output = repo.publish_with(&["--push"], &[("MY_TOKEN", "hush-hush-hush")]);
    output.fails(1).mentions(&["a secret of the environment", "list.txt"]);
    assert_eq!(remote.tip("main"), pushed);
}
