//! A run that is kept, and what becomes of its commits.

use serde_json::json;

use super::{COMMIT, commit, commit_tracker, make_busy, repo, view};
use crate::publish::pushing::Remote;

/// GIT-10.
#[test]
fn the_record_of_a_kept_run_names_its_commits() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} echo more >>notes.txt; {COMMIT} git tag v1"));
    let first = commit(&repo, "HEAD");
    let output = repo.process().ok();
    let git = &repo.result(&repo.only_run())["git"][0];
    assert_eq!(git["commits"], json!([commit(&repo, "HEAD"), commit(&repo, "HEAD~1")]));
    assert_eq!((&git["before"], &git["after"]), (&json!(first), &json!(commit(&repo, "HEAD"))));
    assert_eq!(git["head_after"], "ref: refs/heads/main");
    assert_eq!(git["left"], json!(["refs/tags/v1 (created)"]));
    assert_eq!(git["not_restored"], json!([]));
    output.mentions(&["git: main is at", "2 commits new", "refs/tags/v1 (created)"]);
    assert_eq!(repo.says(["for-each-ref", "refs/decree"]), "");
}

/// GIT-11.
#[test]
fn reverting_a_kept_run_takes_its_commits_back() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT}"));
    commit_tracker(&repo);
    make_busy(&repo);
    let (before, tree) = (view(&repo), repo.snapshot());
    repo.process().ok();
    let (id, made) = (repo.only_run(), commit(&repo, "HEAD"));
    // A look at the repository refreshes the index and is no change.
    repo.git(["status"]).ok();
    let output = repo.decree(["revert", &id]).ok();
    assert_eq!(view(&repo), before, "{}", output.err);
    crate::harness::assert_same(&repo.snapshot(), &tree);
    assert_eq!(commit(&repo, &format!("refs/decree/runs/{id}")), made);
    output.mentions(&["git: main is back at", &format!("refs/decree/runs/{id}")]);
    let git = &repo.result(&id)["git"];
    assert_eq!((&git[0]["restored"], &git[0]["commits"]), (&true.into(), &json!([made])));
    repo.decree(["revert", &id]).ok().mentions(&["already reverted"]);
    // Applied again, it is a change of the tree and no commit.
    repo.decree(["apply", &id]).ok();
    assert_eq!(commit(&repo, "HEAD"), repo.says(["rev-parse", &format!("{made}~1")]));
}

/// GIT-11.
#[test]
fn a_chain_is_taken_back_from_its_last_commit_to_its_first() {
    let repo = repo(&format!(
        "echo $seq >>notes.txt; [ $seq = 0 ] && echo more >.decree/inbox/$chain-1.md; {COMMIT} true"
    ));
    commit_tracker(&repo);
    let before = view(&repo);
    repo.process().ok();
    assert_eq!(repo.runs().len(), 2);
    assert_eq!(repo.subjects().len(), 3);
    let chain = repo.runs()[0].split('-').next().unwrap().to_owned();
    repo.decree(["revert", &chain]).ok();
    assert_eq!(view(&repo), before);
}

/// GIT-11.
#[test]
fn git_is_left_alone_where_a_person_has_moved_on() {
    type Step<'s> = &'s dyn Fn(&crate::publish::Repo) -> Option<Remote>;
    let cases: [(&str, Step<'_>); 4] = [
        ("moved after the run", &|repo| {
            repo.write("other.txt", "a person's\n");
            repo.commit_all("a person's commit");
            None
        }),
        ("moved after the run", &|repo| {
            repo.git(["checkout", "-q", "-b", "elsewhere"]).ok();
            None
        }),
        ("staged after the run", &|repo| {
            repo.write("other.txt", "a person's\n");
            repo.git(["add", "other.txt"]).ok();
            None
        }),
        ("they were pushed", &|repo| Some(Remote::of(repo))),
    ];
    for (why, person) in cases {
        let repo = repo(&format!("echo work >>notes.txt; {COMMIT}"));
        repo.process().ok();
        let _remote = person(&repo);
        let before = view(&repo);
        repo.decree(["revert", &repo.only_run()]).ok().mentions(&["stay where they are", why]);
        let after = view(&repo);
        assert_eq!((&after.head, &after.refs, &after.index), (&before.head, &before.refs, &before.index));
        assert_eq!(repo.read("notes.txt"), b"one\r\ntwo\n", "the files are reverted all the same");
        assert_eq!(repo.says(["for-each-ref", "refs/decree"]), "");
    }
}

/// SEE-32. What a kept run committed itself is shown wherever the run is.
#[test]
fn commits_of_a_kept_run_are_shown_with_it() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} echo more >>notes.txt; {COMMIT}"));
    repo.process().ok();
    let made = [commit(&repo, "HEAD"), commit(&repo, "HEAD~1")].map(|commit| commit[..10].to_owned());
    for args in
        [&["status"][..], &["log"], &["report", "--format", "markdown"], &["report", "--format", "html"]]
    {
        let text = repo.decree(args).ok().text();
        assert!(text.contains("2 commits"), "{args:?}: {text}");
        assert!(made.iter().all(|commit| text.contains(commit)), "{args:?}: {made:?} in {text}");
    }
    // Reverted, they are commits of the run no more.
    repo.decree(["revert", &repo.only_run()]).ok();
    for args in [["status"], ["log"]] {
        let text = repo.decree(args).ok().text();
        assert!(!text.contains("commit"), "{args:?}: {text}");
    }
}
