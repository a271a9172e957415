//! A server that refuses requests.

use serde_json::Value;

use super::fixture::{Stage, pull_request};
use super::server::{READER, RUNNER, ServerFault};

fn summary(stage: &mut Stage, content: &str) {
    stage.place.write("step-summary.md", content);
    let path = stage.place.path("step-summary.md").display().to_string();
    stage.set("GITHUB_STEP_SUMMARY", &path);
}

/// CMT-09.
#[test]
fn for_a_fork_the_report_goes_to_the_step_summary() {
    for (token, head) in [(Some(READER), "guest/repo"), (None, "guest/repo"), (Some("expired"), "guest/repo")]
    {
        let mut stage = Stage::github();
        summary(&mut stage, "before\n");
        stage.event("pull_request", &pull_request(head));
        match token {
            Some(token) => stage.set("GITHUB_TOKEN", token),
            None => stage.unset("GITHUB_TOKEN"),
        };
        let output = stage.comment(&[]).ok().mentions(&[
            "::notice title=decree::no comment: ",
            "fork",
            "step summary",
        ]);
        assert!(output.out.is_empty());
        assert_eq!(stage.server.bodies().len(), 0);
        let summary = String::from_utf8(stage.place.read("step-summary.md")).unwrap();
        assert!(
            summary.starts_with("before\n")
                && summary.contains("### decree: 2 of 4 specs and 1 of 1 message kept"),
            "{summary}"
        );
    }
}

/// CMT-09.
#[test]
fn a_fork_whose_token_may_write_is_commented_on() {
    let mut stage = Stage::github();
    stage.event("pull_request", &pull_request("guest/repo")).comment(&[]).ok();
    assert_eq!(stage.server.bodies().len(), 1);
}

/// CMT-09.
#[test]
fn a_fork_that_was_deleted_is_a_fork() {
    let mut stage = Stage::github();
    let mut event = pull_request("x");
    event["pull_request"]["head"]["repo"] = Value::Null;
    stage.event("pull_request", &event).set("GITHUB_TOKEN", READER).comment(&[]).ok().mentions(&["fork"]);
}

/// CMT-09.
#[test]
fn a_token_that_only_reads_is_no_failure() {
    let mut stage = Stage::github();
    stage.set("GITHUB_TOKEN", READER);
    let output = stage.comment(&["--format", "json"]).ok();
    let output = output.mentions(&["::notice", "pull-requests: write", "decree report"]);
    let answer: Value = serde_json::from_slice(&output.out).unwrap();
    assert_eq!((&answer["action"], &answer["url"]), (&Value::from("skipped"), &Value::Null));
    stage.unset("GITHUB_ACTIONS");
    let output = stage.comment(&[]).ok();
    assert!(output.err.starts_with("no comment: the token is read-only"), "{}", output.err);
    assert_eq!(stage.server.bodies().len(), 0);
}

/// CMT-09.
#[test]
fn a_step_summary_that_is_full_is_not_spoilt() {
    let mut stage = Stage::github();
    let full = "x".repeat(1024 * 1024 - 100);
    summary(&mut stage, &full);
    stage.set("GITHUB_TOKEN", READER).comment(&[]).ok().mentions(&["decree report"]);
    assert_eq!(stage.place.read("step-summary.md").len(), full.len());
    stage
        .set("GITHUB_STEP_SUMMARY", "/nowhere/at/all")
        .comment(&[])
        .ok()
        .mentions(&["warning", "decree report"]);
}

/// CMT-12.
#[test]
fn a_wrong_token_is_an_error_that_does_not_show_it() {
    let mut stage = Stage::github();
    stage.set("GITHUB_TOKEN", "wrong-token-123");
    let output =
        stage.comment(&[]).fails(1).mentions(&["401", "Bad credentials", "hint: the token is invalid"]);
    assert!(!output.err.contains("wrong-token-123"), "{}", output.err);
    stage.set("GITHUB_TOKEN", "wrong token\u{e9}");
    let output = stage.comment(&[]).fails(3).mentions(&["token"]);
    assert!(!output.err.contains("wrong token\u{e9}"), "{}", output.err);
    stage.unset("GITHUB_TOKEN").comment(&[]).fails(3).mentions(&["there is no token", "DECREE_GITHUB_TOKEN"]);
    stage.set("DECREE_GITHUB_TOKEN", RUNNER).comment(&[]).ok();
}

/// CMT-12.
#[test]
fn a_pull_request_that_the_token_cannot_see_is_an_error() {
    let stage = Stage::github();
    stage.comment(&["--repo", "octo/other"]).fails(1).mentions(&[
        "octo/other#7",
        "404",
        "Not Found",
        "hint:",
    ]);
    stage.comment(&["--pr", "8"]).fails(1).mentions(&["octo/repo#8", "404"]);
    assert_eq!(stage.server.bodies().len(), 0);
}

/// CMT-12.
#[test]
fn other_refusals_carry_the_servers_message() {
    let stage = Stage::github();
    for (status, words) in
        [(403, "issue is locked"), (422, "Validation Failed"), (410, "Issues are disabled")]
    {
        stage.server.fault("POST", ServerFault::Status(status, &[], words));
        let output = stage.comment(&[]).fails(1);
        output.mentions(&["cannot comment on octo/repo#7", &status.to_string(), words]);
    }
    assert_eq!((stage.server.bodies().len(), stage.server.count("POST")), (0, 3));
}

/// CMT-12.
#[test]
fn an_address_that_leads_nowhere_is_an_error() {
    let mut stage = Stage::github();
    stage
        .set("GITHUB_API_URL", "http://127.0.0.1:1")
        .comment(&[])
        .fails(1)
        .mentions(&["127.0.0.1:1", "GITHUB_API_URL"]);
    stage.set("GITHUB_API_URL", "https://user:pass@host").comment(&[]).fails(3).mentions(&["GITHUB_API_URL"]);
}
