//! `decree publish`: commits kept runs, pushes them, opens a pull request.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::locked_project::LockedProject;
use super::{Context, Format};
use crate::checkpoint::quote::{for_people, in_json};
use crate::error::{Error, Result};
use crate::github::RunnerEnvironment;
use crate::humanize::count;
use crate::pipeline::Summary;
use crate::publish::{
    self, BranchTarget, Commit, Delivery, PublishOptions, PublishReport, PullRequestApi, PullRequestOptions,
    Repository,
};
use crate::report::{ReportLimits, markdown};

/// Commit the kept changes, one commit per spec; optionally push and open a pull request
///
/// Each commit has exactly the content that the runs of its spec left, whatever the work tree has now, and names the runs in
/// its trailers. Either all commits are created or none. Runs that are committed already are skipped, so publishing twice is
/// harmless. Needs git. No hook runs, the work tree is not touched, and other staged changes stay staged.
///
/// What a run committed itself is not committed again, and is pushed with the rest. A branch that contains a commit of a reverted run is
/// refused, unless a remote has that commit already. So is one with a commit that no remote has and that contains a secret of the
/// environment, or of a run that added a file such as .env: a later commit that removes it does not take it out of what is pushed.
/// A secret that is a word of at most eight lower-case letters, or that a remote has already, is only named.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree publish\n  decree publish --dry-run\n  decree publish --push\n  decree publish --push --branch decree/nightly --message-prefix 'chore: '\n  decree publish --pull-request --base main --draft\n  decree publish --format json | jq -r '.commits[].sha'"
)]
pub struct PublishArgs {
    /// Print what would be committed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Commit to this branch, creating it if needed; the checkout does not change
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,

    /// Push the commits to the branch of the same name
    #[arg(long)]
    push: bool,

    /// The remote to push to
    #[arg(long, value_name = "NAME", default_value = "origin")]
    remote: String,

    /// Push, then open a pull request or update the open one; uses a new branch decree/CHAIN unless --branch is given
    #[arg(long)]
    pull_request: bool,

    /// The base branch of the pull request [default: the checked-out branch]
    #[arg(long, value_name = "NAME", requires = "pull_request")]
    base: Option<String>,

    /// The title of the pull request [default: the subject of the first commit]
    #[arg(long, value_name = "TEXT", requires = "pull_request")]
    title: Option<String>,

    /// Open the pull request as a draft
    #[arg(long, requires = "pull_request")]
    draft: bool,

    /// The repository of the pull request [default: GITHUB_REPOSITORY]
    #[arg(long, value_name = "OWNER/NAME", requires = "pull_request")]
    repo: Option<String>,

    /// A prefix for every commit's subject
    #[arg(long, value_name = "TEXT", default_value = "")]
    message_prefix: String,

