//! A restore of git's own state that failed, because git was locked or is not installed, or that belongs to the revert of a kept run: nothing may
//! be built on what was committed, and the next command that takes the lock tries again.

use serde::{Deserialize, Serialize};

use super::failed_changes;
use super::git_change::GitChange;
use super::git_compare::{compare, in_one_line};
use super::git_names::SharedRefs;
use super::git_restore::{GitRestore, WhyLeft};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::{atomic, json, untrusted};
use crate::project::Layout;

/// An entry of `git-pending.json`: one repository.
#[derive(Serialize, Deserialize)]
pub struct PendingGitRestore {
    /// What failed: `run <id>`, or the revert of a kept run.
    what: String,
    /// The kept run. Its entry is written before its files are reverted, and counts if its record says that they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    before: GitRecord,
    change: GitChange,
    keep_as: String,
    reason: String,
    /// The directory of the run or the checkpoint, relative to the project.
    dir: String,
}

/// The records of kept runs.
pub trait KeptRuns {
    fn is_reverted(&self, run: &str) -> Result<bool>;

    /// Records what became of git's own state when the run was reverted.
    fn record(&self, run: &str, change: &GitChange) -> Result<()>;
}

/// A restore that was tried again.
pub struct TriedGitRestore {
    /// The kept run that was reverted.
    pub run: Option<String>,
    pub outcome: TriedOutcome,
    /// What a command that begins with it reports. A failure is for [`PendingGitRestore::refuse`].
    pub lines: Vec<String>,
}

/// What a [`TriedGitRestore`] came to.
pub enum TriedOutcome {
    Restored(Box<GitChange>),
    /// A person has moved on, so git is left alone.
    Left(String),
    /// It is still to be done; the change has the reason.
    Failed(Box<GitChange>),
}

impl PendingGitRestore {
    /// The restore that belongs to the revert of a kept run, which left this change.
    pub fn of_revert(
        layout: &Layout,
        restore: &GitRestore<'_>,
        before: GitRecord,
        left: GitChange,
    ) -> PendingGitRestore {
        let (run, keep_as, reason) =
            (restore.keep_as.clone(), restore.keep_as.clone(), restore.reason.clone());
        let what = format!("`decree revert {run}`");
        let dir = layout.shown(restore.dir);
        PendingGitRestore { what, run: Some(run), before, change: left, keep_as, reason, dir }
    }

    /// Adds the restores of reverts that are about to begin, the last run first.
    pub fn note_reverts(layout: &Layout, reverts: Vec<PendingGitRestore>) -> Result<()> {
        if reverts.is_empty() {
            return Ok(());
        }
        let mut all = PendingGitRestore::find(layout)?;
        all.retain(|old| old.run.is_none() || reverts.iter().all(|new| new.run != old.run));
        all.extend(reverts);
        json::write_pretty(&layout.git_pending(), &all)
    }

    /// Records restores that failed; those that succeeded are not recorded.
    pub fn note(
        layout: &Layout,
        restore: &GitRestore<'_>,
        what: &str,
        changes: &[(&GitRecord, GitChange)],
    ) -> Result<()> {
        let is_open = |before: &GitRecord, change: &GitChange| {
            // In a repository that is gone there is nothing to build on.
            let is_there = || layout.root().join(before.dir_path()).symlink_metadata().is_ok();
            !change.restored && change.is_unrestored() && (change.is_known() || is_there())
        };
        let failed: Vec<PendingGitRestore> = changes
            .iter()
            .filter(|(before, change)| is_open(before, change))
            .map(|(before, change)| PendingGitRestore {
                what: what.to_owned(),
                run: None,
                before: (*before).clone(),
                change: change.clone(),
                keep_as: restore.keep_as.clone(),
                reason: restore.reason.clone(),
                dir: layout.shown(restore.dir),
            })
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let is_new = |old: &PendingGitRestore| {
            failed.iter().all(|pending| pending.before.work_tree != old.before.work_tree)
        };
        let older = PendingGitRestore::find(layout).unwrap_or_default().into_iter().filter(is_new);
        let all: Vec<PendingGitRestore> = older.collect();
        json::write_pretty(&layout.git_pending(), &all.iter().chain(&failed).collect::<Vec<_>>())
    }

