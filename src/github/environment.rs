//! What a CI runner tells of itself.

use std::path::PathBuf;
use std::time::Duration;

use super::names::{ApiToken, CommentKey, RepoName};
use crate::error::{Error, Result};

/// Where the API is, unless the runner says otherwise.
const PUBLIC_API: &str = "https://api.github.com";
/// Internal: how long the first wait between two tries is, in milliseconds. For tests; nobody should need it.
const BACKOFF: &str = "DECREE_INTERNAL_BACKOFF_MS";

/// The variables that a runner sets. An empty one counts as none.
#[derive(Clone, Debug)]
pub struct RunnerEnvironment {
    /// Whether this is GitHub Actions or its kin, whose logs take commands.
    pub is_actions: bool,
    /// What happened: `pull_request`.
    pub event_name: Option<String>,
    /// Where that is told in full.
    pub event_path: Option<PathBuf>,
    /// Where it happened.
    pub repository: Option<String>,
    /// What is checked out: `refs/pull/12/merge`.
    pub git_ref: Option<String>,
    /// The commit that is checked out.
    pub sha: Option<String>,
    /// Where the API is.
    pub api_url: String,
    /// Where people look.
    pub server_url: Option<String>,
    /// The run's number.
    pub run_id: Option<u64>,
    /// Which attempt of it this is.
    pub run_attempt: Option<u64>,
    /// The workflow's name.
    pub workflow: Option<String>,
    /// The job's id.
    pub job: Option<String>,
    token: Option<String>,
    backoff: Option<Duration>,
}

impl RunnerEnvironment {
    /// That of this process.
    pub fn here() -> Self {
        RunnerEnvironment::new(|name| std::env::var(name).ok())
    }

    /// Of any variables.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let number = |name: &str| text(name).and_then(|value| value.trim().parse().ok());
        RunnerEnvironment {
            is_actions: text("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
            event_name: text("GITHUB_EVENT_NAME"),
            event_path: text("GITHUB_EVENT_PATH").map(PathBuf::from),
            repository: text("GITHUB_REPOSITORY"),
            git_ref: text("GITHUB_REF"),
            sha: text("GITHUB_SHA"),
            api_url: text("GITHUB_API_URL").unwrap_or_else(|| PUBLIC_API.to_owned()),
            server_url: text("GITHUB_SERVER_URL"),
            run_id: number("GITHUB_RUN_ID"),
            run_attempt: number("GITHUB_RUN_ATTEMPT"),
            workflow: text("GITHUB_WORKFLOW"),
            job: text("GITHUB_JOB"),
            token: text("DECREE_GITHUB_TOKEN").or_else(|| text("GITHUB_TOKEN")),
            backoff: number(BACKOFF).map(Duration::from_millis),
        }
    }

    /// Whether there is a token at all.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The token, which has to be there.
    pub fn token(&self) -> Result<ApiToken> {
        match &self.token {
            Some(token) => ApiToken::new(token),
            None => Err(Error::project("there is no token: neither DECREE_GITHUB_TOKEN nor GITHUB_TOKEN is set")
                .hint("in a workflow: `env: { GITHUB_TOKEN: ${{ github.token }} }` and `permissions: pull-requests: write`")),
        }
    }

    /// The first wait between two tries, if it is not the usual one.
    pub fn backoff(&self) -> Option<Duration> {
        self.backoff
    }

    /// Where it happened, as a repository.
    pub fn repo(&self) -> Result<Option<RepoName>> {
        self.repository.as_deref().map(RepoName::parse).transpose()
    }

    /// The key of a comment that is given none: each job of each workflow has its own.
    pub fn default_key(&self) -> Result<CommentKey> {
        match (&self.workflow, &self.job) {
            (Some(workflow), Some(job)) => CommentKey::new(&format!("{workflow}/{job}")),
            _ => CommentKey::new("decree"),
        }
    }

    /// The address of this run for people.
    pub fn run_url(&self) -> Option<String> {
        let (server, repo) = (self.server_url.as_deref()?, self.repo().ok()??);
        let server = server.trim_end_matches('/');
        Some(format!("{server}/{repo}/actions/runs/{}", self.run_id?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &'static [(&str, &str)]) -> RunnerEnvironment {
        RunnerEnvironment::new(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_variable_is_none() {
        let found =
            environment(&[("DECREE_GITHUB_TOKEN", ""), ("GITHUB_TOKEN", "abc"), ("GITHUB_API_URL", "")]);
        assert!(found.has_token());
        assert_eq!(found.api_url, "https://api.github.com");
        assert!(environment(&[("GITHUB_TOKEN", " ")]).token().is_err());
    }

    /// CMT-02.
    #[test]
    fn each_job_has_its_own_key() {
        let key = |variables| environment(variables).default_key().unwrap();
        assert_eq!(
            key(&[("GITHUB_WORKFLOW", "CI"), ("GITHUB_JOB", "work")]),
            CommentKey::new("CI/work").unwrap()
        );
        assert_eq!(key(&[("GITHUB_JOB", "work")]), CommentKey::new("decree").unwrap());
    }

    #[test]
    fn a_run_has_an_address_if_everything_of_it_is_known() {
        let found = environment(&[
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "octo/repo"),
            ("GITHUB_RUN_ID", "123"),
        ]);
        assert_eq!(found.run_url().unwrap(), "https://github.com/octo/repo/actions/runs/123");
        assert_eq!(environment(&[("GITHUB_RUN_ID", "123")]).run_url(), None);
    }
}