    /// Read this summary instead of .decree/summary.json
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

pub fn publish(context: &Context, args: &PublishArgs) -> Result<()> {
    let LockedProject { project, workspace, .. } = &LockedProject::open(context, "publish")?;
    let path = context.summary(args.summary.as_deref())?;
    let summary = Summary::read(&path)?.ok_or_else(|| {
        Error::project(format!("nothing to publish: {} does not exist", project.layout.shown(&path)))
            .hint("`decree process` processes the specs and writes .decree/summary.json")
    })?;
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    // The token's encoding for git is redacted like the token.
    variables.extend(
        publish::basic_token(&RunnerEnvironment::here())
            .map(|basic| ("INPUT_BASIC_TOKEN".into(), basic.into())),
    );
    let repository = Repository::find(project.layout.root(), &variables)?;
    let api = if args.pull_request && !args.dry_run {
        Some(PullRequestApi::new(&repository, args.repo.as_deref(), args.base.as_deref())?)
    } else {
        None
    };
    if args.push && !args.pull_request {
        publish::check_push(&repository, args.branch.as_deref())?;
    }
    if let Some(api) = &api {
        api.check(args.branch.as_deref())?;
    }
    let options = PublishOptions {
        branch: args.branch.clone(),
        own_branch: args.pull_request,
        prefix: args.message_prefix.clone(),
        dry_run: args.dry_run,
        pushes: args.push || args.pull_request,
    };
    let published = publish::publish(repository, &project.layout, workspace, &summary, &options)?;
    for warning in &published.warnings {
        context.ui.warn(warning);
    }
    print_notes(context, &published, args.dry_run);
    let mut delivery = Delivery::default();
    let wanted = args.push || api.is_some();
    let result = if wanted && !args.dry_run && published.has_commits() {
        deliver(context, args, &published, api.as_ref(), &project.layout.scratch(), &mut delivery)
    } else {
        Ok(())
    };
    // The commits are reported even if their delivery failed.
    context.set_outputs(&outputs(&published, &delivery));
    match args.format {
        Format::Json => {
            let mut answer = as_json(&published, &delivery);
            if let Err(error) = &result {
                answer["error"] = error.to_json();
            }
            context.ui.print_json(&answer)?;
            result.map_err(Error::answered)
        }
        Format::Text => {
            context.ui.print(&as_text(&published.commits, args.dry_run, &delivery))?;
            result
        }
    }
}

fn outputs(published: &PublishReport, delivery: &Delivery) -> Vec<(&'static str, String)> {
    let last = published.commits.iter().rev().find_map(|commit| commit.sha.clone());
    let url = delivery.pull_request.as_ref().map(|pull_request| pull_request.url.clone());
    vec![
        ("commit", last.unwrap_or_default()),
        ("branch", delivery.pushed.clone().unwrap_or_default()),
        ("pull-request-url", url.unwrap_or_default()),
    ]
}

fn deliver(
    context: &Context,
    args: &PublishArgs,
    published: &PublishReport,
    api: Option<&PullRequestApi>,
    scratch: &Path,
    delivery: &mut Delivery,
) -> Result<()> {
    let options = || {
        let report = super::report::find(context, args.summary.as_deref(), ReportLimits::EXCERPTS)?;
        let body = markdown::render(&report, markdown::BUDGET);
        Ok(PullRequestOptions { title: args.title.clone(), body, draft: args.draft })
    };
    let result = delivery.deliver(published, scratch, &args.remote, api, options);
    if let Some(branch) = &delivery.pushed {
        context.ui.note(&format!("pushed {branch} to {}", args.remote));
    }
    if let Some(pull_request) = &delivery.pull_request {
        let action = if pull_request.created { "opened" } else { "updated" };
        context.ui.note(&format!("{action} pull request {}", pull_request.number));
    }
    result
}

fn print_notes(context: &Context, published: &PublishReport, dry_run: bool) {
    let ui = &context.ui;
    if !published.published_before.is_empty() {
        ui.note(&format!("{} already committed", count(published.published_before.len(), "run")));
    }
    for own in &published.own_commits {
        let sha = &own.sha[..own.sha.len().min(10)];
        ui.note(&format!("run {} committed by itself: {sha} {}", own.run, own.subject));
    }
    if published.commits.is_empty() {
        ui.note("nothing to commit");
        return;
    }
    let place = published.branch.as_deref().unwrap_or("a detached HEAD");
    let commits = count(published.commits.len(), "commit");
    if dry_run {
        ui.note(&format!("{commits} would be created on {place}; nothing was done"));
        return;
    }
    ui.note(&format!("{commits} on {place}"));
    if matches!(published.target, BranchTarget::Branch(_)) {
        ui.note("the checkout is unchanged: the changes are still in the work tree");
    }
}

/// One line per commit; in a dry run the whole message and the paths.
fn as_text(commits: &[Commit], dry_run: bool, delivery: &Delivery) -> String {
    let mut text = String::new();
    for (number, commit) in commits.iter().enumerate() {
        match &commit.sha {
            Some(sha) => text.push_str(&format!("{}  {}\n", &sha[..sha.len().min(10)], commit.subject)),
            None => {
                if number > 0 {
                    text.push('\n');
                }
                text.push_str(&commit.message);
            }
        }
        if dry_run {
            text.push('\n');
            for path in &commit.files {
                text.push_str(&format!("  {}\n", for_people(path)));
            }
        }
    }
    if let Some(pull_request) = &delivery.pull_request {
        text.push_str(&format!("{}\n", pull_request.url));
    }
    text
}

fn as_json(published: &PublishReport, delivery: &Delivery) -> Value {
    let commits: Vec<Value> = published
        .commits
        .iter()
        .map(|commit| {
            json!({
                "sha": commit.sha,
                "subject": commit.subject,
                "runs": commit.runs,
                "spec": commit.spec,
                "files": commit.files.iter().map(|path| in_json(path)).collect::<Vec<_>>(),
            })
        })
        .collect();
    let pull_request = delivery
        .pull_request
        .as_ref()
        .map(|request| json!({"number": request.number, "url": request.url, "created": request.created}));
    let own: Vec<Value> = published
        .own_commits
        .iter()
        .map(|own| json!({"run": own.run, "sha": own.sha, "subject": own.subject}))
        .collect();
    json!({
        "commits": commits,
        "own_commits": own,
        "branch": delivery.pushed.as_ref().or(published.branch.as_ref()),
        "pushed": delivery.pushed.is_some(),
        "pull_request": pull_request,
    })
}
