//! A pull request for a branch that was pushed: who is asked, for what, and what it is called.

use super::publisher::PublishReport;
use super::repository::Repository;
use super::update_ref::BranchTarget;
use crate::error::{Error, ErrorKind, Result};
use crate::github::{
    GithubClient, OpenPullRequest, PullRequest, RepoName, RunnerEnvironment, open_or_update,
};
use crate::sanitize::one_line;

/// Servers take no longer titles.
const TITLE: usize = 250;

/// Whom to ask. Made before anything is done, so that what is missing costs nothing.
pub struct PullRequestApi {
    client: GithubClient,
    repo: RepoName,
    base: String,
}

/// What to ask for.
pub struct PullRequestOptions {
    /// What it is called; after its commits, unless told.
    pub title: Option<String>,
    /// Markdown.
    pub body: String,
    /// Whether it is not ready yet.
    pub draft: bool,
}

impl PullRequestApi {
    /// From what the command line says, and else from what the runner does.
    pub fn new(repository: &Repository, repo: Option<&str>, base: Option<&str>) -> Result<PullRequestApi> {
        let environment = RunnerEnvironment::here();
        let repo = match repo {
            Some(repo) => RepoName::parse(repo)?,
            None => environment.repo()?.ok_or_else(|| {
                Error::new(ErrorKind::Usage, "which repository? GITHUB_REPOSITORY is not set")
                    .hint("--repo OWNER/NAME says it")
            })?,
        };
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let base = base.map(str::to_owned).or_else(|| repository.branch.clone());
        let base = base.or_else(|| named("GITHUB_BASE_REF")).or_else(|| named("GITHUB_REF_NAME"));
        let base = base.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "HEAD is detached: which branch is the pull request for?")
                .hint("--base NAME says it")
        })?;
        repository.check_branch(&base)?;
        Ok(PullRequestApi { client: GithubClient::from_environment(&environment)?, repo, base })
    }

    /// A branch cannot ask to be taken into itself.
    pub fn check(&self, branch: Option<&str>) -> Result<()> {
        match branch == Some(self.base.as_str()) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Usage, format!("{} cannot be taken into itself", self.base))
                .hint("leave --branch out for a branch of its own, or name another with --base")),
        }
    }

    /// Opens it, or brings the one that is open up to date.
    pub fn ask(
        &self,
        published: &PublishReport,
        branch: &str,
        wish: &PullRequestOptions,
    ) -> Result<OpenPullRequest> {
        self.check(Some(branch))?;
        let title = match &wish.title {
            Some(title) => one_line(title),
            None => published.title(branch)?,
        };
        let wanted = PullRequest {
            head: branch.to_owned(),
            base: self.base.clone(),
            title: title.chars().take(TITLE).collect(),
            body: wish.body.clone(),
            draft: wish.draft,
        };
        let opened = open_or_update(&self.client, &self.repo, &wanted);
        opened.map_err(|error| error.detail(format!("{branch} is pushed, and stays")))
    }
}

impl PublishReport {
    /// What its commits are called, in a line.
    fn title(&self, branch: &str) -> Result<String> {
        let subjects: Vec<String> = match (&self.target, &self.repository.head, &self.tip) {
            // All that are on the branch, also from earlier.
            (BranchTarget::Branch(_), Some(head), Some(tip)) => {
                let range = format!("{head}..{tip}");
                let log = self.repository.git.call(["log", "--reverse", "--format=%s", &range, "--"]).ok()?;
                String::from_utf8_lossy(&log.out).lines().map(str::to_owned).collect()
            }
            _ => self.commits.iter().map(|commit| commit.subject.clone()).collect(),
        };
        let title = match &subjects[..] {
            [] => branch.to_owned(),
            [only] => only.clone(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
        };
        Ok(one_line(&self.repository.git.printable(&title)))
    }
}
