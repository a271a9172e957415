//! Commits that runs made themselves. Those of kept runs are published with the rest; those of reverted runs are never pushed.

use std::collections::BTreeSet;

use super::plan::PlannedRun;
use super::repository::Repository;
use super::run_secrets::RunSecrets;
use crate::error::{Error, Result};
use crate::history::{self, GitChange, RunDir};
use crate::message::MessageId;
use crate::pipeline::RunResult;
use crate::project::Layout;

/// A commit that the routine of a kept run made.
#[derive(Clone, Debug)]
pub struct OwnCommit {
    pub run: String,
    pub sha: String,
    pub subject: String,
}

/// The commits of these runs that `base` contains and no remote has, the oldest first.
pub fn own_commits(
    repository: &Repository,
    base: &str,
    runs: &[PlannedRun],
    unpushed: &UnpushedOnly,
) -> Result<Vec<OwnCommit>> {
    let mut own = Vec::new();
    for run in runs {
        for change in run.result.run.git.iter().filter(|change| change.attempt.is_none()) {
            if change.commits.is_empty() {
                continue;
            }
            let made: BTreeSet<&str> = change.commits.iter().map(String::as_str).collect();
            let before = change.before.as_ref().map(|before| format!("^{before}"));
            let mut args = vec!["log", "--reverse", "--no-show-signature", "--format=%H %s", base];
            args.extend(before.as_deref());
            args.extend(unpushed.args());
            let output = repository.git.call(args).run()?;
            let text = String::from_utf8_lossy(&output.out).into_owned();
            let found = text.lines().filter_map(|line| line.split_once(' '));
            own.extend(found.filter(|(sha, _)| made.contains(sha)).map(|(sha, subject)| OwnCommit {
                run: run.id.to_string(),
                sha: sha.to_owned(),
                subject: repository.git.printable(subject),
            }));
        }
    }
    Ok(own)
}

/// What all runs did to git's own state, as far as it can be read.
#[derive(Default)]
pub struct RecordedChanges {
    /// Of runs whose work is kept.
    pub kept: Vec<GitChange>,
    /// What the same runs recorded of likely secrets.
    pub secrets: RunSecrets,
    /// Of runs, attempts and guarded commands whose work is no longer in the tree, and how messages name them.
    reverted: Vec<(String, GitChange)>,
    /// Remote-tracking refs that runs created or moved, with their values.
    remote_refs: BTreeSet<(String, String)>,
}

/// The arguments of `git rev-list` that leave out what a remote has, by the remote-tracking refs. Those that a run wrote prove nothing.
pub struct UnpushedOnly(Vec<String>);

impl UnpushedOnly {
    pub fn args(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl RecordedChanges {
    pub fn read(layout: &Layout) -> Result<RecordedChanges> {
        let mut changes = RecordedChanges::default();
        for id in history::run_ids(layout)? {
            let Some(id) = MessageId::parse(&id) else { continue };
            let run = RunDir::of(layout, &id);
            for dir in std::iter::once(run.checkpoint()).chain(run.previous()?) {
                let unread = history::read_failed_changes(dir.dir()).into_iter();
                changes.reverted.extend(unread.map(|change| (format!("run {id}"), change)));
                // Records that cannot be read have nothing to say.
                let Ok(Some(result)) = RunResult::read(&dir) else { continue };
                // A run that `recover` closed was not reverted as a whole, and failed all the same.
                let is_reverted = !result.is_in_tree();
                if !is_reverted {
                    changes.secrets.add(&result);
                }
                for change in result.run.git.iter().filter(|change| change.repository.is_none()) {
                    changes.remote_refs.extend(change.remote_refs.clone());
                }
                for change in result.run.git.into_iter().filter(GitChange::moved) {
                    if is_reverted || change.attempt.is_some() {
                        changes.reverted.push((format!("run {id}"), change));
                    } else {
                        changes.kept.push(change);
                    }
                }
            }
        }
        let guards = history::failed_guards(layout)?.into_iter();
        changes.reverted.extend(guards.map(|(id, change)| (format!("the guarded command of {id}"), change)));
        Ok(changes)
    }

    /// What no remote has. A ref that was moved again since, as by a push of the user, counts.
    pub fn unpushed_only(&self, repository: &Repository) -> Result<UnpushedOnly> {
        let mut args = vec!["--not".to_owned()];
        if !self.remote_refs.is_empty() {
            let format = "--format=%(refname) %(objectname)";
            let output = repository.git.call(["for-each-ref", format, "refs/remotes"]).ok()?;
            let text = String::from_utf8_lossy(&output.out);
            let refs = text.lines().filter_map(|line| line.split_once(' '));
            let written = refs.filter(|(name, value)| {
                self.remote_refs.contains(&((*name).to_owned(), (*value).to_owned()))
            });
            let names = written.filter_map(|(name, _)| name.strip_prefix("refs/remotes/"));
            args.extend(names.map(|name| format!("--exclude={name}")));
        }
        args.extend(["--remotes".to_owned(), "--".to_owned()]);
        Ok(UnpushedOnly(args))
    }

    /// Refuses to build on a commit that a reverted run made, unless a remote has it already.
    pub fn refuse_reverted(
        &self,
        repository: &Repository,
        base: &str,
        unpushed: &UnpushedOnly,
    ) -> Result<()> {
        for (what, change) in &self.reverted {
            if let Some(commit) = contained(repository, base, change, unpushed)? {
                return Err(refusal(repository, what, &commit));
            }
        }
        Ok(())
    }
}

/// The newest commit of a change that `base` contains and no remote has.
fn contained(
    repository: &Repository,
    base: &str,
    change: &GitChange,
    unpushed: &UnpushedOnly,
) -> Result<Option<String>> {
    let tips = change.after.iter().chain(change.commits.first());
    let mut common = BTreeSet::new();
    for tip in tips {
        // A commit that git has collected since is in no branch.
        let output = repository.git.call(["merge-base", "--all", tip, base]).run()?;
        common.extend(output.line().lines().map(str::to_owned));
    }
    if common.is_empty() {
        return Ok(None);
    }
    let before = change.before.as_ref().map(|before| format!("^{before}"));
    let mut args = vec!["rev-list", "--max-count=1"];
    args.extend(common.iter().map(String::as_str));
    args.extend(before.as_deref());
    args.extend(unpushed.args());
    let found = repository.git.call(args).line()?;
    Ok(Some(found).filter(|commit| !commit.is_empty()))
}

fn refusal(repository: &Repository, what: &str, commit: &str) -> Error {
    let subject = repository.git.call(["log", "-1", "--format=%s", commit, "--"]).line().unwrap_or_default();
    Error::failed(format!("the branch contains commit {commit} of {what}, which was reverted"))
        .detail(format!("its subject: {}", repository.git.printable(&subject)))
        .detail("nothing was done: decree does not publish work that failed")
        .hint(format!(
            "`git rebase --onto {commit}~1 {commit}` takes it off the branch; if it is meant to stay, push it yourself first"
        ))
}
