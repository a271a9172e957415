//! `decree guard` and `decree rollback`.

use super::{COMMIT, commit, make_busy, repo, script, view};
use crate::harness::assert_same;

/// GIT-07.
#[test]
fn a_guarded_command_that_fails_leaves_no_commit_on_the_branch() {
    let repo = repo("");
    make_busy(&repo);
    let (before, tree) = (view(&repo), repo.snapshot());
    let line = script(&format!("echo work >>notes.txt; git checkout -q -b topic; {COMMIT} exit 7"));
    let output = repo.decree(["guard", "--", "bash", "-c", &line]).fails(7);
    let id = repo.names(".decree/checkpoints").into_iter().find(|id| output.err.contains(id)).unwrap();
    let after = view(&repo);
    assert_eq!((&after.head, &after.index, &after.status), (&before.head, &before.index, &before.status));
    assert_eq!((&after.staged, &after.unstaged), (&before.staged, &before.unstaged));
    assert_same(&repo.snapshot(), &tree);
    let kept = repo.says(["for-each-ref", "--format=%(refname)", "refs/decree"]);
    let id = if kept.ends_with(&id) { id } else { kept.rsplit('/').next().unwrap().to_owned() };
    assert_eq!(commit(&repo, &kept), commit(&repo, "topic"));
    output.mentions(&["git: main is back at", "HEAD was on topic", &id, "refs/heads/topic (created)"]);
    // A command that succeeds keeps what it committed.
    let line = script(&format!("echo work >>docs/guide.md; {COMMIT}"));
    repo.decree(["guard", "--", "bash", "-c", &line]).ok();
    assert_eq!(repo.says(["log", "-1", "--format=%s"]), "by the routine");
}

/// GIT-12.
#[test]
fn a_rollback_moves_no_branch_and_says_so() {
    let repo = repo("");
    let (id, first) = (repo.checkpoint(), commit(&repo, "HEAD"));
    repo.write("notes.txt", "a person's work\n");
    repo.commit_all("a person's work");
    let later = commit(&repo, "HEAD");
    let output = repo.decree(["rollback", &id]).ok();
    output.mentions(&["a rollback moves no branch", &first[..10], &later[..10]]);
    assert_eq!(commit(&repo, "HEAD"), later);
    assert_eq!(repo.read("notes.txt"), b"one\r\ntwo\n");
    let answer = repo.decree(["rollback", &id, "--format", "json"]).ok();
    let answer: serde_json::Value = serde_json::from_slice(&answer.out).unwrap();
    assert!(answer["assumptions"].to_string().contains("moves no branch"), "{answer}");
}

/// GIT-14.
#[test]
fn gc_keeps_what_git_needs_and_verify_reads_it() {
    let repo = repo(&format!("echo work >>notes.txt; {COMMIT} touch .decree/ready; sleep 60"));
    make_busy(&repo);
    let id = repo.checkpoint();
    repo.decree(["checkpoint", "gc"]).ok();
    repo.decree(["checkpoint", "verify", &id]).ok();
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(repo.record(&id, "manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["git"]["head"], "ref: refs/heads/main");
    assert_eq!(manifest["git"]["commit"], commit(&repo, "HEAD").as_str());
    // The index alone in the store: everything else that the checkpoint names is in the older pack.
    let packs = repo.names(".decree/store").len();
    repo.git(["add", "docs/guide.md"]).ok();
    let next = repo.checkpoint();
    assert_eq!(repo.names(".decree/store").len(), packs + 1);
    for name in repo.names(".decree/store").into_iter().filter(|name| name.ends_with(".pack")) {
        let path = repo.path(format!(".decree/store/{name}"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let output = repo.decree(["checkpoint", "verify", &next]);
        assert_eq!(output.code, 4, "{name}: {}", output.err);
        std::fs::write(&path, bytes).unwrap();
    }
    repo.decree(["checkpoint", "verify", &next]).ok();
}
