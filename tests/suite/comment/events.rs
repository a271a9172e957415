//! Which pull request is found from the event.

use serde_json::{Value, json};

use super::fixture::{Stage, pull_request};
use super::server::pull;
use crate::harness::CommandOutput;

const SHA: &str = "00112233445566778899aabbccddeeff00112233";

fn workflow_run(pulls: Value, head: &str) -> Value {
    json!({
        "action": "completed",
        "workflow_run": {
            "id": 5, "event": "pull_request", "head_branch": "fix", "head_sha": SHA,
            "head_repository": {"full_name": format!("{head}/repo"), "owner": {"login": head}},
            "pull_requests": pulls,
        },
        "repository": {"id": 1, "full_name": "octo/repo"},
    })
}

fn comments(stage: &Stage) -> usize {
    stage.server.bodies().len()
}

fn skipped(output: CommandOutput) {
    assert!(output.ok().mentions(&["::notice title=decree::", "pull request"]).out.is_empty());
}

/// CMT-08.
#[test]
fn events_of_a_pull_request_say_which() {
    let of_pull = json!({"action": "created", "issue": {"number": 7, "pull_request": {"url": "x"}}, "comment": {"body": "x"}});
    let same_repo = json!([{"number": 7, "head": {"sha": SHA}, "base": {"repo": {"id": 1}}}]);
    for (name, payload) in [
        ("pull_request", pull_request("octo/repo")),
        ("pull_request_target", pull_request("guest/repo")),
        ("pull_request_review", pull_request("octo/repo")),
        ("issue_comment", of_pull),
        ("workflow_run", workflow_run(same_repo, "octo")),
    ] {
        let mut stage = Stage::github();
        stage.event(name, &payload).comment(&[]).ok();
        assert_eq!(comments(&stage), 1, "{name}");
    }
}

/// CMT-08.
#[test]
fn other_events_are_about_no_pull_request() {
    let mut stage = Stage::github();
    let issue = json!({"action": "created", "issue": {"number": 7}});
    skipped(stage.event("issue_comment", &issue).comment(&[]));
    skipped(stage.event("workflow_run", &workflow_run(json!([]), "octo")).comment(&[]));
    for name in ["push", "schedule", "workflow_dispatch"] {
        stage.set("GITHUB_REF", "refs/heads/main").unset("GITHUB_TOKEN");
        skipped(stage.event(name, &json!({"ref": "refs/heads/main"})).comment(&[]));
    }
    let output = stage.comment(&["--format", "json"]).ok();
    assert!(output.text().contains(r#""action":"skipped""#), "{}", output.text());
    assert_eq!((comments(&stage), stage.server.count("GET")), (0, 0));
}

/// CMT-08.
#[test]
fn the_ref_or_a_flag_says_it_too() {
    let mut stage = Stage::github();
    stage.event("workflow_dispatch", &json!({})).set("GITHUB_REF", "refs/pull/7/merge").comment(&[]).ok();
    assert_eq!(comments(&stage), 1);
    stage.unset("GITHUB_EVENT_NAME").unset("GITHUB_REF").unset("GITHUB_REPOSITORY");
    stage.comment(&[]).fails(2).mentions(&["no pull request", "--pr"]);
    stage.comment(&["--pr", "7"]).fails(2).mentions(&["no repository", "--repo"]);
    stage.comment(&["--pr", "7", "--repo", "octo/../x"]).fails(2).mentions(&["OWNER/NAME"]);
    stage.comment(&["--pr", "7", "--repo", "octo/repo", "--key", "other"]).ok();
    assert_eq!(comments(&stage), 2);
    stage.comment(&["--pr", "0", "--repo", "octo/repo"]).fails(2);
}

/// CMT-08.
#[test]
fn an_event_that_is_none_is_an_error() {
    let mut stage = Stage::github();
    stage.place.write("event.json", "<html>");
    stage.comment(&[]).fails(3).mentions(&["event.json", "GITHUB_EVENT_PATH"]);
    stage.set("GITHUB_EVENT_PATH", "/nowhere/event.json").set("GITHUB_REF", "refs/pull/7/merge");
    stage.comment(&[]).ok();
    stage
        .set("GITHUB_EVENT_NAME", "issue_comment")
        .comment(&[])
        .fails(3)
        .mentions(&["issue_comment", "--pr"]);
    assert_eq!(comments(&stage), 1);
}

/// CMT-08.
#[test]
fn the_run_of_a_fork_is_found_by_its_last_commit() {
    for known_by_commit in [true, false] {
        let mut stage = Stage::github();
        stage.event("workflow_run", &workflow_run(json!([]), "guest"));
        stage.server.state().pulls = vec![pull(7, "guest:fix", "main", SHA)];
        if known_by_commit {
            stage.server.state().of_commit.insert(SHA.to_owned(), vec![7]);
        }
        stage.comment(&[]).ok();
        assert_eq!(comments(&stage), 1, "{known_by_commit}");
    }
}

/// CMT-08.
#[test]
fn a_commit_that_is_not_the_last_is_not_commented_on() {
    let mut stage = Stage::github();
    stage.event("workflow_run", &workflow_run(json!([]), "guest"));
    let mut closed = pull(8, "guest:old", "main", SHA);
    closed["state"] = "closed".into();
    stage.server.state().pulls = vec![pull(7, "guest:fix", "main", "ffff"), closed];
    stage.server.state().of_commit.insert(SHA.to_owned(), vec![7, 8]);
    skipped(stage.comment(&[]));
    assert_eq!(comments(&stage), 0);
}
