//! `decree comment`

use std::path::PathBuf;

use serde_json::json;

use super::{Context, Format};
use crate::error::{Error, ErrorKind, Result};
use crate::github::commands::{Level, annotation};
use crate::github::event::{CommentTarget, WebhookEvent};
use crate::github::sticky::{self, CommentAction, PostedComment, StickyComment};
use crate::github::{ApiFailure, CommentKey, GithubClient, RepoName, RunnerEnvironment, StepFiles, pulls};
use crate::process::redact::Redactor;
use crate::report::markdown::{self, Artifact, Origin, WebAddress};
use crate::report::{Report, ReportLimits};

/// Post what the last `process` or `run` did as a comment on the pull request, or bring the one that is there up to date
///
/// Which pull request: what the CI's event says (pull_request, pull_request_target, issue_comment, workflow_run), or --pr.
/// The token is DECREE_GITHUB_TOKEN, else GITHUB_TOKEN; the job needs `permissions: pull-requests: write`. GITHUB_API_URL leads
/// to GitHub Enterprise Server, Gitea or Forgejo. With a token that may only read, as a fork's, the text goes to the step
/// summary, and that is no failure.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree comment\n  decree comment --dry-run\n  decree comment --pr 12 --repo octocat/hello-world --key nightly\n  decree comment --summary artifact/summary.json --artifact-name decree-0 --artifact-url \"$URL\""
)]
pub struct CommentArgs {
    /// A summary from elsewhere; its runs are looked for in runs/ beside it
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,

    /// The pull request, if the CI's event does not say it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pr: Option<u64>,

    /// The repository, if GITHUB_REPOSITORY does not say it
    #[arg(long, value_name = "OWNER/NAME")]
    repo: Option<String>,

    /// Which comment: each key has its own [default: workflow/job]
    #[arg(long)]
    key: Option<String>,

    /// What to do with the comments that are there
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,

    /// Who writes, if it is a GitHub App of yours: its comments are found by this name
    #[arg(long, value_name = "LOGIN")]
    author: Option<String>,

    /// Where the artifact with all runs is
    #[arg(long, value_name = "URL")]
    artifact_url: Option<String>,

    /// What the artifact is called
    #[arg(long, value_name = "NAME")]
    artifact_name: Option<String>,

    /// The longest text, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = markdown::BUDGET as u32, value_parser = clap::value_parser!(u32).range(4_000..=65_000))]
    budget: u32,

    /// Print the text, and post nothing
    #[arg(long, conflicts_with = "format")]
    dry_run: bool,

    /// How to say what was done
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// Change ours, or create it
    #[default]
    Update,
    /// Create another one
    New,
    /// Create another one, then delete ours
    DeleteOld,
}

impl From<Mode> for sticky::CommentMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Update => sticky::CommentMode::Update,
            Mode::New => sticky::CommentMode::New,
            Mode::DeleteOld => sticky::CommentMode::DeleteOld,
        }
    }
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
        artifact: Artifact { name: args.artifact_name.clone(), url: artifact_url },
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
        Error::new(ErrorKind::Usage, "--artifact-url is not an address of the web")
            .hint("it begins with https:// or http://, and has no brackets, quotes or spaces in it")
    })
}

/// The text, without secrets: there are none in the report, but there may be in what the command line says of it.
fn body(report: &Report, key: &CommentKey, origin: &Origin, budget: usize) -> String {
    let secrets = Redactor::of_this_process();
    markdown::comment(report, &key.marker(), origin, budget - sticky::POST_ID_ROOM, |text| {
        secrets.redact(text).into_owned()
    })
}

/// A comment on its way.
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
                return Err(Error::new(ErrorKind::Usage, "which pull request? nothing here says it")
                    .hint("--pr NUMBER says it, and --repo OWNER/NAME where"));
            }
        };
        let fork = matches!(target, CommentTarget::Pull { fork: true, .. });
        if target == CommentTarget::None {
            return self.skip("there is no pull request here, so there is nothing to comment on");
        }
        if fork && !self.environment.has_token() {
            return self.tell_elsewhere("this pull request comes from a fork, and there is no token");
        }
        let repo = self.repo()?;
        let client = GithubClient::from_environment(self.environment)?;
        match self.deliver(&client, &repo, target) {
            Ok(Some(posted)) => self.done(&posted),
            Ok(None) => self
                .skip("no open pull request has this commit as its last, so there is nothing to comment on"),
            Err(failure) if fork && [401, 403, 404].iter().any(|status| failure.is_status(*status)) => {
                self.tell_elsewhere("this pull request comes from a fork, whose token may not comment")
            }
            Err(failure) if failure.is_read_only() => self.tell_elsewhere(
                "the token may not comment (has the job `permissions: pull-requests: write`?)",
            ),
            Err(failure) => Err(failure.into()),
        }
    }

    fn repo(&self) -> Result<RepoName> {
        let named = self.args.repo.as_deref().map(RepoName::parse).transpose()?;
        match named {
            Some(repo) => Ok(repo),
            None => self.environment.repo()?.ok_or_else(|| {
                Error::new(ErrorKind::Usage, "which repository? GITHUB_REPOSITORY is not set")
                    .hint("--repo OWNER/NAME says it")
            }),
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
        let wanted = StickyComment {
            repo,
            number,
            key: self.key,
            body: self.body,
            author: self.args.author.as_deref(),
            mode: self.args.mode.into(),
            has_content: !self.report.summary.messages.is_empty(),
        };
        sticky::post(client, &wanted).map(Some)
    }

    fn done(&self, posted: &PostedComment) -> Result<()> {
        for warning in &posted.warnings {
            self.context.ui.warn(warning);
        }
        let (word, said) = match posted.action {
            CommentAction::Created => ("created", "commented"),
            CommentAction::Updated => ("updated", "the comment is up to date now"),
            CommentAction::Unchanged => ("unchanged", "the comment is unchanged: it said this already"),
            CommentAction::Skipped => {
                return self.skip("nothing was processed, and there is no comment to say so in");
            }
        };
        if let Some(url) = &posted.url
            && let Err(error) = StepFiles::from_environment().set_outputs(&[("url", url.clone())])
        {
            self.context.ui.warn(&format!("what was done cannot be told to GitHub: {error}"));
        }
        self.context.ui.note(said);
        match (self.args.format, &posted.url) {
            (Format::Json, url) => self.print_json(json!({"action": word, "url": url, "id": posted.id})),
            (Format::Text, Some(url)) => self.context.ui.print(&format!("{url}\n")),
            (Format::Text, None) => Ok(()),
        }
    }

    fn skip(&self, why: &str) -> Result<()> {
        match self.environment.is_actions {
            true => self.context.ui.command(&annotation(Level::Notice, "decree", None, why)),
            false => self.context.ui.note(why),
        }
        match self.args.format {
            Format::Json => {
                self.print_json(json!({"action": "skipped", "url": null, "id": null, "reason": why}))
            }
            Format::Text => Ok(()),
        }
    }

    /// There is no comment; who looks at the run can read it all the same.
    fn tell_elsewhere(&self, why: &str) -> Result<()> {
        let told = StepFiles::from_environment().add_to_summary(self.body).unwrap_or_else(|error| {
            self.context.ui.warn(&error.to_string());
            false
        });
        let rest = match told {
            true => "what it would say is in the step summary",
            false => "`decree report` shows what it would say",
        };
        self.skip(&format!("no comment: {why}; {rest}"))
    }

    fn print_json(&self, value: serde_json::Value) -> Result<()> {
        self.context.ui.print(&format!("{value}\n"))
    }
}
