//! From a summary to commits: skips runs that are published already and selects the target branch.

use std::collections::BTreeSet;

use super::commits::{BuiltCommits, Commit, CommitBuilder};
use super::known_values::SecretSearch;
use super::message::RUN_TRAILER;
use super::outgoing::OutgoingCommits;
use super::own_commits::{OwnCommit, RecordedChanges, own_commits};
use super::plan::{PlannedRun, chains, runs};
use super::repository::Repository;
use super::update_ref::{BranchTarget, recover, refuse_staged, update_ref};
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::fs::ScratchDir;
use crate::pipeline::Summary;
use crate::project::Layout;

#[derive(Clone, Debug, Default)]
pub struct PublishOptions {
    /// The branch to commit to; the checked-out one by default.
    pub branch: Option<String>,
    /// Whether to commit to a new branch `decree/<chain>` if none is named.
    pub own_branch: bool,
    /// The prefix of every subject.
    pub prefix: String,
    pub dry_run: bool,
    /// Whether the commits are pushed afterwards.
    pub pushes: bool,
}

/// What was published, or would be in a dry run.
pub struct PublishReport {
    pub repository: Repository,
    pub commits: Vec<Commit>,
    pub target: BranchTarget,
    /// The branch with the commits; `None` if HEAD is detached and no branch was named.
    pub branch: Option<String>,
    /// The last commit of the branch; `None` in a repository without commits.
    pub tip: Option<String>,
    pub published_before: Vec<String>,
    /// Commits on the branch that routines made themselves.
    pub own_commits: Vec<OwnCommit>,
    pub warnings: Vec<String>,
}

impl PublishReport {
    /// Whether any of the runs is on the branch.
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty() || !self.published_before.is_empty() || !self.own_commits.is_empty()
    }
}

/// Commits the kept runs of a summary and moves the target branch to them.
pub fn publish(
    mut repository: Repository,
    layout: &Layout,
    workspace: &Workspace,
    summary: &Summary,
    options: &PublishOptions,
) -> Result<PublishReport> {
    recover(&repository)?;
    repository.refuse_operation_in_progress()?;
    let runs = runs(layout, summary)?;
    let target = target(&repository, options, &runs)?;
    // A new branch starts at HEAD; `update_ref` then checks that it still does not exist.
    let current = match &target {
        BranchTarget::Head => repository.head.clone(),
        BranchTarget::Branch(branch) => {
            repository.refuse_checked_out(branch)?;
            repository.git.commit_of(&format!("refs/heads/{branch}"))?
        }
    };
    let base = current.clone().or_else(|| repository.head.clone());
    let search = SecretSearch::new(layout, base.clone());
    let own_commits = match &base {
        Some(base) => checked_own_commits(&repository, &search, workspace, base, &runs, options.pushes)?,
        None => Vec::new(),
    };
    let known = published(&repository, base.as_deref(), &runs)?;
    let (before, runs): (Vec<PlannedRun>, Vec<PlannedRun>) =
        runs.into_iter().partition(|run| known.contains(&run.id.to_string()));
    let published_before = before.iter().map(|run| run.id.to_string()).collect();
    let before = chains(before);
    let scratch = ScratchDir::new(&layout.scratch(), "publish")?;
    let chains = chains(runs);
    if options.dry_run {
        repository.write_objects_to(&scratch.path("objects"))?;
    } else if !chains.is_empty() {
        repository.ensure_author()?;
    }
    let builder = CommitBuilder {
        repository: &repository,
        workspace,
        layout,
        scratch: &scratch,
        base: base.as_deref(),
        prefix: &options.prefix,
        published: &before,
        dry_run: options.dry_run,
        search: &search,
    };
    let built = if chains.is_empty() { BuiltCommits::default() } else { builder.build(&chains)? };
    if target == BranchTarget::Head {
        refuse_staged(&repository, base.as_deref(), &built.entries)?;
    }
    let tip = built.commits.last().and_then(|commit| commit.sha.clone());
    if let Some(tip) = &tip {
        update_ref(&repository, &target, current.as_deref(), tip, &built)?;
    }
    let branch = match &target {
        BranchTarget::Branch(branch) => Some(branch.clone()),
        BranchTarget::Head => repository.branch.clone(),
    };
    let BuiltCommits { commits, mut warnings, .. } = built;
    warnings.extend(search.warnings());
    let tip = tip.or(base);
    Ok(PublishReport { repository, commits, target, branch, tip, published_before, own_commits, warnings })
}

/// The commits that the runs made themselves. Refuses to build on commits that must not be published: those of reverted runs, and those
/// with secrets.
fn checked_own_commits(
    repository: &Repository,
    search: &SecretSearch<'_>,
    workspace: &Workspace,
    base: &str,
    runs: &[PlannedRun],
    pushes: bool,
) -> Result<Vec<OwnCommit>> {
    let recorded = RecordedChanges::read(search.layout)?;
    let unpushed = &recorded.unpushed_only(repository)?;
    recorded.refuse_reverted(repository, base, unpushed)?;
    let of_runs = runs.iter().flat_map(|run| &run.result.run.git);
    let of_runs = of_runs.filter(|change| change.repository.is_none());
    let changes = if pushes { recorded.kept.iter().chain(of_runs).collect() } else { of_runs.collect() };
    let secrets = &recorded.secrets;
    OutgoingCommits { repository, workspace, base, pushes, unpushed, changes, secrets, search }
        .refuse_secrets()?;
    own_commits(repository, base, runs, unpushed)
}

/// The target: the named branch, unless that is the one that is checked out.
fn target(repository: &Repository, options: &PublishOptions, runs: &[PlannedRun]) -> Result<BranchTarget> {
    let own = || runs.first().map(|run| format!("decree/{}", run.id.chain));
    let named = options.branch.clone().or_else(|| own().filter(|_| options.own_branch));
    let Some(branch) = named else {
        return Ok(BranchTarget::Head);
    };
    repository.check_branch(&branch)?;
    let checked_out = repository.branch.as_ref() == Some(&branch);
    Ok(if checked_out { BranchTarget::Head } else { BranchTarget::Branch(branch) })
}

/// The runs that an ancestor of `base` names in its trailers.
fn published(repository: &Repository, base: Option<&str>, runs: &[PlannedRun]) -> Result<BTreeSet<String>> {
    let (Some(base), Some(oldest)) = (base, runs.iter().map(|run| &run.id.chain).min()) else {
        return Ok(BTreeSet::new());
    };
    // A commit cannot be older than its run; a whole day allows for clocks that differ.
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
