//! Finds the pull request that a CI event belongs to.

use std::io;

use serde_json::Value;

use super::environment::RunnerEnvironment;
use crate::error::{Error, IoContext, Result};
use crate::fs::untrusted;

/// The place where a comment for an event belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentTarget {
    Pull {
        number: u64,
        /// Whether it comes from a fork and the runner's token is therefore read-only for this event.
        fork: bool,
    },
    /// The pull request, if any, whose last commit is this one: only the server can resolve it.
    Commit {
        sha: String,
        /// The owner and the name of the branch, if the event names them.
        head: Option<(String, String)>,
    },
    None,
}

/// The event that started the workflow, with its payload if the runner provides one.
#[derive(Debug)]
pub struct WebhookEvent {
    name: String,
    payload: Value,
    git_ref: String,
}

impl WebhookEvent {
    /// Reads the event; `None` outside of a runner.
    pub fn read(environment: &RunnerEnvironment) -> Result<Option<Self>> {
        if environment.event_name.is_none() && environment.git_ref.is_none() {
            return Ok(None);
        }
        let name = environment.event_name.clone().unwrap_or_default();
        let payload = match &environment.event_path {
            None => Value::Null,
            Some(path) => match untrusted::read(path) {
                // A container job may not have the file mounted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
                read => serde_json::from_slice(&read.at("read", path)?).map_err(|error| {
                    Error::project(format!("{} (GITHUB_EVENT_PATH) is not a JSON event", path.display()))
                        .caused_by(error)
                })?,
            },
        };
        Ok(Some(WebhookEvent { name, payload, git_ref: environment.git_ref.clone().unwrap_or_default() }))
    }

    pub fn target(&self) -> Result<CommentTarget> {
        match self.name.as_str() {
            "issue_comment" => self.issue(),
            "workflow_run" => self.workflow_run(),
            name if name.starts_with("pull_request") => {
                Ok(self.pull_request().unwrap_or_else(|| self.by_ref()))
            }
            _ => Ok(self.by_ref()),
        }
    }

    /// The head commit of the pull request. The commit that is checked out may be GitHub's temporary merge instead.
    pub fn commit(&self) -> Option<&str> {
        let pull = self.payload["pull_request"]["head"]["sha"].as_str();
        pull.or(self.payload["workflow_run"]["head_sha"].as_str())
    }

    /// Whether the pull request comes from another repository, so that its branch does not exist in this one.
    pub fn is_from_fork(&self) -> bool {
        let pull = &self.payload["pull_request"];
        // A deleted fork has no repository, which also counts as another one.
        !pull.is_null() && pull["head"]["repo"]["full_name"] != pull["base"]["repo"]["full_name"]
    }

    fn pull_request(&self) -> Option<CommentTarget> {
        let number = self.payload["pull_request"]["number"].as_u64()?;
        Some(CommentTarget::Pull { number, fork: self.is_from_fork() && self.name != "pull_request_target" })
    }

    fn issue(&self) -> Result<CommentTarget> {
        let issue = &self.payload["issue"];
        match issue["number"].as_u64() {
            None => Err(self.unknown_target()),
            Some(_) if issue["pull_request"].is_null() => Ok(CommentTarget::None),
            Some(number) => Ok(CommentTarget::Pull { number, fork: false }),
        }
    }

    fn workflow_run(&self) -> Result<CommentTarget> {
        let (run, repository) = (&self.payload["workflow_run"], &self.payload["repository"]);
        let Some(sha) = run["head_sha"].as_str() else {
            return Err(self.unknown_target());
        };
        let here = |pull: &&Value| {
            let (theirs, ours) = (&pull["base"]["repo"]["id"], &repository["id"]);
            theirs.is_null() || ours.is_null() || theirs == ours
        };
        let pulls = run["pull_requests"].as_array().into_iter().flatten().filter(here);
        // One branch can have several pull requests; the oldest one is used.
        if let Some(number) = pulls.filter_map(|pull| pull["number"].as_u64()).min() {
            return Ok(CommentTarget::Pull { number, fork: false });
        }
        let head = &run["head_repository"];
        if !head.is_null() && head["full_name"] == repository["full_name"] {
            return Ok(CommentTarget::None);
        }
        let owner = head["owner"]["login"].as_str();
        let head = owner.zip(run["head_branch"].as_str());
        Ok(CommentTarget::Commit {
            sha: sha.to_owned(),
            head: head.map(|(owner, branch)| (owner.to_owned(), branch.to_owned())),
        })
    }

