//! `decree comment`: posts a report to a pull request, in one comment that is updated in place.

use std::path::PathBuf;

use serde_json::json;

use super::{Context, Format};
use crate::error::{Error, Result};
use crate::github::commands::{Level, annotation};
use crate::github::event::{CommentTarget, WebhookEvent};
use crate::github::sticky::{self, CommentAction, CommentMode, PostedComment, StickyComment};
use crate::github::{
    ApiFailure, CommentKey, GithubClient, RepoName, RunnerEnvironment, StepFiles, in_actions, pulls,
};
use crate::process::redact::Redactor;
use crate::report::markdown::{self, Origin, WebAddress};
use crate::report::{Report, ReportLimits};

/// Post the report of the last `process` or `run` as a comment on a pull request, or update the existing comment
///
/// The pull request comes from the CI's event (pull_request, pull_request_target, issue_comment, workflow_run) or from --pr.
/// The token is DECREE_GITHUB_TOKEN, else GITHUB_TOKEN; the job needs `permissions: pull-requests: write`. Set GITHUB_API_URL
/// for GitHub Enterprise Server, Gitea or Forgejo. If the token is read-only, as for a fork, the text goes to the step summary
/// instead, and the command succeeds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree comment\n  decree comment --dry-run\n  decree comment --pr 12 --repo octocat/hello-world --key nightly\n  decree comment --summary artifact/summary.json --artifact-name decree-0 --artifact-url \"$URL\""
)]
pub struct CommentArgs {
    /// Read this summary instead of .decree/summary.json; its runs are in runs/ beside it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,

    /// The number of the pull request [default: from the CI's event]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pr: Option<u64>,

    /// The repository [default: GITHUB_REPOSITORY]
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,

    /// The key of the comment: each key has its own comment [default: workflow/job]
    #[arg(long)]
    key: Option<String>,

    /// How to treat existing comments with the same key
    #[arg(long, value_enum, default_value_t)]
    mode: CommentMode,

    /// The login that the token belongs to, for a GitHub App of your own
    #[arg(long, value_name = "LOGIN")]
    author: Option<String>,

    /// The URL of the artifact with all runs
    #[arg(long, value_name = "URL")]
    artifact_url: Option<String>,

    /// The name of the artifact
    #[arg(long, value_name = "NAME")]
    artifact_name: Option<String>,

    /// The maximum size of the comment in bytes
    #[arg(long, value_name = "BYTES", default_value_t = markdown::BUDGET as u32, value_parser = clap::value_parser!(u32).range(4_000..=65_000))]
    budget: u32,

    /// Print the text without posting it
    #[arg(long, conflicts_with = "format")]
    dry_run: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn comment(context: &Context, args: &CommentArgs) -> Result<()> {
    let environment = RunnerEnvironment::here();
    let key = match &args.key {
        Some(key) => CommentKey::new(key)?,
        None => environment.default_key()?,
    };
    let artifact_url = args.artifact_url.as_deref().map(web_address).transpose()?;
    let report = super::report::find(context, args.summary.as_deref(), ReportLimits::EXCERPTS)?;
    let event = WebhookEvent::read(&environment)?;
    let origin = Origin {
        run: environment.run_id,
        attempt: environment.run_attempt,
        run_url: environment.run_url().and_then(|url| WebAddress::parse(&url)),
        commit: event
            .as_ref()
            .and_then(WebhookEvent::commit)
            .or(environment.sha.as_deref())
            .map(str::to_owned),
        artifact_name: args.artifact_name.clone(),
        artifact_url,
    };
    let body = body(&report, &key, &origin, args.budget as usize);
    if args.dry_run {
        return context.ui.print(&body);
    }
    let post = Post { context, args, environment: &environment, key: &key, report: &report, body: &body };
    post.post(event.as_ref())
}

fn web_address(text: &str) -> Result<WebAddress> {
    WebAddress::parse(text).ok_or_else(|| {
        Error::usage("--artifact-url is not a web URL")
            .hint("it has to begin with https:// or http:// and contain no brackets, quotes or spaces")
    })
}

/// Renders the comment. The report is redacted already; the command line's values are redacted here.
fn body(report: &Report, key: &CommentKey, origin: &Origin, budget: usize) -> String {
    let secrets = Redactor::of_this_process();
    markdown::comment(report, &key.marker(), origin, budget - sticky::POST_ID_ROOM, |text| {
        secrets.redact(text).into_owned()
    })
}

/// One invocation of the command.
struct Post<'p> {
    context: &'p Context,
    args: &'p CommentArgs,
    environment: &'p RunnerEnvironment,
    key: &'p CommentKey,
    report: &'p Report,
    body: &'p str,
}

