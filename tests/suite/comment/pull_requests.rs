//! One pull request for a branch.

use decree::github::{
    GithubClient, OpenPullRequest, PullRequest, RepoName, RunnerEnvironment, open_or_update,
};

use super::server::{RUNNER, Server, ServerFault, pull};

fn open(server: &Server, title: &str) -> decree::error::Result<OpenPullRequest> {
    let environment = RunnerEnvironment::new(|name| match name {
        "GITHUB_API_URL" => Some(server.url.clone()),
        "GITHUB_TOKEN" => Some(RUNNER.to_owned()),
        "DECREE_INTERNAL_BACKOFF_MS" => Some("1".to_owned()),
        _ => None,
    });
    let client = GithubClient::from_environment(&environment).unwrap();
    let request = PullRequest {
        head: "decree/work".to_owned(),
        base: "main".to_owned(),
        title: title.to_owned(),
        body: "what was done".to_owned(),
        draft: true,
    };
    open_or_update(&client, &RepoName::parse("octo/repo").unwrap(), &request)
}

/// CMT-16.
#[test]
fn it_is_opened_once_and_then_brought_up_to_date() {
    for server in [Server::github(), Server::enterprise(), Server::gitea()] {
        let others = ["guest:decree/work", "octo:decree/work2", "octo:other"];
        server.state().pulls =
            (1..).zip(others).map(|(number, head)| pull(number, head, "main", "abc")).collect();
        server.state().pulls.push(pull(9, "octo:decree/work", "release", "abc"));
        let first = open(&server, "one").unwrap();
        assert!(first.created);
        let second = open(&server, "two").unwrap();
        assert_eq!(second, OpenPullRequest { created: false, ..first.clone() });
        assert_eq!(open(&server, "two").unwrap(), second);
        let state = server.state();
        assert_eq!(state.pulls.len(), 5);
        let made = state.pulls.last().unwrap();
        assert_eq!(
            (&made["title"], &made["body"], &made["draft"]),
            (&"two".into(), &"what was done".into(), &true.into())
        );
        assert!(state.pulls[..4].iter().all(|pull| pull["title"] == "old"));
        assert_eq!(state.requests.iter().filter(|request| request.starts_with("PATCH")).count(), 1);
    }
}

/// CMT-16.
#[test]
fn whatever_happens_it_is_opened_once() {
    for fault in [
        ServerFault::DoneThenStatus(502),
        ServerFault::DoneThenCut,
        ServerFault::Cut,
        ServerFault::Status(503, &[], "Unavailable"),
        ServerFault::Status(429, &[("retry-after", "0")], "Too many requests"),
    ] {
        let server = Server::github();
        server.fault("POST", fault);
        let opened = open(&server, "one").unwrap();
        assert_eq!((server.state().pulls.len(), opened.number), (1, 20));
    }
}

/// CMT-16.
#[test]
fn a_refusal_has_the_servers_words() {
    let server = Server::github();
    server.fault(
        "POST",
        ServerFault::Status(403, &[], "GitHub Actions is not permitted to create pull requests"),
    );
    let error = open(&server, "one").unwrap_err();
    assert!(error.to_string().contains("open a pull request in octo/repo"), "{error}");
    assert!(error.to_string().contains("not permitted to create pull requests"), "{error}");
}
