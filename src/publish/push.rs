//! Pushing: plainly, never by force.

use std::ffi::OsString;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::repository::Repository;
use crate::error::{Error, Result};

/// Where GitHub is, unless the runner says otherwise.
const GITHUB: &str = "https://github.com";

/// What the environment offers to authenticate with.
#[derive(Default)]
pub struct Access {
    /// `DECREE_GITHUB_TOKEN`, or else `GITHUB_TOKEN`.
    pub token: Option<String>,
    /// `GITHUB_SERVER_URL`.
    pub server: Option<String>,
}

impl Access {
    /// From a function that knows variables.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Access {
        Access {
            token: variable("DECREE_GITHUB_TOKEN").or_else(|| variable("GITHUB_TOKEN")),
            server: variable("GITHUB_SERVER_URL"),
        }
    }

    /// The token as git sends it. It is a secret like the token.
    pub fn basic(&self) -> Option<String> {
        self.token.as_ref().map(|token| STANDARD.encode(format!("x-access-token:{token}")))
    }

    /// Variables that let git speak to the server of this URL, and to no other.
    fn variables(&self, repository: &Repository, url: &str) -> Result<Vec<(OsString, OsString)>> {
        let server = self.server.as_deref().unwrap_or(GITHUB).trim_end_matches('/');
        let (Some(basic), true) = (self.basic(), is_below(url, server)) else {
            return Ok(Vec::new());
        };
        // Who configured a header (as actions/checkout does) wants that one; two are refused by the server.
        if repository.git.config(&["--get-urlmatch", "http.extraheader", url])?.is_some() {
            return Ok(Vec::new());
        }
        let settings = [
            (format!("http.{server}/.extraheader"), format!("AUTHORIZATION: basic {basic}")),
            // No program that the repository's settings name is to be asked, or told.
            ("credential.helper".to_owned(), String::new()),
            ("core.askPass".to_owned(), String::new()),
        ];
        let count =
            repository.git.variable("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse().ok());
        let first: usize = count.unwrap_or(0);
        let mut variables = vec![("GIT_CONFIG_COUNT".into(), (first + settings.len()).to_string().into())];
        for (number, (key, value)) in (first..).zip(settings) {
            variables.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        Ok(variables)
    }
}

/// Whether a URL is one of an https server's. A name that only begins like the server's is not.
fn is_below(url: &str, server: &str) -> bool {
    server.starts_with("https://") && url.strip_prefix(server).is_some_and(|rest| rest.starts_with('/'))
}

/// Pushes a commit to a branch of a remote.
pub fn push(
    repository: &Repository,
    access: &Access,
    remote: &str,
    commit: &str,
    branch: &str,
) -> Result<()> {
    let url = repository.git.call(["remote", "get-url", "--push", "--", remote]).run()?;
    // A remote may be named by its URL.
    let url = if url.is_ok() { url.line() } else { remote.to_owned() };
    let refspec = format!("{commit}:refs/heads/{branch}");
    let mut call = repository.git.call(["push", "--no-follow-tags", "--", remote, &refspec]);
    for (name, value) in access.variables(repository, &url)? {
        call = call.variable(name, value);
    }
    let answer = call.run()?;
    if answer.is_ok() {
        return Ok(());
    }
    let behind = ["(fetch first)", "(non-fast-forward)", "(stale info)"];
    let is_behind = behind.iter().any(|word| answer.err.contains(word));
    let lines: Vec<String> =
        answer.err.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    let remote = repository.git.shown(remote);
    let (what, hint) = match is_behind {
        true => (
            format!("{remote} did not take the push: {branch} has commits there that are not here"),
            format!("`git pull --rebase {remote} {branch}`, then `decree publish --push` again; decree never forces"),
        ),
        false => (
            format!("cannot push to {branch} of {remote}"),
            "check the remote and the right to write to it (in GitHub Actions: `permissions: contents: write`), then `decree publish --push` again".to_owned(),
        ),
    };
    Err(Error::failed(what).details(lines, 20).detail("the commits are here and stay").hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_its_server_only() {
        assert!(is_below("https://github.com/o/r.git", GITHUB));
        for url in [
            "https://github.com.evil.example/o/r",
            "https://evil.example/https://github.com/",
            "http://github.com/o/r",
            "git@github.com:o/r.git",
            "https://user@github.com/o/r",
        ] {
            assert!(!is_below(url, GITHUB), "{url}");
        }
        assert!(!is_below("http://localhost/o", "http://localhost"));
    }
}