    fn find(layout: &Layout) -> Result<Vec<PendingGitRestore>> {
        let path = layout.git_pending();
        let Some(text) = untrusted::read(&path).if_exists().at("read", &path)? else { return Ok(Vec::new()) };
        serde_json::from_slice(&text).map_err(|why| {
            Error::damaged(&path, why).hint(
                "look at git's HEAD and index yourself; `decree recover --keep` leaves them as they are",
            )
        })
    }

    /// Whether a restore is still to be done.
    pub fn exists(layout: &Layout) -> bool {
        layout.git_pending().symlink_metadata().is_ok()
    }

    /// What is still to be taken back, in sentences, and what it is of.
    pub fn unrestored(layout: &Layout) -> Result<Option<(String, Vec<String>)>> {
        let mut pending = PendingGitRestore::find(layout)?;
        // A revert in progress has no reason yet.
        pending.retain(|pending| pending.run.is_none() || pending.change.is_unrestored());
        let lines = pending.iter().flat_map(|pending| pending.change.unrestored_lines()).collect();
        Ok(pending.into_iter().next().map(|PendingGitRestore { what, .. }| (what, lines)))
    }

    /// Refuses to work on top of what is still to be taken back.
    pub fn refuse(layout: &Layout) -> Result<()> {
        let Some((what, lines)) = PendingGitRestore::unrestored(layout)? else { return Ok(()) };
        Err(Error::integrity(format!("git's own state is not restored since {what} failed"))
            .details(lines, 20)
            .detail("nothing was done: HEAD and the index may have what is to be taken back")
            .hint("remove the cause; the same command then restores git's state first; `decree recover --keep` leaves it as it is"))
    }

    /// Leaves git's own state as it is. Returns whether a restore was still to be done.
    pub fn forget(layout: &Layout, workspace: &Workspace) -> Result<bool> {
        let was_pending = PendingGitRestore::exists(layout);
        // A record that cannot be read is what this removes, too.
        for pending in PendingGitRestore::find(layout).unwrap_or_default() {
            if let Ok(Some(now)) = compare(workspace, &pending.before) {
                pending.note_unread(layout, &now.change)?;
            }
        }
        if was_pending {
            atomic::remove(&layout.git_pending())?;
        }
        Ok(was_pending)
    }

    /// Records the commits of a failed run whose own record does not have them, as HEAD could not be read, so that they are not published.
    fn note_unread(&self, layout: &Layout, now: &GitChange) -> Result<()> {
        if self.run.is_some() || self.change.is_known() || !now.moved() {
            return Ok(());
        }
        failed_changes::add(&layout.root().join(&self.dir), now)
    }

    /// Tries again, in the order in which they were recorded. What fails once more stays to be done, and what was to come after it in the same
    /// repository.
    pub fn finish(
        layout: &Layout,
        workspace: &Workspace,
        runs: &dyn KeptRuns,
    ) -> Result<Vec<TriedGitRestore>> {
        let (mut tried, mut failed) = (Vec::new(), Vec::<PendingGitRestore>::new());
        if !PendingGitRestore::exists(layout) {
            return Ok(tried);
        }
        let (path, mut shared) = (layout.git_pending(), SharedRefs::default());
        for mut pending in PendingGitRestore::find(layout)? {
            let is_wanted = pending.run.as_ref().map_or(Ok(true), |run| runs.is_reverted(run));
            if matches!(is_wanted, Ok(false)) {
                continue;
            }
            let held_up = failed.iter().find(|earlier| earlier.before.work_tree == pending.before.work_tree);
            let result = match (is_wanted, held_up) {
                (Err(error), _) => Err(vec![error.to_string()]),
                (_, Some(earlier)) => Err(earlier.change.not_restored.clone()),
                _ => pending.retry(layout, workspace, &mut shared),
            };
            let outcome = match result {
                Ok(None) => continue,
                Ok(Some(outcome)) => outcome,
                Err(why) => {
                    pending.change.not_restored.clone_from(&why);
                    let change = GitChange { not_restored: why, ..GitChange::none_since(&pending.before) };
                    TriedOutcome::Failed(Box::new(change))
                }
            };
            match (&pending.run, &outcome) {
                (Some(run), TriedOutcome::Restored(change)) => runs.record(run, change)?,
                (None, TriedOutcome::Restored(change)) => pending.note_unread(layout, change)?,
                _ => {}
            }
            let has_failed = matches!(outcome, TriedOutcome::Failed(_));
            tried.push(TriedGitRestore { run: pending.run.clone(), lines: pending.lines(&outcome), outcome });
            failed.extend(has_failed.then_some(pending));
        }
        if failed.is_empty() {
            atomic::remove(&path)?;
        } else {
            // A full disk must not stop the commands that go back; the old record has an older reason.
            let _ = json::write_pretty(&path, &failed);
        }
        Ok(tried)
    }

