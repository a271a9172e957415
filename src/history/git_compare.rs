//! Compares git's own state with a checkpoint's: HEAD, its branch, the index, other refs, the stash, operations in progress.

use super::git_change::GitChange;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::quote;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::git::state::{GitSnapshot, Head, RefChange, commits_between};

/// Where remote-tracking refs are.
const REMOTES: &str = "refs/remotes/";
/// The ref whose log is the stash list.
const STASH: &str = "refs/stash";
/// A bisection has refs of its own, which are left alone.
const BISECTION: &str = "BISECT_LOG";
/// How records name the log of the stash.
pub(super) const STASH_LIST: &str = "the stash list";

/// What git has now, and how that differs from a checkpoint.
pub(super) struct Compared {
    pub snapshot: GitSnapshot,
    pub now: GitRecord,
    pub change: GitChange,
    /// Whether an operation was begun that can be undone.
    pub has_begun: bool,
    /// Other refs that differ, without the stash.
    pub refs: Vec<RefChange>,
    /// What cannot be compared, each with the reason, without the index.
    pub unknown: Vec<String>,
}

impl Compared {
    /// Why the index cannot be read.
    pub fn index_error(&self) -> Option<String> {
        self.snapshot.index_error.as_ref().map(in_one_line)
    }
}

/// How git's state differs from a checkpoint's; `None` if it does not. Nothing is touched.
pub fn git_change_since(workspace: &Workspace, before: &GitRecord) -> Option<GitChange> {
    match compare(workspace, before) {
        Ok(compared) => compared.map(|mut compared| {
            compared.change.left.extend(compared.has_begun.then(|| "an operation is in progress".to_owned()));
            compared.change.not_restored.extend(compared.index_error());
            compared.change.not_restored.append(&mut compared.unknown);
            compared.change
        }),
        Err(error) => Some(unrestored(before, &error)),
    }
}

/// Compares the present with a checkpoint; `None` if nothing differs. What cannot be read counts as changed, as far as HEAD and the refs can
/// be read.
pub(super) fn compare(workspace: &Workspace, before: &GitRecord) -> Result<Option<Compared>> {
    let differs = |found: &Compared| {
        found.now != *before || found.snapshot.index_error.is_some() || !found.unknown.is_empty()
    };
    look(workspace, before).map(|found| Some(found).filter(differs))
}

pub(super) fn look(workspace: &Workspace, before: &GitRecord) -> Result<Compared> {
    let gone = || Error::failed(format!("git's directory {} is not there any more", before.dir));
    let found = GitRecord::read(workspace.root().path(), before.work_tree.as_ref())?;
    let (mut now, snapshot) = found.filter(|(now, _)| now.dir == before.dir).ok_or_else(gone)?;
    // A longer log alone is no other state.
    now.head_log = before.head_log;
    let mut change = GitChange {
        head_after: now.head.clone().unwrap_or_default(),
        after: now.commit.clone(),
        ..GitChange::none_since(before)
    };
    let mut unknown = Vec::new();
    if snapshot.index_error.is_some() {
        change.index_after = Some(GitRecord::unreadable_index());
    } else if now.index != before.index {
        change.index_after = Some(now.index.as_ref().map_or_else(GitRecord::no_index, |index| index.sha256));
    }
    let mut refs = Vec::new();
    if before.has_other_refs(&now) {
        match changed_refs(workspace, before, &snapshot) {
            Ok(changes) if changes.is_empty() => now.take_refs(before),
            Ok(changes) => refs = changes,
            Err(error) => unknown.push(format!("other refs: {}", in_one_line(&error))),
        }
        refs.retain(|it| it.name != STASH.as_bytes() && !is_branch_of(before, it));
        note_refs(&refs, &mut change);
    }
    if let Some(error) = &snapshot.stash_error {
        unknown.push(format!("{STASH_LIST}: {}", in_one_line(error)));
    } else if now.stash != before.stash {
        change.left.push(STASH_LIST.to_owned());
        change.stash_after = Some(now.stash);
    }
    let has_begun = begun(before, &snapshot).next().is_some();
    if now.operations.iter().any(|name| name == BISECTION)
        && !before.operations.contains(&BISECTION.to_owned())
    {
        change.left.push("a bisection".to_owned());
    }
    change.commits = new_commits(before, &snapshot);
    Ok(Compared { snapshot, now, change, has_begun, refs, unknown })
}

/// The refs that differ. Only their old values need the store.
fn changed_refs(workspace: &Workspace, before: &GitRecord, now: &GitSnapshot) -> Result<Vec<RefChange>> {
    if let Some(why) = before.why_refs_are_lost(workspace.store()) {
        return Err(Error::failed(format!("their list is lost: {why}")));
    }
    Ok(before.ref_texts(workspace.store())?.changes(&now.refs))
}

fn is_branch_of(before: &GitRecord, change: &RefChange) -> bool {
    matches!(before.parsed_head(), Some(Head::Branch(branch)) if branch.as_bytes() == change.name)
}

fn note_refs(refs: &[RefChange], change: &mut GitChange) {
    for ref_change in refs {
        let name = String::from_utf8_lossy(&ref_change.name).into_owned();
        change.left.push(shown(ref_change));
        if let (true, Some(value)) = (name.starts_with(REMOTES), &ref_change.after) {
            change.remote_refs.insert(name, String::from_utf8_lossy(value).into_owned());
        }
    }
}

/// The commits that HEAD and the branch from before lead to, and that are new.
fn new_commits(before: &GitRecord, now: &GitSnapshot) -> Vec<String> {
    let branch = match before.parsed_head() {
        Some(Head::Branch(branch)) => now.refs.value(&branch),
        _ => None,
    };
    let mut tips: Vec<&str> = now.commit.iter().chain(&branch).map(String::as_str).collect();
    tips.retain(|tip| Some(*tip) != before.commit.as_deref());
    match now.git() {
        // A commit that is gone has no list.
        Ok(git) if !tips.is_empty() => {
            commits_between(&git, before.commit.as_deref(), &tips).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// A ref and what became of it, as records and messages have it.
pub(super) fn shown(change: &RefChange) -> String {
    quote::for_people(change.shown().as_bytes()).into_owned()
}

/// The operations that were begun since a checkpoint and can be undone, by the names of their files.
pub(super) fn begun<'o>(before: &'o GitRecord, now: &'o GitSnapshot) -> impl Iterator<Item = &'o String> {
    now.operations.iter().filter(|name| !before.operations.contains(name) && *name != BISECTION)
}

/// The change if HEAD, its branch and the index are as before.
pub(super) fn unchanged(before: &GitRecord) -> GitChange {
    GitChange { restored: true, ..GitChange::none_since(before) }
}

/// The change when the present cannot be read.
pub(super) fn unrestored(before: &GitRecord, error: &Error) -> GitChange {
    let (head_after, after, not_restored) = (String::new(), None, vec![in_one_line(error)]);
    GitChange { head_after, after, not_restored, ..GitChange::none_since(before) }
}

/// An error with its details and hint, for a warning.
pub(super) fn in_one_line(error: &Error) -> String {
    let mut parts = vec![error.to_string()];
    parts.extend(error.detail_lines().iter().cloned());
    parts.extend(error.hint_text().map(str::to_owned));
    parts.join("; ")
}
