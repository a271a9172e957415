//! Delivers commits: pushes them to a branch, and opens the pull request.

use std::path::Path;

use super::publisher::PublishReport;
use super::pull_request::{PullRequestApi, PullRequestOptions};
use super::push::push;
use super::repository::Repository;
use crate::error::{Error, Result};
use crate::github::event::WebhookEvent;
use crate::github::{OpenPullRequest, RunnerEnvironment};

#[derive(Default)]
pub struct Delivery {
    /// The branch that was pushed.
    pub pushed: Option<String>,
    pub pull_request: Option<OpenPullRequest>,
}

impl Delivery {
    /// Pushes the commits to the branch of the same name in `remote`, then opens the pull request. What was done before a failure
    /// is recorded. `scratch` is a directory for temporary files.
    pub fn deliver(
        &mut self,
        published: &PublishReport,
        scratch: &Path,
        remote: &str,
        pull_request: Option<&PullRequestApi>,
        options: impl FnOnce() -> Result<PullRequestOptions>,
    ) -> Result<()> {
        let branch = branch_to_push(published.branch.as_deref())?;
        published.repository.check_branch(&branch)?;
        let tip = published.tip.as_deref().expect("a branch with commits has a last one");
        push(&published.repository, &RunnerEnvironment::here(), scratch, remote, tip, &branch)?;
        self.pushed = Some(branch.clone());
        if let Some(api) = pull_request {
            self.pull_request = Some(api.open(published, &branch, &options()?)?);
        }
        Ok(())
    }
}

/// Refuses a push without a branch, before anything is committed. `named` is the branch of the command line.
pub fn check_push(repository: &Repository, named: Option<&str>) -> Result<()> {
    branch_to_push(named.or(repository.branch.as_deref())).map(drop)
}

/// The branch with the commits, else the head branch of the checked-out pull request. Not for a fork: a branch of the same name in
/// this repository is another branch, and a push would add unreviewed commits to it.
fn branch_to_push(branch: Option<&str>) -> Result<String> {
    if let Some(branch) = branch {
        return Ok(branch.to_owned());
    }
    let environment = RunnerEnvironment::here();
    if let Some(branch) = &environment.head_ref
        && !WebhookEvent::read(&environment)?.is_some_and(|event| event.is_from_fork())
    {
        return Ok(branch.clone());
    }
    Err(Error::usage("HEAD is detached: there is no branch to push to")
        .detail("nothing was done")
        .hint("name one: `decree publish --push --branch NAME`"))
}