    /// What became of it, `None` if there was nothing to do, or why it failed again.
    fn retry(
        &self,
        layout: &Layout,
        workspace: &Workspace,
        shared: &mut SharedRefs,
    ) -> Result<Option<TriedOutcome>, Vec<String>> {
        let PendingGitRestore { before, change: left, .. } = self;
        let dir = layout.root().join(&self.dir);
        let (keep_as, reason) = (self.keep_as.clone(), self.reason.clone());
        let restore = GitRestore { workspace, keep_as, reason, dir: &dir };
        let Some(found) = compare(workspace, before).map_err(|error| vec![in_one_line(&error)])? else {
            // Killed before that was recorded.
            let change = GitChange { restored: true, ..GitChange::none_since(before) };
            return Ok(self.run.is_some().then(|| self.restored(&restore, change)));
        };
        let now = &found.change;
        if !now.is_known() {
            return Err(vec!["HEAD cannot be read".to_owned()]);
        }
        let is_as_left = (&now.head_after, &now.after) == (&left.head_after, &left.after);
        if self.run.is_none() && now.moved() && left.is_known() && !is_as_left {
            return Ok(Some(TriedOutcome::Left("HEAD or its branch was moved after that".to_owned())));
        }
        // What could not be read then, or cannot be now, has nothing by which a person's work could be recognized. Commits keep a name.
        let is_unread = !left.is_known()
            || left.index_after == Some(GitRecord::unreadable_index())
            || found.snapshot.index_error.is_some();
        let restored = if self.run.is_none() && is_unread {
            Ok(restore.run_head(before))
        } else {
            restore.run_if_as_left(before, left)
        };
        match restored {
            Err(WhyLeft::MovedOn(why)) => Ok(Some(TriedOutcome::Left(why))),
            Err(WhyLeft::Failed(why)) => Err(vec![why]),
            Ok(Some(change)) if !change.restored => Err(change.not_restored),
            Ok(mut change) => {
                match self.run {
                    None => restore.run_names(before, &mut change, shared),
                    Some(_) => restore.run_names_as_left(before, &mut change, left),
                }
                Ok(change.map(|change| self.restored(&restore, change)))
            }
        }
    }

    /// The whole change, of which a process that was killed may have restored a part.
    fn restored(&self, restore: &GitRestore<'_>, mut change: GitChange) -> TriedOutcome {
        let left = &self.change;
        if left.is_known() && (self.run.is_some() || !change.moved()) {
            // The commits are the run's, whatever else happened since.
            change.commits.clone_from(&left.commits);
        }
        if !change.moved() && left.moved() && left.is_known() {
            change.head_after.clone_from(&left.head_after);
            change.after.clone_from(&left.after);
            change.index_after = change.index_after.or(left.index_after);
            if let (false, Some(commit)) = (left.commits.is_empty(), &left.after) {
                change.kept_as.extend(restore.names_of(&self.before, commit));
            }
        }
        TriedOutcome::Restored(Box::new(change))
    }

    fn lines(&self, outcome: &TriedOutcome) -> Vec<String> {
        match outcome {
            TriedOutcome::Restored(change) => change.restored_lines(),
            TriedOutcome::Left(why) => {
                let state = self.change.of_repository("git's own state");
                vec![format!("{state} is left alone after {}: {why}", self.what)]
            }
            TriedOutcome::Failed(_) => Vec::new(),
        }
    }
}
