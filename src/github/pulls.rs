//! One open pull request for a branch: opened, or brought up to date.

use serde_json::{Value, json};

use super::client::GithubClient;
use super::encode::component;
use super::failure::ApiFailure;
use super::names::RepoName;
use crate::error::{Error, Result};

/// What a pull request should be.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The branch with the change; `owner:branch` if it is in a fork.
    pub head: String,
    /// The branch that should have it.
    pub base: String,
    /// One line.
    pub title: String,
    /// Markdown.
    pub body: String,
    /// Whether it is not ready yet.
    pub draft: bool,
}

/// A pull request that is open now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPullRequest {
    /// Its number.
    pub number: u64,
    /// Its address for people.
    pub url: String,
    /// Whether it was not there before.
    pub created: bool,
}

/// Opens a pull request for a branch, or gives the one that is open the title and the text. Never opens two.
pub fn open_or_update(
    client: &GithubClient,
    repo: &RepoName,
    wanted: &PullRequest,
) -> Result<OpenPullRequest> {
    if let Some(found) = find(client, repo, wanted)? {
        return update(client, repo, wanted, &found);
    }
    let body = json!({
        "title": wanted.title,
        "head": wanted.head,
        "base": wanted.base,
        "body": wanted.body,
        "draft": wanted.draft,
    });
    let doing = format!("open a pull request in {repo}");
    let made = client.create(&doing, &format!("repos/{repo}/pulls"), &body, || find(client, repo, wanted));
    match made {
        Ok(made) => opened(&made, true),
        // Somebody else was faster: a branch has one only.
        Err(failure) if failure.is_status(422) || failure.is_status(409) => {
            match find(client, repo, wanted)? {
                Some(found) => update(client, repo, wanted, &found),
                None => Err(failure.into()),
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

fn update(
    client: &GithubClient,
    repo: &RepoName,
    wanted: &PullRequest,
    found: &Value,
) -> Result<OpenPullRequest> {
    let opened = opened(found, false)?;
    if found["title"] != wanted.title || found["body"].as_str().unwrap_or_default() != wanted.body {
        let number = opened.number;
        let body = json!({"title": wanted.title, "body": wanted.body});
        client.patch(
            &format!("change pull request {repo}#{number}"),
            &format!("repos/{repo}/pulls/{number}"),
            &body,
        )?;
    }
    Ok(opened)
}

/// The open one for this branch. Not every server knows how to look for a branch, so that what it finds is looked at.
fn find(client: &GithubClient, repo: &RepoName, wanted: &PullRequest) -> Result<Option<Value>, ApiFailure> {
    let (owner, branch) = wanted.head.split_once(':').unwrap_or((repo.owner(), &wanted.head));
    let head = component(&format!("{owner}:{branch}"));
    let path = format!("repos/{repo}/pulls?state=open&head={head}&base={}", component(&wanted.base));
    let found = client.list(&format!("list the pull requests of {repo}"), &path)?;
    Ok(found.into_iter().find(|pull| {
        let theirs = pull["head"]["repo"]["owner"]["login"].as_str().unwrap_or_default();
        pull["head"]["ref"] == branch
            && pull["base"]["ref"] == wanted.base
            && theirs.eq_ignore_ascii_case(owner)
    }))
}

fn opened(pull: &Value, created: bool) -> Result<OpenPullRequest> {
    match (pull["number"].as_u64(), pull["html_url"].as_str()) {
        (Some(number), Some(url)) => Ok(OpenPullRequest { number, url: url.to_owned(), created }),
        _ => Err(Error::failed("the server's answer is not a pull request")),
    }
}

/// The open pull request whose last commit is this one. A fork's commit is not always known to belong to it; then its
/// branch is looked for.
pub fn of_commit(
    client: &GithubClient,
    repo: &RepoName,
    sha: &str,
    head: Option<(&str, &str)>,
) -> Result<Option<u64>, ApiFailure> {
    let doing = format!("find the pull request of commit {sha} in {repo}");
    let ends_there = |pulls: Vec<Value>| {
        let open = pulls.into_iter().filter(|pull| pull["state"] == "open" && pull["head"]["sha"] == sha);
        open.filter_map(|pull| pull["number"].as_u64()).min()
    };
    match client.list(&doing, &format!("repos/{repo}/commits/{}/pulls", component(sha))) {
        // A commit that is not known here, or a server that does not know the question.
        Err(failure) if failure.is_status(404) || failure.is_status(422) => {}
        found => {
            if let Some(number) = ends_there(found?) {
                return Ok(Some(number));
            }
        }
    }
    let Some((owner, branch)) = head else {
        return Ok(None);
    };
    let head = component(&format!("{owner}:{branch}"));
    client.list(&doing, &format!("repos/{repo}/pulls?state=open&head={head}")).map(ends_there)
}
