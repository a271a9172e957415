//! The first comment, and the next one.

use super::fixture::{FIXTURE, MARKER, Stage};
use super::server::Server;
use crate::harness::Project;

/// CMT-01.
#[test]
fn the_first_time_there_is_a_new_comment() {
    let stage = Stage::github();
    stage.server.comment("octocat", "User", "Looks good!");
    let output = stage.comment(&[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 2);
    assert!(bodies[1].starts_with(MARKER), "{}", bodies[1]);
    assert!(
        bodies[1].contains("### decree: 2 of 4 specs and 1 of 1 message kept, 1 reverted, 1 skipped"),
        "{}",
        bodies[1]
    );
    assert_eq!(output.text(), "https://git.example.org/octo/repo/pull/7#issuecomment-1002\n");
    assert_eq!(stage.server.state().comments[1].login, "github-actions[bot]");
    let agent = format!("decree/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(stage.server.state().user_agents, vec![agent; 2], "one for each request");
}

/// CMT-03.
#[test]
fn the_next_time_the_same_comment_is_changed() {
    let stage = Stage::github();
    stage.comment_on_spec("01-one", &[]).ok();
    let output = stage.comment_on_spec("02-two", &["--format", "json"]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].starts_with(MARKER), "{}", bodies[0]);
    assert!(bodies[0].contains("02-two") && !bodies[0].contains("01-one"), "{}", bodies[0]);
    let url = "https://git.example.org/octo/repo/pull/7#issuecomment-1001";
    let expected = serde_json::json!({"action": "updated", "url": url, "id": 1001});
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&output.out).unwrap(), expected);
}

/// CMT-03.
#[test]
fn what_is_said_already_is_not_said_again() {
    let stage = Stage::github();
    stage.comment(&[]).ok();
    let before = stage.server.bodies();
    for _ in 0..2 {
        let output = stage.comment(&["--format", "json"]).ok().mentions(&["unchanged"]);
        assert!(output.text().contains(r#""action":"unchanged""#), "{}", output.text());
    }
    assert_eq!(stage.server.bodies(), before);
    assert_eq!((stage.server.count("POST"), stage.server.count("PATCH")), (1, 0));
}

/// CMT-02.
#[test]
fn two_keys_have_two_comments() {
    let mut stage = Stage::github();
    for round in ["one", "two"] {
        stage.comment_on_spec(round, &[]).ok();
        stage.comment_on_spec(round, &["--key", "nightly --> <b>"]).ok();
    }
    stage.set("GITHUB_JOB", "other").comment_on_spec("three", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 3);
    assert!(bodies[0].starts_with(MARKER) && bodies[0].contains("two"), "{}", bodies[0]);
    assert!(bodies[1].starts_with("<!-- decree:v1 key=nightly%20-%2D%3E%20%3Cb%3E -->\n"), "{}", bodies[1]);
    assert!(bodies[1].contains("two"), "{}", bodies[1]);
    assert!(bodies[2].starts_with("<!-- decree:v1 key=CI/other -->\n"), "{}", bodies[2]);
    stage.comment(&["--key", ""]).fails(2).mentions(&["key"]);
}

/// CMT-15.
#[test]
fn a_dry_run_needs_neither_network_nor_token() {
    let place = Project::bare();
    let output = place.decree(["comment", "--dry-run", "--summary", FIXTURE]).ok();
    assert!(
        output
            .text()
            .starts_with("<!-- decree:v1 key=decree -->\n### decree: 2 of 4 specs and 1 of 1 message"),
        "{}",
        output.text()
    );
    let mut stage = Stage::github();
    stage.set("GITHUB_API_URL", "http://127.0.0.1:1").unset("GITHUB_TOKEN");
    stage.comment(&["--dry-run"]).ok();
    assert_eq!(stage.server.count("GET"), 0);
}

/// CMT-15.
#[test]
fn what_a_dry_run_prints_is_what_is_posted() {
    let stage = Stage::github();
    let printed = stage.comment(&["--dry-run"]).ok().text();
    stage.comment(&[]).ok();
    let posted = &stage.server.bodies()[0];
    let (posted, word) = posted.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(posted, printed.trim_end());
    assert!(word.starts_with("<!-- decree:post "), "{word}");
}

/// CMT-15.
#[test]
fn in_a_project_the_last_summary_is_posted() {
    let stage = Stage::github();
    let project = Project::new();
    project.decree(["comment", "--dry-run"]).fails(3).mentions(&["nothing has been processed"]);
    project.write("specs/01-x.spec.md", "# X\n");
    project.write(".decree/routines/develop.sh", "# Develop\necho x > x\n");
    project.decree(["process"]).ok();
    let output = project.decree(["comment", "--dry-run"]).ok();
    assert!(
        output.text().contains("| 01-x | ✅ kept |") && output.text().contains("\n+x\n"),
        "{}",
        output.text()
    );
    stage.place.decree(["comment", "--dry-run"]).fails(3);
}

/// CMT-13.
#[test]
fn an_enterprise_server_has_its_api_below_a_path() {
    let stage = Stage::new(Server::enterprise());
    stage.comment_on_spec("one", &[]).ok();
    stage.comment_on_spec("two", &[]).ok();
    assert_eq!(stage.server.bodies().len(), 1);
    assert!(stage.server.bodies()[0].contains("two"));
}

/// CMT-13.
#[test]
fn gitea_has_smaller_pages_no_links_and_its_own_bot() {
    let stage = Stage::new(Server::gitea());
    for number in 0..120 {
        stage.server.comment("octocat", "", &format!("comment {number}"));
    }
    stage.comment_on_spec("one", &[]).ok();
    for number in 0..60 {
        stage.server.comment("octocat", "", &format!("later {number}"));
    }
    stage.comment_on_spec("two", &[]).ok();
    let bodies = stage.server.bodies();
    assert_eq!(bodies.len(), 181);
    assert!(bodies[120].starts_with(MARKER) && bodies[120].contains("two"), "{}", bodies[120]);
    stage.server.state().whole = true;
    stage.comment_on_spec("three", &[]).ok();
    assert!(stage.server.bodies()[120].contains("three"));
    assert!(stage.server.count("GET") < 20);
}

/// CMT-13.
#[test]
fn a_repository_is_followed_to_its_new_name_but_not_to_another_server() {
    let stage = Stage::new(Server::enterprise());
    stage.comment_on_spec("one", &["--repo", "octo/old"]).ok();
    stage.comment_on_spec("two", &["--repo", "octo/old"]).ok();
    assert_eq!(stage.server.bodies().len(), 1);
    assert!(stage.server.bodies()[0].contains("two"));
    stage.comment(&["--repo", "octo/away"]).fails(1).mentions(&["301"]);
}
