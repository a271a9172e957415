//! The environment variables that a CI runner sets.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;

use super::names::{CommentKey, RepoName};
use crate::error::{Error, Result};

/// The API that is used unless the runner names another.
const PUBLIC_API: &str = "https://api.github.com";
/// Internal, for tests: the first wait between two attempts, in milliseconds.
const BACKOFF: &str = "DECREE_INTERNAL_BACKOFF_MS";

/// The runner's variables. An empty value counts as unset.
pub struct RunnerEnvironment {
    /// The event that started the workflow, such as `pull_request`.
    pub event_name: Option<String>,
    /// The file with the event's payload.
    pub event_path: Option<PathBuf>,
    pub repository: Option<String>,
    /// The ref that is checked out, such as `refs/pull/12/merge`.
    pub git_ref: Option<String>,
    /// The head branch of the pull request that started the workflow.
    pub head_ref: Option<String>,
    /// The hash of the commit that is checked out.
    pub sha: Option<String>,
    pub api_url: String,
    pub server_url: Option<String>,
    pub run_id: Option<u64>,
    pub run_attempt: Option<u64>,
    pub workflow: Option<String>,
    pub job: Option<String>,
    pub token: Option<String>,
    /// The first wait between two attempts, if a test overrides it.
    pub backoff: Option<Duration>,
}

impl RunnerEnvironment {
    /// Reads the environment of this process.
    pub fn here() -> Self {
        RunnerEnvironment::new(|name| std::env::var(name).ok())
    }

    /// Builds it from any source of variables.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let number = |name: &str| text(name).and_then(|value| value.trim().parse().ok());
        RunnerEnvironment {
            event_name: text("GITHUB_EVENT_NAME"),
            event_path: text("GITHUB_EVENT_PATH").map(PathBuf::from),
            repository: text("GITHUB_REPOSITORY"),
            git_ref: text("GITHUB_REF"),
            head_ref: text("GITHUB_HEAD_REF"),
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

    /// The header with the token, or an error that names the variables to set. Its `Debug` does not show the token.
    pub fn authorization(&self) -> Result<HeaderValue> {
        let token = self.token.as_deref().ok_or_else(|| {
            Error::project("there is no token: set DECREE_GITHUB_TOKEN or GITHUB_TOKEN")
                .hint("in a workflow: `env: { GITHUB_TOKEN: ${{ github.token }} }` and `permissions: pull-requests: write`")
        })?;
        if !token.trim().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::project("the token contains characters that no token has")
                .hint("check how DECREE_GITHUB_TOKEN or GITHUB_TOKEN is set; it is not shown here"));
        }
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .expect("a header can hold all of ASCII that is printed");
        header.set_sensitive(true);
        Ok(header)
    }

    /// The repository that an option names, else the one that the workflow runs in.
    pub fn repo(&self, named: Option<&str>) -> Result<RepoName> {
        let repository = named.or(self.repository.as_deref()).ok_or_else(|| {
            Error::usage("no repository: GITHUB_REPOSITORY is not set").hint("name it with --repo OWNER/NAME")
        })?;
        RepoName::parse(repository)
    }

    /// The default comment key: each job of each workflow has its own.
    pub fn default_key(&self) -> Result<CommentKey> {
        match (&self.workflow, &self.job) {
            (Some(workflow), Some(job)) => CommentKey::new(&format!("{workflow}/{job}")),
            _ => CommentKey::new("decree"),
        }
    }

    pub fn run_url(&self) -> Option<String> {
        let (server, repo) = (self.server_url.as_deref()?, self.repo(None).ok()?);
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
    fn an_empty_variable_counts_as_unset() {
        let found =
            environment(&[("DECREE_GITHUB_TOKEN", ""), ("GITHUB_TOKEN", "abc"), ("GITHUB_API_URL", "")]);
        assert_eq!(found.token.as_deref(), Some("abc"));
        assert_eq!(found.api_url, "https://api.github.com");
        assert!(environment(&[("GITHUB_TOKEN", " ")]).authorization().is_err());
    }

    #[test]
    fn a_token_is_never_shown() {
        let header = environment(&[("GITHUB_TOKEN", " ghs_secret\n")]).authorization().unwrap();
        assert_eq!(
            (format!("{header:?}").as_str(), header.as_bytes()),
            ("Sensitive", &b"Bearer ghs_secret"[..])
        );
        let error = environment(&[("GITHUB_TOKEN", "ghs_se cret")]).authorization().unwrap_err();
        assert!(!format!("{error:?}").contains("cret\""), "{error:?}");
    }

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
    fn a_run_has_a_url_if_all_its_parts_are_known() {
        let found = environment(&[
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "octo/repo"),
            ("GITHUB_RUN_ID", "123"),
        ]);
        assert_eq!(found.run_url().unwrap(), "https://github.com/octo/repo/actions/runs/123");
        assert_eq!(environment(&[("GITHUB_RUN_ID", "123")]).run_url(), None);
    }
}
