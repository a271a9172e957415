//! One open pull request per branch: opened once, updated after that.

use serde_json::{Value, json};

use super::client::GithubClient;
use super::failure::ApiFailure;
use super::names::{RepoName, url_component};
use crate::error::{Error, Result};

#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The branch with the change; `owner:branch` if it is in a fork.
    pub head: String,
    /// The branch to merge into.
    pub base: String,
    pub title: String,
    pub body: String,
    pub draft: bool,
}

/// The pull request that [`open_or_update`] opened or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPullRequest {
    pub number: u64,
    /// The web page of the pull request.
    pub url: String,
    /// Whether this call opened it.
    pub created: bool,
}

/// Opens a pull request for a branch, or updates the title and body of the open one. Never opens two.
pub fn open_or_update(
    client: &GithubClient,
    repo: &RepoName,
    request: &PullRequest,
) -> Result<OpenPullRequest> {
    if let Some(found) = find(client, repo, request)? {
        return update(client, repo, request, &found);
    }
    let body = json!({
        "title": request.title,
        "head": request.head,
        "base": request.base,
        "body": request.body,
        "draft": request.draft,
    });
    let operation = format!("open a pull request in {repo}");
    let created =
        client.create(&operation, &format!("repos/{repo}/pulls"), &body, || find(client, repo, request));
    match created {
        Ok(pull) => open_pull(&pull, true),
        // A concurrent process was faster: the server allows one per branch and base.
        Err(failure) if failure.is_status(&[409, 422]) => match find(client, repo, request)? {
            Some(found) => update(client, repo, request, &found),
            None => Err(failure.into()),
        },
        Err(failure) => Err(failure.into()),
    }
}

fn update(
    client: &GithubClient,
    repo: &RepoName,
    request: &PullRequest,
    found: &Value,
) -> Result<OpenPullRequest> {
    let pull = open_pull(found, false)?;
    if found["title"] != request.title || found["body"].as_str().unwrap_or_default() != request.body {
        let number = pull.number;
        let body = json!({"title": request.title, "body": request.body});
        client.patch(
            &format!("change pull request {repo}#{number}"),
            &format!("repos/{repo}/pulls/{number}"),
            &body,
        )?;
    }
    Ok(pull)
}

/// Finds the open pull request of a branch. Not every server filters by branch, so each result is checked again.
fn find(client: &GithubClient, repo: &RepoName, request: &PullRequest) -> Result<Option<Value>, ApiFailure> {
    let (owner, branch) = request.head.split_once(':').unwrap_or((&*repo.owner, &*request.head));
    let head = url_component(&format!("{owner}:{branch}"));
    let path = format!("repos/{repo}/pulls?state=open&head={head}&base={}", url_component(&request.base));
    let found = client.list(&format!("list the pull requests of {repo}"), &path)?;
    Ok(found.into_iter().find(|pull| {
        let theirs = pull["head"]["repo"]["owner"]["login"].as_str().unwrap_or_default();
        pull["head"]["ref"] == branch
            && pull["base"]["ref"] == request.base
            && theirs.eq_ignore_ascii_case(owner)
    }))
}

fn open_pull(pull: &Value, created: bool) -> Result<OpenPullRequest> {
    match (pull["number"].as_u64(), pull["html_url"].as_str()) {
        (Some(number), Some(url)) => Ok(OpenPullRequest { number, url: url.to_owned(), created }),
        _ => Err(Error::failed("the server's response is not a pull request")),
    }
}

/// Finds the open pull request whose last commit is `sha`. A server does not always link a fork's commit to its pull request;
/// then the branch in `head` is used.
pub fn of_commit(
    client: &GithubClient,
    repo: &RepoName,
    sha: &str,
    head: Option<&(String, String)>,
) -> Result<Option<u64>, ApiFailure> {
    let operation = format!("find the pull request of commit {sha} in {repo}");
    let with_this_head = |pulls: Vec<Value>| {
        let open = pulls.into_iter().filter(|pull| pull["state"] == "open" && pull["head"]["sha"] == sha);
        open.filter_map(|pull| pull["number"].as_u64()).min()
    };
    match client.list(&operation, &format!("repos/{repo}/commits/{}/pulls", url_component(sha))) {
        // The server does not know the commit, or not this endpoint.
        Err(failure) if failure.is_status(&[404, 422]) => {}
        found => {
            if let Some(number) = with_this_head(found?) {
                return Ok(Some(number));
            }
        }
    }
    let Some((owner, branch)) = head else {
        return Ok(None);
    };
    let head = url_component(&format!("{owner}:{branch}"));
    client.list(&operation, &format!("repos/{repo}/pulls?state=open&head={head}")).map(with_this_head)
}
