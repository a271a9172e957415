//! Posts a comment where it belongs: on the pull request of the event, or in the step summary if the token cannot comment.

use super::client::GithubClient;
use super::environment::RunnerEnvironment;
use super::event::{CommentTarget, WebhookEvent};
use super::failure::ApiFailure;
use super::names::RepoName;
use super::pulls;
use super::step_files::StepFiles;
use super::sticky::{CommentContent, PostedComment, StickyComment};
use crate::error::{Error, Result};

pub enum CommentOutcome {
    Posted(PostedComment),
    NotPosted { why: String, warning: Option<String> },
}

/// Posts a comment to the pull request `number` of `repo`; by default to that of the event, in the repository of the workflow.
pub fn post_comment(
    content: &CommentContent<'_>,
    number: Option<u64>,
    repo: Option<&str>,
    environment: &RunnerEnvironment,
    event: Option<&WebhookEvent>,
) -> Result<CommentOutcome> {
    let not_posted = |why: &str| Ok(CommentOutcome::NotPosted { why: why.to_owned(), warning: None });
    let target = match (number, event) {
        (Some(number), _) => CommentTarget::Pull { number, fork: false },
        (None, Some(event)) => event.target()?,
        (None, None) => {
            return Err(Error::usage("no pull request: there is no CI event and no --pr")
                .hint("name it with --pr NUMBER and --repo OWNER/NAME"));
        }
    };
    let fork = matches!(target, CommentTarget::Pull { fork: true, .. });
    if target == CommentTarget::None {
        return not_posted("this event has no pull request");
    }
    let in_summary = |why: &str| Ok(write_to_summary(content.body, why));
    if fork && environment.token.is_none() {
        return in_summary("the pull request comes from a fork, and there is no token");
    }
    let repo = environment.repo(repo)?;
    let client = GithubClient::from_environment(environment)?;
    match post_to(content, &client, &repo, target) {
        Ok(Some(posted)) => Ok(CommentOutcome::Posted(posted)),
        Ok(None) => not_posted("no open pull request has this commit as its head"),
        Err(failure) if fork && failure.is_status(&[401, 403, 404]) => {
            in_summary("the pull request comes from a fork, whose token is read-only")
        }
        Err(failure) if failure.is_read_only() => {
            in_summary("the token is read-only; the job needs `permissions: pull-requests: write`")
        }
        Err(failure) => Err(failure.into()),
    }
}

/// `None` if the pull request cannot be found.
fn post_to(
    content: &CommentContent<'_>,
    client: &GithubClient,
    repo: &RepoName,
    target: CommentTarget,
) -> Result<Option<PostedComment>, ApiFailure> {
    let number = match target {
        CommentTarget::Pull { number, .. } => Some(number),
        CommentTarget::Commit { sha, head } => pulls::of_commit(client, repo, &sha, head.as_ref())?,
        CommentTarget::None => None,
    };
    let post = |number| StickyComment { client, repo, number, content }.post();
    number.map(post).transpose()
}

/// The fallback for a token that cannot comment.
fn write_to_summary(body: &str, why: &str) -> CommentOutcome {
    let written = StepFiles::from_environment().add_to_summary(body);
    let place = match written {
        Ok(true) => "its text is in the step summary",
        _ => "`decree report` prints its text",
    };
    let warning = written.err().map(|error| error.to_string());
    CommentOutcome::NotPosted { why: format!("{why}; {place}"), warning }
}
