//! `decree comment`: posts a report to a pull request, in one comment that is updated in place.

use std::path::PathBuf;

use serde_json::json;

use super::{Context, Format};
use crate::error::{Error, Result};
use crate::github::commands::{Level, annotation};
use crate::github::event::WebhookEvent;
use crate::github::sticky::{self, CommentAction, CommentContent, CommentMode, PostedComment};
use crate::github::{CommentKey, CommentOutcome, RunnerEnvironment, in_actions, post_comment};
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
    pub(super) format: Format,
}

pub fn comment(context: &Context, args: &CommentArgs) -> Result<()> {
    let environment = RunnerEnvironment::here();
    let key = args.key.as_deref().map_or_else(|| environment.default_key(), CommentKey::new)?;
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
    let (author, has_content) = (args.author.as_deref(), !report.summary.messages.is_empty());
    let content = CommentContent { key: &key, body: &body, author, mode: args.mode, has_content };
    match post_comment(&content, args.pr, args.repo.as_deref(), &environment, event.as_ref())? {
        CommentOutcome::Posted(posted) => print_posted(context, args.format, &posted),
        CommentOutcome::NotPosted { why, warning } => {
            warning.iter().for_each(|warning| context.ui.warn(warning));
            print_skipped(context, args.format, &why)
        }
    }
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

fn print_posted(context: &Context, format: Format, posted: &PostedComment) -> Result<()> {
    for warning in &posted.warnings {
        context.ui.warn(warning);
    }
    let action = match posted.action {
        CommentAction::Created => "created",
        CommentAction::Updated => "updated",
        CommentAction::Unchanged => "unchanged",
        CommentAction::Skipped => {
            return print_skipped(context, format, "nothing was processed, and there is none to update");
        }
    };
    if let Some(url) = &posted.url {
        context.set_outputs(&[("url", url.clone())]);
    }
    context.ui.note(&format!("comment {action}"));
    match (format, &posted.url) {
        (Format::Json, url) => {
            context.ui.print(&format!("{}\n", json!({"action": action, "url": url, "id": posted.id})))
        }
        (Format::Text, Some(url)) => context.ui.print(&format!("{url}\n")),
        (Format::Text, None) => Ok(()),
    }
}

fn print_skipped(context: &Context, format: Format, why: &str) -> Result<()> {
    let why = format!("no comment: {why}");
    if in_actions() {
        context.ui.command(&annotation(Level::Notice, "decree", None, &why));
    } else {
        context.ui.note(&why);
    }
    match format {
        Format::Json => {
            let answer = json!({"action": "skipped", "url": null, "id": null, "reason": why});
            context.ui.print(&format!("{answer}\n"))
        }
        Format::Text => Ok(()),
    }
}
