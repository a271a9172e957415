//! The second part of restoring git's own state: refs and stash entries that are gone are created again, and commits that nothing leads to
//! any more get a name. Refs that were created or moved are left as they are and named.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::git_change::{GitChange, shown_commit};
use super::git_compare::{Compared, STASH_LIST, in_one_line, look, shown, unchanged};
use super::git_restore::{GitRestore, KEPT_REFS};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::quote;
use crate::error::Result;
use crate::git::Git;
use crate::git::state::{self, GitSnapshot, KeptCommit, RefChange, RestoredStash};

/// The directories of refs that were restored already.
#[derive(Default)]
pub struct SharedRefs(BTreeSet<PathBuf>);

/// What has its name again.
struct RestoredNames<'c> {
    /// The refs that were deleted.
    deleted: Vec<&'c RefChange>,
    /// Those of them that could not be created, each with the reason.
    failed: Vec<(&'c RefChange, String)>,
    /// The branch of a rebase, which was moved back.
    rebased: Option<&'c RefChange>,
    stash: RestoredStash,
    kept: Vec<KeptCommit>,
}

impl GitRestore<'_> {
    /// Restores these repositories, with all that has lost its name since. Returns those that differ. Work trees may share their refs: each
    /// HEAD is back before anything is said of other refs.
    pub fn run<'b>(&self, records: impl Iterator<Item = &'b GitRecord>) -> Vec<(&'b GitRecord, GitChange)> {
        let mut heads: Vec<_> = records.map(|before| (before, self.run_head(before))).collect();
        let mut shared = SharedRefs::default();
        heads.iter_mut().for_each(|(before, change)| self.run_names(before, change, &mut shared));
        let changes = heads.into_iter().filter_map(|(before, change)| Some((before, change?)));
        changes.filter(|(_, change)| change.is_any()).collect()
    }

    /// The second part of [`Self::run`], after HEAD, its branch and the index.
    pub fn run_names(&self, before: &GitRecord, change: &mut Option<GitChange>, shared: &mut SharedRefs) {
        let restored = self.restore_names(before, change, shared, None);
        report_names(before, change, restored);
    }

    /// The same after [`Self::run_if_as_left`]: what a person has changed since the run is left alone.
    pub fn run_names_as_left(&self, before: &GitRecord, change: &mut Option<GitChange>, left: &GitChange) {
        let restored = self.restore_names(before, change, &mut SharedRefs::default(), Some(left));
        report_names(before, change, restored);
    }

    fn restore_names(
        &self,
        before: &GitRecord,
        change: &mut Option<GitChange>,
        shared: &mut SharedRefs,
        as_left: Option<&GitChange>,
    ) -> Result<()> {
        let mut found = look(self.workspace, before)?;
        let is_first = shared.0.insert(found.snapshot.dirs.common_dir.clone());
        if !is_first {
            found.refs.clear();
            found.change.left.clear();
            found.change.remote_refs.clear();
        }
        let (left, remote_refs) = (found.change.left.clone(), found.change.remote_refs.clone());
        if let Some(change) = change {
            (change.left, change.remote_refs) = (left.clone(), remote_refs.clone());
            if !change.restored {
                return Ok(());
            }
        }
        // Without git nothing can be named, and what differs is reported.
        let Ok(git) = found.snapshot.git() else { return Ok(()) };
        found.refs.retain(|it| as_left.is_none_or(|left| left.left.contains(&shown(it))));
        let restored = self.create_names(&git, before, &found, is_first, as_left)?;
        if !restored.is_empty() {
            restored.add_to(change.get_or_insert_with(|| GitChange {
                left,
                remote_refs,
                ..unchanged(before)
            }));
        }
        Ok(())
    }

    fn create_names<'c>(
        &self,
        git: &Git,
        before: &GitRecord,
        found: &'c Compared,
        is_first: bool,
        as_left: Option<&GitChange>,
    ) -> Result<RestoredNames<'c>> {
        let Compared { snapshot, now, refs, .. } = found;
        let deleted: Vec<&RefChange> = refs.iter().filter(|it| it.after.is_none()).collect();
        let failed = state::create_refs(git, &deleted, &self.reason);
        let rebased = if as_left.is_none() { self.restore_rebased(git, snapshot, refs)? } else { None };
        // Values that no ref may have any more.
        let moved = refs.iter().filter(|it| it.after.is_some()).filter_map(|it| it.before.as_ref());
        let moved = moved.chain(rebased.and_then(|it| it.after.as_ref()));
        let mut lost: Vec<String> = moved.filter_map(|value| String::from_utf8(value.clone()).ok()).collect();
        let stash = before.stash_list(self.workspace.store())?;
        let stash_is_as_left = as_left.is_none_or(|left| left.stash_after == Some(now.stash));
        let restored_stash = if is_first && stash_is_as_left {
            state::restore_stash(git, snapshot, &stash, &self.reason)?
        } else {
            RestoredStash::default()
        };
        if !stash_is_as_left && as_left.is_some_and(|left| left.left.iter().any(|it| it == STASH_LIST)) {
            lost.extend(state::dropped_entries(snapshot, &stash));
        }
        let since = before.head_log.filter(|_| as_left.is_none());
        let unnamed = state::unnamed_commits(git, snapshot, since, &lost)?;
        let keep = format!("{KEPT_REFS}{}", self.keep_as);
        let kept = state::keep_commits(git, unnamed, &keep, &self.reason)?;
        Ok(RestoredNames { deleted, failed, rebased, stash: restored_stash, kept })
    }

    /// Moves the branch of a rebase in progress back: without that the rebase cannot be finished. The rebase was finished and is back.
    fn restore_rebased<'c>(
        &self,
        git: &Git,
        snapshot: &GitSnapshot,
        refs: &'c [RefChange],
    ) -> Result<Option<&'c RefChange>> {
        let branch = snapshot.rebased_branch();
        let Some(moved) = refs.iter().find(|it| branch.as_ref() == Some(&it.name)) else { return Ok(None) };
        let (Some(before), Some(after)) = (&moved.before, &moved.after) else { return Ok(None) };
        let texts = [&moved.name, before, after].map(|bytes| str::from_utf8(bytes));
        let [Ok(name), Ok(before), Ok(after)] = texts else { return Ok(None) };
        state::move_ref(git, name, after, before, &self.reason)?;
        Ok(Some(moved))
    }
}

