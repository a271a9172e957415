//! From a summary to commits: what is published already, what is left, and where it goes.

use std::collections::BTreeSet;

use super::commits::{BuiltCommits, Commit, CommitBuilder};
use super::content::PublishScratch;
use super::message::RUN_TRAILER;
use super::plan::{PlannedRun, chains, runs};
use super::repository::Repository;
use super::update_ref::{BranchTarget, RefUpdate, finish, refuse_staged};
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::pipeline::Summary;
use crate::project::Layout;

/// How to publish.
#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// The branch that commits are for; what is checked out, unless told.
    pub branch: Option<String>,
    /// Whether they are for a branch of their own if none is named.
    pub own_branch: bool,
    /// In front of every subject.
    pub prefix: String,
    /// Whether to tell only what would be done.
    pub dry_run: bool,
    /// Whether this is GitHub Actions, where a bot may commit.
    pub in_actions: bool,
}

/// What was published, or would be.
pub struct PublishReport {
    /// The repository.
    pub repository: Repository,
    /// In their order.
    pub commits: Vec<Commit>,
    /// Where they are.
    pub target: BranchTarget,
    /// The branch they are on; `None` if HEAD is detached and no branch was named.
    pub branch: Option<String>,
    /// The last commit of it; `None` if there is none at all.
    pub tip: Option<String>,
    /// Runs that had been published before.
    pub before: Vec<String>,
    /// What people have to know.
    pub warnings: Vec<String>,
}

impl PublishReport {
    /// Whether there is anything of decree's on the branch.
    pub fn is_something(&self) -> bool {
        !self.commits.is_empty() || !self.before.is_empty()
    }
}

/// Makes the commits that a summary asks for.
pub fn publish(
    mut repository: Repository,
    layout: &Layout,
    workspace: &Workspace,
    summary: &Summary,
    options: &PublishOptions,
) -> Result<PublishReport> {
    finish(&repository)?;
    repository.refuse_under_way()?;
    let runs = runs(layout, summary)?;
    let target = target(&repository, options, &runs)?;
    // A branch that is not there yet begins at what is checked out, and has to be absent still in the end.
    let there = match &target {
        BranchTarget::Head => repository.head.clone(),
        BranchTarget::Branch(branch) => {
            repository.refuse_checked_out(branch)?;
            repository.git.commit_of(&format!("refs/heads/{branch}"))?
        }
    };
    let base = there.clone().or_else(|| repository.head.clone());
    let known = published(&repository, base.as_deref(), &runs)?;
    let (before, runs): (Vec<PlannedRun>, Vec<PlannedRun>) =
        runs.into_iter().partition(|run| known.contains(&run.id.to_string()));
    let before = before.iter().map(|run| run.id.to_string()).collect();
    let scratch = PublishScratch::new(&layout.scratch())?;
    let chains = chains(runs);
    match options.dry_run {
        true => repository.pretend(&scratch.path("objects"))?,
        false if chains.is_empty() => {}
        false => repository.identify(options.in_actions)?,
    }
    let builder = CommitBuilder {
        repository: &repository,
        workspace,
        layout,
        scratch: &scratch,
        base: base.as_deref(),
        prefix: &options.prefix,
        dry_run: options.dry_run,
    };
    let built = if chains.is_empty() { BuiltCommits::default() } else { builder.build(&chains)? };
    if target == BranchTarget::Head {
        refuse_staged(&repository, base.as_deref(), &built.entries)?;
    }
    let tip = built.commits.last().and_then(|commit| commit.sha.clone());
    if let Some(tip) = &tip {
        let (count, entries) = (built.commits.len(), &built.entries);
        RefUpdate { target: &target, there: there.as_deref(), tip, count, entries }.apply(&repository)?;
    }
    let branch = match &target {
        BranchTarget::Branch(branch) => Some(branch.clone()),
        BranchTarget::Head => repository.branch.clone(),
    };
    let BuiltCommits { commits, warnings, .. } = built;
    Ok(PublishReport { repository, commits, target, branch, tip: tip.or(base), before, warnings })
}

/// Where the commits go: to the branch that is named, if that is another than what is checked out.
fn target(repository: &Repository, options: &PublishOptions, runs: &[PlannedRun]) -> Result<BranchTarget> {
    let own = || runs.first().map(|run| format!("decree/{}", run.id.chain()));
    let named = options.branch.clone().or_else(|| own().filter(|_| options.own_branch));
    let Some(branch) = named else {
        return Ok(BranchTarget::Head);
    };
    repository.check_branch(&branch)?;
    match repository.branch.as_ref() == Some(&branch) {
        true => Ok(BranchTarget::Head),
        false => Ok(BranchTarget::Branch(branch)),
    }
}

/// Which of these runs a commit that leads to `base` names in its trailers.
fn published(repository: &Repository, base: Option<&str>, runs: &[PlannedRun]) -> Result<BTreeSet<String>> {
    let (Some(base), Some(oldest)) = (base, runs.iter().map(|run| run.id.chain()).min()) else {
        return Ok(BTreeSet::new());
    };
    // No run is in a commit that is older than itself, give or take what clocks differ by.
    let text = oldest.to_string();
    let since = format!("--since={}-{}-{}T00:00:00Z", &text[..4], &text[4..6], &text[6..8]);
    let format = format!("--format=%(trailers:key={RUN_TRAILER},valueonly,unfold)");
    let grep = format!("--grep=^{RUN_TRAILER}: ");
    let answer = repository
        .git
        .call(["log", "--no-show-signature", "--basic-regexp", &since, &grep, &format, base, "--"])
        .ok()?;
    let lines = String::from_utf8_lossy(&answer.out);
    Ok(lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
