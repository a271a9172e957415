//! Compares git's own state with a checkpoint's: HEAD, its branch, the index, other refs, the stash, operations in progress.

use super::git_change::GitChange;
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::quote;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::git::state::{GitSnapshot, Head, RefChange, commits_between};

/// Where remote-tracking refs are.
const REMOTES: &str = "refs/remotes/";
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
}

/// How git's state differs from a checkpoint's; `None` if it does not. Nothing is touched.
pub fn git_change_since(workspace: &Workspace, before: &GitRecord) -> Option<GitChange> {
    match compare(workspace, before) {
        Ok(compared) => compared.map(|mut compared| {
            compared.change.left.extend(compared.has_begun.then(|| "an operation is in progress".to_owned()));
            compared.change
        }),
        Err(error) => Some(unrestored(before, &error)),
    }
}

/// Compares the present with a checkpoint; `None` if nothing differs.
pub(super) fn compare(workspace: &Workspace, before: &GitRecord) -> Result<Option<Compared>> {
    look(workspace, before).map(|found| Some(found).filter(|found| found.now != *before))
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
    if now.index != before.index {
        change.index_after = Some(now.index.as_ref().map_or_else(GitRecord::no_index, |index| index.sha256));
    }
    let branch = before.parsed_head();
    let mut tips: Vec<String> = now.commit.iter().cloned().collect();
    let mut refs = Vec::new();
    if before.has_other_refs(&now) {
        let old = before.ref_texts(workspace.store())?;
        let changes = old.changes(&snapshot.refs);
        if changes.is_empty() {
            now.take_refs(before);
        }
        for ref_change in changes {
            let name = String::from_utf8_lossy(&ref_change.name).into_owned();
            match &branch {
                Some(Head::Branch(branch)) if *branch == name => {
                    tips.extend(ref_change.after.and_then(|value| String::from_utf8(value).ok()));
                }
                // The stash list is compared below.
                _ if name == "refs/stash" => {}
                _ => {
                    change.left.push(shown(&ref_change));
                    if let (true, Some(value)) = (name.starts_with(REMOTES), &ref_change.after) {
                        change.remote_refs.insert(name, String::from_utf8_lossy(value).into_owned());
                    }
                    refs.push(ref_change);
                }
            }
        }
    }
    if now.stash != before.stash {
        change.left.push(STASH_LIST.to_owned());
        change.stash_after = Some(now.stash);
    }
    let has_begun = begun(before, &snapshot).next().is_some();
    if now.operations.iter().any(|name| name == BISECTION)
        && !before.operations.contains(&BISECTION.to_owned())
    {
        change.left.push("a bisection".to_owned());
    }
    tips.retain(|tip| Some(tip) != before.commit.as_ref());
    if !tips.is_empty()
        && let Ok(git) = snapshot.git()
    {
        let tips: Vec<&str> = tips.iter().map(String::as_str).collect();
        // A commit that is gone has no list.
        change.commits = commits_between(&git, before.commit.as_deref(), &tips).unwrap_or_default();
    }
    Ok(Compared { snapshot, now, change, has_begun, refs })
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
