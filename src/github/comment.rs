//! Posts a comment where it belongs: on the pull request of the event, or in the step summary if the token cannot comment.

use super::client::GithubClient;
use super::environment::RunnerEnvironment;
use super::event::{CommentTarget, WebhookEvent};
use super::failure::ApiFailure;
use super::names::{CommentKey, RepoName};
use super::pulls;
use super::step_files::StepFiles;
use super::sticky::{CommentMode, PostedComment, StickyComment};
use crate::error::{Error, Result};

/// A comment to be posted.
pub struct CommentRequest<'c> {
    /// The pull request; by default that of the event.
    pub number: Option<u64>,
    /// The repository; by default that of the workflow.
    pub repo: Option<&'c str>,
    pub key: &'c CommentKey,
    pub body: &'c str,
    pub author: Option<&'c str>,
    pub mode: CommentMode,
    pub has_content: bool,
}

pub enum CommentOutcome {
    Posted(PostedComment),
    NotPosted { why: String, warning: Option<String> },
}

impl CommentRequest<'_> {
    pub fn post(
        &self,
        environment: &RunnerEnvironment,
        event: Option<&WebhookEvent>,
    ) -> Result<CommentOutcome> {
        let not_posted = |why: &str| Ok(CommentOutcome::NotPosted { why: why.to_owned(), warning: None });
        let target = match (self.number, event) {
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
        if fork && environment.token.is_none() {
            return Ok(self.fall_back_to_summary("the pull request comes from a fork, and there is no token"));
        }
        let repo = environment.repo(self.repo)?;
        let client = GithubClient::from_environment(environment)?;
        match self.post_to(&client, &repo, target) {
            Ok(Some(posted)) => Ok(CommentOutcome::Posted(posted)),
            Ok(None) => not_posted("no open pull request has this commit as its head"),
            Err(failure) if fork && failure.is_status(&[401, 403, 404]) => {
                Ok(self.fall_back_to_summary("the pull request comes from a fork, whose token is read-only"))
            }
            Err(failure) if failure.is_read_only() => Ok(self.fall_back_to_summary(
                "the token is read-only; the job needs `permissions: pull-requests: write`",
            )),
            Err(failure) => Err(failure.into()),
        }
    }

    /// `None` if the pull request cannot be found.
    fn post_to(
        &self,
        client: &GithubClient,
        repo: &RepoName,
        target: CommentTarget,
    ) -> Result<Option<PostedComment>, ApiFailure> {
        let number = match target {
            CommentTarget::Pull { number, .. } => Some(number),
            CommentTarget::Commit { sha, head } => {
                let head = head.as_ref().map(|(owner, branch)| (owner.as_str(), branch.as_str()));
                pulls::of_commit(client, repo, &sha, head)?
            }
            CommentTarget::None => None,
        };
        let Some(number) = number else {
            return Ok(None);
        };
        let &CommentRequest { key, body, author, mode, has_content, .. } = self;
        StickyComment { client, repo, number, key, body, author, mode, has_content }.post().map(Some)
    }

    fn fall_back_to_summary(&self, why: &str) -> CommentOutcome {
        let written = StepFiles::from_environment().add_to_summary(self.body);
        let rest = match written {
            Ok(true) => "its text is in the step summary",
            _ => "`decree report` prints its text",
        };
        let warning = written.err().map(|error| error.to_string());
        CommentOutcome::NotPosted { why: format!("{why}; {rest}"), warning }
    }
}