    fn by_ref(&self) -> CommentTarget {
        let number = self.git_ref.strip_prefix("refs/pull/").and_then(|rest| rest.split('/').next());
        match number.and_then(|number| number.parse().ok()) {
            Some(number) => CommentTarget::Pull { number, fork: false },
            None => CommentTarget::None,
        }
    }

    fn unknown_target(&self) -> Error {
        Error::project(format!("cannot determine the pull request of this `{}` event", self.name))
            .detail("the file that GITHUB_EVENT_PATH names does not contain it")
            .hint("name it with --pr NUMBER and, if needed, --repo OWNER/NAME")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(name: &str, payload: Value, git_ref: &str) -> CommentTarget {
        WebhookEvent { name: name.to_owned(), payload, git_ref: git_ref.to_owned() }.target().unwrap()
    }

    fn pull(number: u64, head: Value) -> Value {
        json!({"number": number, "pull_request": {
            "number": number,
            "head": {"sha": "abc", "ref": "fix", "repo": head},
            "base": {"ref": "main", "repo": {"full_name": "octo/repo"}},
        }})
    }

    #[test]
    fn a_pull_request_names_its_number_and_its_source() {
        let own = json!({"full_name": "octo/repo"});
        let fork = json!({"full_name": "guest/repo"});
        for (name, head, is_fork) in [
            ("pull_request", own, false),
            ("pull_request", fork.clone(), true),
            ("pull_request", Value::Null, true),
            ("pull_request_review", fork.clone(), true),
            ("pull_request_target", fork, false),
        ] {
            assert_eq!(
                target(name, pull(7, head), ""),
                CommentTarget::Pull { number: 7, fork: is_fork },
                "{name}"
            );
        }
    }

    #[test]
    fn a_workflow_run_names_its_pull_requests_or_its_commit() {
        let run = |pulls: Value, head: Value| {
            json!({
                "repository": {"id": 1, "full_name": "octo/repo"},
                "workflow_run": {"head_sha": "abc", "head_branch": "fix", "pull_requests": pulls, "head_repository": head},
            })
        };
        let own = json!({"full_name": "octo/repo", "owner": {"login": "octo"}});
        let fork = json!({"full_name": "guest/repo", "owner": {"login": "guest"}});
        let two = json!([{"number": 9, "base": {"repo": {"id": 1}}}, {"number": 8}, {"number": 2, "base": {"repo": {"id": 5}}}]);
        let found = |pulls, head| target("workflow_run", run(pulls, head), "refs/heads/main");
        assert_eq!(found(two, own.clone()), CommentTarget::Pull { number: 8, fork: false });
        assert_eq!(found(json!([]), own), CommentTarget::None);
        let head = Some(("guest".to_owned(), "fix".to_owned()));
        assert_eq!(found(json!([]), fork), CommentTarget::Commit { sha: "abc".to_owned(), head });
        assert_eq!(
            found(json!([]), Value::Null),
            CommentTarget::Commit { sha: "abc".to_owned(), head: None }
        );
    }

    #[test]
    fn for_other_events_the_ref_decides() {
        let number = |number| CommentTarget::Pull { number, fork: false };
        assert_eq!(target("pull_request", Value::Null, "refs/pull/12/merge"), number(12));
        assert_eq!(target("workflow_dispatch", json!({}), "refs/pull/3/head"), number(3));
        for other in ["refs/heads/main", "refs/pull/x/merge", "refs/tags/refs/pull/3", ""] {
            assert_eq!(target("push", json!({}), other), CommentTarget::None, "{other}");
        }
    }
}
