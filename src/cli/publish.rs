//! `decree publish`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::locked_project::LockedProject;
use super::{Context, Format};
use crate::checkpoint::quote::{for_people, in_json};
use crate::error::{Error, ErrorKind, Result};
use crate::github::event::WebhookEvent;
use crate::github::{OpenPullRequest, RunnerEnvironment, StepFiles};
use crate::humanize::count;
use crate::pipeline::Summary;
use crate::publish::{
    self, BranchTarget, Commit, PublishOptions, PublishReport, PullRequestApi, PullRequestOptions,
    PushAccess, Repository,
};
use crate::report::{ReportLimits, markdown};

/// Commit what was processed, one commit a spec; push it, open a pull request
///
/// Each commit has exactly what the runs of its spec left, whatever is in the work tree by now, and names them in its
/// trailers. All commits appear, or none. Runs that are committed already are passed over, so publishing twice is harmless.
/// Needs git. No hook runs, the work tree is not touched, and what else is staged stays staged.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decree publish\n  decree publish --dry-run\n  decree publish --push\n  decree publish --push --branch decree/nightly --message-prefix 'chore: '\n  decree publish --pull-request --base main --draft\n  decree publish --format json | jq -r '.commits[].sha'"
)]
pub struct PublishArgs {
    /// Tell what would be committed, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Commit to this branch, which need not exist; what is checked out stays checked out
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,

    /// Push the commits to the branch of the same name
    #[arg(long)]
    push: bool,

    /// Where to push to
    #[arg(long, value_name = "NAME", default_value = "origin")]
    remote: String,

    /// Push, and open a pull request or bring the open one up to date; on a branch of its own, unless --branch says
    /// otherwise
    #[arg(long)]
    pull_request: bool,

    /// The branch that the pull request is for [default: what is checked out]
    #[arg(long, value_name = "NAME", requires = "pull_request")]
    base: Option<String>,

    /// What the pull request is called [default: after its commits]
    #[arg(long, value_name = "TEXT", requires = "pull_request")]
    title: Option<String>,

    /// Open it as a draft
    #[arg(long, requires = "pull_request")]
    draft: bool,

    /// The repository of the pull request, if GITHUB_REPOSITORY does not say it
    #[arg(long, value_name = "OWNER/NAME", requires = "pull_request")]
    repo: Option<String>,

    /// Put this in front of every subject
    #[arg(long, value_name = "TEXT", default_value = "")]
    message_prefix: String,

    /// The summary of another `process` or `run` of this project
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,