impl RestoredNames<'_> {
    fn is_empty(&self) -> bool {
        let has_stash = self.stash.was_missing || !self.stash.made.is_empty();
        self.deleted.is_empty() && !has_stash && self.kept.is_empty() && self.rebased.is_none()
    }

    fn add_to(self, change: &mut GitChange) {
        let failed = |it: &&RefChange| self.failed.iter().any(|(failed, _)| failed == it);
        let mut restored: Vec<String> =
            self.deleted.iter().filter(|it| !failed(it)).map(|it| shown(it)).collect();
        restored.extend(self.stash.was_missing.then(|| STASH_LIST.to_owned()));
        restored.extend(self.rebased.map(shown));
        let not_restored: Vec<(String, &String)> =
            self.failed.iter().map(|(it, why)| (shown(it), why)).collect();
        let is_known =
            |left: &String| restored.contains(left) || not_restored.iter().any(|(it, _)| it == left);
        change.left.retain(|left| !is_known(left));
        change.not_restored.extend(not_restored.iter().map(|(it, why)| format!("{it}: {why}")));
        change.refs_restored.extend(restored);
        let entry = |(number, message): &(usize, Vec<u8>)| {
            format!("stash@{{{number}}} ({})", quote::for_people(message))
        };
        change.stash_made = self.stash.made.iter().map(entry).collect();
        let named = |kept: &KeptCommit| format!("{} ({})", kept.name, shown_commit(Some(&kept.commit)));
        change.unnamed = self.kept.iter().map(named).collect();
        change.kept_as.extend(self.kept.into_iter().map(|kept| kept.name));
    }
}

/// A failure is part of the result.
fn report_names(before: &GitRecord, change: &mut Option<GitChange>, restored: Result<()>) {
    let Err(error) = restored else { return };
    let change = change.get_or_insert_with(|| unchanged(before));
    // A repository that is gone is reported once.
    if change.restored {
        change.not_restored.push(in_one_line(&error));
    }
}
