//! The pull request for a pushed branch: its repository, its base and its title.

use super::publisher::PublishReport;
use super::repository::Repository;
use super::update_ref::BranchTarget;
use crate::error::{Error, Result};
use crate::github::{
    GithubClient, OpenPullRequest, PullRequest, RepoName, RunnerEnvironment, open_or_update,
};
use crate::sanitize::one_line;

/// Servers reject longer titles.
const TITLE: usize = 250;

/// The repository and base branch of the pull request. Created before anything is committed, so that missing settings fail early.
pub struct PullRequestApi {
    client: GithubClient,
    repo: RepoName,
    base: String,
}

/// What [`PullRequestApi::open`] puts into the pull request.
pub struct PullRequestOptions {
    /// The title; derived from the commits by default.
    pub title: Option<String>,
    pub body: String,
    pub draft: bool,
}

impl PullRequestApi {
    /// Uses the options of the command line, else the runner's variables.
    pub fn new(repository: &Repository, repo: Option<&str>, base: Option<&str>) -> Result<PullRequestApi> {
        let environment = RunnerEnvironment::here();
        let repo = environment.repo(repo)?;
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let base = base.map(str::to_owned).or_else(|| repository.branch.clone());
        let base = base.or_else(|| named("GITHUB_BASE_REF")).or_else(|| named("GITHUB_REF_NAME"));
        let base = base.ok_or_else(|| {
            Error::usage("HEAD is detached: there is no base branch for the pull request")
                .hint("name it with --base NAME")
        })?;
        repository.check_branch(&base)?;
        Ok(PullRequestApi { client: GithubClient::from_environment(&environment)?, repo, base })
    }

    /// Refuses a branch that is also the base.
    pub fn check(&self, branch: Option<&str>) -> Result<()> {
        if branch == Some(self.base.as_str()) {
            return Err(Error::usage(format!("{} cannot be merged into itself", self.base))
                .hint("omit --branch to use a new branch, or name another base with --base"));
        }
        Ok(())
    }

    /// Opens a pull request for the branch, or updates the open one.
    pub fn open(
        &self,
        published: &PublishReport,
        branch: &str,
        options: &PullRequestOptions,
    ) -> Result<OpenPullRequest> {
        self.check(Some(branch))?;
        let named = options.title.as_deref().map(one_line);
        let title = named.map_or_else(|| published.title(branch), Ok)?;
        let request = PullRequest {
            head: branch.to_owned(),
            base: self.base.clone(),
            title: title.chars().take(TITLE).collect(),
            body: options.body.clone(),
            draft: options.draft,
        };
        let opened = open_or_update(&self.client, &self.repo, &request);
        opened.map_err(|error| error.detail(format!("{branch} is pushed and stays pushed")))
    }
}

impl PublishReport {
    /// A title from the subjects of the commits.
    fn title(&self, branch: &str) -> Result<String> {
        let subjects: Vec<String> = match (&self.target, &self.repository.head, &self.tip) {
            // All commits of the branch, including those of earlier publishes.
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