    /// How to answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What became of the commits after they were made.
#[derive(Default)]
struct Delivered {
    /// The branch.
    pushed: Option<String>,
    opened: Option<OpenPullRequest>,
}

pub fn publish(context: &Context, args: &PublishArgs) -> Result<()> {
    let LockedProject { project, workspace, .. } = &LockedProject::open(context, "publish")?;
    let path = match &args.summary {
        Some(path) => context.directory.join(path),
        None => project.layout.summary(),
    };
    let summary = Summary::read(&path)?.ok_or_else(|| {
        Error::project(format!("nothing to publish: there is no {}", project.layout.shown(&path)))
            .hint("`decree process` carries out the specs and writes .decree/summary.json")
    })?;
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let repository = Repository::find(project.layout.root(), &with_basic(variables))?;
    let asking = match args.pull_request && !args.dry_run {
        true => Some(PullRequestApi::new(&repository, args.repo.as_deref(), args.base.as_deref())?),
        false => None,
    };
    let nowhere = repository.branch.is_none() && args.branch.is_none() && !args.pull_request;
    if args.push && nowhere && head_ref()?.is_none() {
        return Err(detached());
    }
    if let Some(asking) = &asking {
        asking.check(args.branch.as_deref())?;
    }
    let options = PublishOptions {
        branch: args.branch.clone(),
        own_branch: args.pull_request,
        prefix: args.message_prefix.clone(),
        dry_run: args.dry_run,
        in_actions: variable("GITHUB_ACTIONS").as_deref() == Some("true"),
    };
    let published = publish::publish(repository, &project.layout, workspace, &summary, &options)?;
    for warning in &published.warnings {
        context.ui.warn(warning);
    }
    tell(context, &published, args.dry_run);
    let mut delivered = Delivered::default();
    let result = match !args.dry_run && published.is_something() {
        true => {
            deliver(context, args, &published, asking.as_ref(), &project.layout.scratch(), &mut delivered)
        }
        false => Ok(()),
    };
    // What was done is told even if what follows failed.
    if let Err(error) = StepFiles::from_environment().set_outputs(&outputs(&published, &delivered)) {
        context.ui.warn(&format!("what was done cannot be told to GitHub: {error}"));
    }
    context.ui.print(&match args.format {
        Format::Json => as_json(&published, &delivered),
        Format::Text => as_text(&published.commits, args.dry_run, &delivered),
    })?;
    result
}

/// For later steps of a workflow.
fn outputs(published: &PublishReport, delivered: &Delivered) -> Vec<(&'static str, String)> {
    let last = published.commits.iter().rev().find_map(|commit| commit.sha.clone());
    let opened = delivered.opened.as_ref().map(|opened| opened.url.clone());
    vec![
        ("commit", last.unwrap_or_default()),
        ("branch", delivered.pushed.clone().unwrap_or_default()),
        ("pull-request-url", opened.unwrap_or_default()),
    ]
}

/// Pushes what is published, and asks for it to be taken.
fn deliver(
    context: &Context,
    args: &PublishArgs,
    published: &PublishReport,
    asking: Option<&PullRequestApi>,
    scratch: &Path,
    delivered: &mut Delivered,
) -> Result<()> {
    if !args.push && asking.is_none() {
        return Ok(());
    }
    let branch = match &published.branch {
        Some(branch) => Some(branch.clone()),
        None => head_ref()?,
    };
    let branch = branch.ok_or_else(detached)?;
    published.repository.check_branch(&branch)?;
    let tip = published.tip.as_deref().expect("something is published");
    let access = PushAccess::from_environment(variable);
    publish::push(&published.repository, &access, scratch, &args.remote, tip, &branch)?;
    context.ui.note(&format!("pushed {branch} to {}", args.remote));
    delivered.pushed = Some(branch.clone());
    let Some(asking) = asking else { return Ok(()) };
    let report = super::report::find(context, args.summary.as_deref(), ReportLimits::EXCERPTS)?;
    let body = markdown::render(&report, markdown::BUDGET);
    let wish = PullRequestOptions { title: args.title.clone(), body, draft: args.draft };
    let opened = asking.ask(published, &branch, &wish)?;
    let word = if opened.created { "opened" } else { "brought up to date:" };
    context.ui.note(&format!("{word} pull request {}", opened.number));
    delivered.opened = Some(opened);
    Ok(())
}

fn tell(context: &Context, published: &PublishReport, dry_run: bool) {
    let ui = &context.ui;
    if !published.before.is_empty() {
        ui.note(&format!("{} committed before", count(published.before.len(), "run")));
    }
    if published.commits.is_empty() {
        ui.note("nothing to commit");
        return;
    }
    let place = published.branch.as_deref().unwrap_or("a detached HEAD");
    let commits = count(published.commits.len(), "commit");
    match dry_run {
        true => ui.note(&format!("{commits} would be made on {place}; nothing was done")),
        false => ui.note(&format!("{commits} on {place}")),
    }
    if matches!(published.target, BranchTarget::Branch(_)) && !dry_run {
        ui.note("what is checked out is as it was: the changes are still in the work tree, too");
    }
}

/// The branch that the checked out pull request comes from. A fork's is in the fork: here its name may be that of any branch,
/// and what was never reviewed would be pushed onto that.
fn head_ref() -> Result<Option<String>> {
    let Some(branch) = variable("GITHUB_HEAD_REF") else { return Ok(None) };
    let event = WebhookEvent::read(&RunnerEnvironment::here())?;
    Ok((!event.is_some_and(|event| event.is_from_fork())).then_some(branch))
}

/// There is no branch by the name of which to push.
fn detached() -> Error {
    Error::new(ErrorKind::Usage, "HEAD is detached: there is no branch to push to")
        .detail("nothing was done")
        .hint("name one: `decree publish --push --branch NAME`")
}

/// A line a commit; in a dry run all there is to know.
fn as_text(commits: &[Commit], dry_run: bool, delivered: &Delivered) -> String {
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
    if let Some(opened) = &delivered.opened {
        text.push_str(&format!("{}\n", opened.url));
    }
    text
}

fn as_json(published: &PublishReport, delivered: &Delivered) -> String {
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
    let opened = delivered
        .opened
        .as_ref()
        .map(|opened| json!({"number": opened.number, "url": opened.url, "created": opened.created}));
    let answer = json!({
        "commits": commits,
        "branch": delivered.pushed.as_ref().or(published.branch.as_ref()),
        "pushed": delivered.pushed.is_some(),
        "pull_request": opened,
    });
    format!("{}\n", serde_json::to_string_pretty(&answer).expect("it is plain data"))
}

/// A variable that says something.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The token as git sends it is as secret as the token.
fn with_basic(mut variables: BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    if let Some(basic) = PushAccess::from_environment(variable).basic() {
        variables.insert("INPUT_BASIC_TOKEN".into(), basic.into());
    }
    variables
}
