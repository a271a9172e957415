//! `publish --pull-request` against a server on loopback that behaves like GitHub.

use serde_json::{Value, json};

use super::Repo;
use super::pushing::Remote;
use crate::comment::server::{READER, RUNNER, Server};
use crate::harness::CommandOutput;

const SCRIPT: &str = "echo $spec_file >>notes.txt; echo 'nothing secret any more' >said.txt";

fn publish(repo: &Repo, server: &Server, token: &str, args: &[&str]) -> CommandOutput {
    let variables = [
        ("GITHUB_REPOSITORY", "octo/repo"),
        ("GITHUB_API_URL", server.url.as_str()),
        ("GITHUB_TOKEN", token),
        ("SOME_TOKEN", "tok_0123456789"),
        ("DECREE_INTERNAL_BACKOFF_MS", "1"),
    ];
    repo.publish_with(&[&["--pull-request", "--format", "json"], args].concat(), &variables)
}

fn parsed(output: &CommandOutput) -> Value {
    serde_json::from_slice(&output.out).unwrap()
}

/// PUB-29.
#[test]
fn a_pull_request_is_opened_from_a_branch_of_its_own() {
    let repo = Repo::with(SCRIPT, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    // What a run took out is in its diff, too.
    repo.write("said.txt", "with tok_0123456789\n");
    repo.commit_all("said");
    let (remote, server) = (Remote::of(&repo), Server::github());
    repo.process().ok();
    let before = repo.state();
    let output = publish(&repo, &server, RUNNER, &["--draft"]).ok().mentions(&["opened pull request 20"]);
    let branch = format!("decree/{}", repo.runs()[0].split('-').next().unwrap());
    let answer = parsed(&output);
    assert_eq!((&answer["branch"], &answer["pushed"]), (&branch.as_str().into(), &true.into()));
    assert_eq!(
        answer["pull_request"],
        json!({"number": 20, "url": "https://git.example.org/octo/repo/pull/20", "created": true})
    );
    assert_eq!(remote.tip(&branch), repo.says(["rev-parse", &branch]));
    assert_eq!(repo.says(["rev-list", "--count", &format!("HEAD..{branch}")]), "2");
    let after = repo.state();
    assert_eq!((&after.head, &after.index, &after.status), (&before.head, &before.index, &before.status));
    {
        let state = server.state();
        let pull = &state.pulls[0];
        assert_eq!(pull["title"], "01-a: A (and 1 more)");
        assert_eq!((&pull["base"]["ref"], &pull["draft"]), (&"main".into(), &true.into()));
        let body = pull["body"].as_str().unwrap();
        assert!(body.contains("01-a") && body.contains("02-b"), "{body}");
        assert!(!body.contains("tok_0123456789"), "{body}");
    }
    // Again: nothing to commit, and the one that is open stays the one.
    let answer = parsed(&publish(&repo, &server, RUNNER, &["--title", "Mine"]).ok());
    assert_eq!(answer["commits"], json!([]));
    assert_eq!(
        (&answer["pull_request"]["number"], &answer["pull_request"]["created"]),
        (&20.into(), &false.into())
    );
    let state = server.state();
    assert_eq!(state.pulls.len(), 1);
    assert_eq!(state.pulls[0]["title"], "Mine");
}

/// PUB-29.
#[test]
fn a_branch_that_goes_on_keeps_its_pull_request() {
    let repo = Repo::with(SCRIPT, &[("01-a", "# A\n"), ("02-b", "# B\n")]);
    let (remote, server) = (Remote::of(&repo), Server::github());
    for expected in ["01-a: A", "01-a: A (and 1 more)"] {
        repo.process_with(&["--limit", "1"]).ok();
        publish(&repo, &server, RUNNER, &["--branch", "decree/work", "--base", "release"]).ok();
        let state = server.state();
        assert_eq!(state.pulls.len(), 1);
        assert_eq!(
            (&state.pulls[0]["title"], &state.pulls[0]["base"]["ref"]),
            (&expected.into(), &"release".into())
        );
        assert_eq!(remote.tip("decree/work"), repo.says(["rev-parse", "decree/work"]));
    }
}

/// PUB-30.
#[test]
fn missing_settings_are_reported_before_anything_is_done() {
    let repo = Repo::with(SCRIPT, &[("01-a", "# A\n")]);
    let (_remote, server) = (Remote::of(&repo), Server::github());
    repo.process().ok();
    let before = repo.state();
    publish(&repo, &server, "", &[]).fails(3).mentions(&["no token"]);
    publish(&repo, &server, RUNNER, &["--branch", "main"]).fails(2).mentions(&["itself"]);
    publish(&repo, &server, RUNNER, &["--repo", "nonsense"]);
    repo.publish_with(&["--pull-request"], &[("GITHUB_TOKEN", RUNNER)]).fails(2).mentions(&["--repo"]);
    repo.publish(&["--title", "x"]).fails(2);
    assert_eq!(repo.state(), before);
    assert!(server.state().requests.is_empty());
}

/// PUB-30.
#[test]
fn a_refusal_leaves_what_was_pushed() {
    let repo = Repo::with(SCRIPT, &[("01-a", "# A\n")]);
    let (remote, server) = (Remote::of(&repo), Server::github());
    repo.process().ok();
    let output = publish(&repo, &server, READER, &["--branch", "work"]);
    assert_eq!(output.code, 1, "{}", output.err);
    let output = output.mentions(&["work is pushed and stays"]);
    let answer = parsed(&output);
    assert_eq!((&answer["pushed"], &answer["pull_request"]), (&true.into(), &Value::Null));
    assert_eq!(remote.tip("work"), repo.says(["rev-parse", "work"]));
    publish(&repo, &server, RUNNER, &["--branch", "work"]).ok();
    assert_eq!(server.state().pulls.len(), 1);
}

/// PUB-29. Nothing of decree's, nothing to ask for.
#[test]
fn without_a_commit_there_is_no_pull_request() {
    let repo = Repo::with("exit 1", &[("01-a", "# A\n")]);
    let (_remote, server) = (Remote::of(&repo), Server::github());
    repo.config("max_retries: 0\n");
    repo.process().fails(1);
    let answer = parsed(&publish(&repo, &server, RUNNER, &[]).ok());
    assert_eq!((&answer["pushed"], &answer["pull_request"]), (&false.into(), &Value::Null));
    assert!(server.state().requests.is_empty());
}