impl Post<'_> {
    fn post(&self, event: Option<&WebhookEvent>) -> Result<()> {
        let target = match (self.args.pr, event) {
            (Some(number), _) => CommentTarget::Pull { number, fork: false },
            (None, Some(event)) => event.target()?,
            (None, None) => {
                return Err(Error::usage("no pull request: there is no CI event and no --pr")
                    .hint("name it with --pr NUMBER and --repo OWNER/NAME"));
            }
        };
        let fork = matches!(target, CommentTarget::Pull { fork: true, .. });
        if target == CommentTarget::None {
            return self.skip("no comment: this event has no pull request");
        }
        if fork && self.environment.token.is_none() {
            return self.fall_back_to_summary("the pull request comes from a fork, and there is no token");
        }
        let repo = self.environment.repo(self.args.repo.as_deref())?;
        let client = GithubClient::from_environment(self.environment)?;
        match self.deliver(&client, &repo, target) {
            Ok(Some(result)) => self.report_result(&result),
            Ok(None) => self.skip("no comment: no open pull request has this commit as its head"),
            Err(failure) if fork && failure.is_status(&[401, 403, 404]) => {
                self.fall_back_to_summary("the pull request comes from a fork, whose token is read-only")
            }
            Err(failure) if failure.is_read_only() => self.fall_back_to_summary(
                "the token is read-only; the job needs `permissions: pull-requests: write`",
            ),
            Err(failure) => Err(failure.into()),
        }
    }

    /// `None` if the pull request cannot be found.
    fn deliver(
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
        let comment = StickyComment {
            client,
            repo,
            number,
            key: self.key,
            body: self.body,
            author: self.args.author.as_deref(),
            mode: self.args.mode,
            has_content: !self.report.summary.messages.is_empty(),
        };
        comment.post().map(Some)
    }

    fn report_result(&self, result: &PostedComment) -> Result<()> {
        for warning in &result.warnings {
            self.context.ui.warn(warning);
        }
        let action = match result.action {
            CommentAction::Created => "created",
            CommentAction::Updated => "updated",
            CommentAction::Unchanged => "unchanged",
            CommentAction::Skipped => {
                return self.skip("no comment: nothing was processed, and there is none to update");
            }
        };
        if let Some(url) = &result.url
            && let Err(error) = StepFiles::from_environment().set_outputs(&[("url", url.clone())])
        {
            self.context.ui.warn(&format!("cannot set the step's outputs: {error}"));
        }
        self.context.ui.note(&format!("comment {action}"));
        match (self.args.format, &result.url) {
            (Format::Json, url) => self.print_json(json!({"action": action, "url": url, "id": result.id})),
            (Format::Text, Some(url)) => self.context.ui.print(&format!("{url}\n")),
            (Format::Text, None) => Ok(()),
        }
    }

    fn skip(&self, why: &str) -> Result<()> {
        if in_actions() {
            self.context.ui.command(&annotation(Level::Notice, "decree", None, why));
        } else {
            self.context.ui.note(why);
        }
        match self.args.format {
            Format::Json => {
                self.print_json(json!({"action": "skipped", "url": null, "id": null, "reason": why}))
            }
            Format::Text => Ok(()),
        }
    }

    /// Writes the text to the step summary, because the token cannot comment.
    fn fall_back_to_summary(&self, why: &str) -> Result<()> {
        let written = StepFiles::from_environment().add_to_summary(self.body).unwrap_or_else(|error| {
            self.context.ui.warn(&error.to_string());
            false
        });
        let rest =
            if written { "its text is in the step summary" } else { "`decree report` prints its text" };
        self.skip(&format!("no comment: {why}; {rest}"))
    }

    fn print_json(&self, value: serde_json::Value) -> Result<()> {
        self.context.ui.print(&format!("{value}\n"))
    }
}
