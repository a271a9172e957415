//! Compares git's own state with a checkpoint's, and restores it: HEAD, its branch and the index. Refs and stash entries that are gone are
//! created again, and commits that nothing leads to any more get a name. Refs that were created or moved are left as they are and named.
//!
//! A failure here is part of the result and no error: the files are restored all the same, and a repository in which git cannot work
//! must not keep a run from being settled.

use std::path::Path;

use super::git_change::{GitChange, shown_commit};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::quote;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, Result};
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::git::state::{self, GitSnapshot, GitTarget, Head, RefChange, commits_between};

/// Refs that keep the commits of reverted runs.
pub const KEPT_REFS: &str = "refs/decree/runs/";
/// How often another process may move a ref meanwhile.
const TRIES: u32 = 3;
/// Where the files of git operations that a run had begun are moved, in the run's or the checkpoint's directory.
pub(super) const OPERATIONS_DIR: &str = "git";
/// Where remote-tracking refs are.
const REMOTES: &str = "refs/remotes/";
/// A bisection has refs of its own, which are left alone.
const BISECTION: &str = "BISECT_LOG";
/// How records name the log of the stash.
const STASH_LIST: &str = "the stash list";

/// How a state is restored.
pub struct GitRestore<'r> {
    pub workspace: &'r Workspace,
    /// The name below [`KEPT_REFS`] for commits that lose theirs.
    pub keep_as: String,
    /// For the reflogs.
    pub reason: String,
    /// The directory of the run or the checkpoint.
    pub dir: &'r Path,
}

/// What git has now, and how that differs from a checkpoint.
struct Compared {
    snapshot: GitSnapshot,
    now: GitRecord,
    change: GitChange,
    /// Whether an operation was begun that can be undone.
    has_begun: bool,
    /// Other refs that differ, without the stash.
    refs: Vec<RefChange>,
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

impl GitRestore<'_> {
    /// Restores the state of a checkpoint, with all that has lost its name since; `None` if nothing differs.
    pub fn run(&self, before: &GitRecord) -> Option<GitChange> {
        let refs = compare(self.workspace, before).ok().flatten().map(|compared| compared.refs);
        let mut change = self.run_head(before);
        if change.as_ref().is_none_or(|change| !change.is_unrestored())
            && let Err(error) = self.restore_names(before, &refs.unwrap_or_default(), &mut change)
        {
            change.get_or_insert_with(|| unchanged(before)).not_restored.push(in_one_line(&error));
        }
        change
    }

    /// Creates refs and stash entries that are gone, and gives names to commits that have none.
    fn restore_names(
        &self,
        before: &GitRecord,
        refs: &[RefChange],
        change: &mut Option<GitChange>,
    ) -> Result<()> {
        let Some(snapshot) = GitSnapshot::read(self.workspace.root().path())? else { return Ok(()) };
        // Without git nothing can be named, and what differs is reported.
        let Ok(git) = snapshot.git() else { return Ok(()) };
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().and_then(|it| String::from_utf8(it.clone()).ok());
        let deleted = refs.iter().filter(|it| it.after.is_none());
        let wanted: Vec<(String, String)> =
            deleted.filter_map(|it| Some((text(&Some(it.name.clone()))?, text(&it.before)?))).collect();
        let failed = state::create_refs(&git, &wanted, &self.reason)?;
        let moved: Vec<String> =
            refs.iter().filter(|it| it.after.is_some()).filter_map(|it| text(&it.before)).collect();
        let stash = before.stash_list(self.workspace.store())?;
        let has_stash = state::restore_stash(&git, &snapshot, &stash, &self.reason)?;
        let unnamed = state::unnamed_commits(&git, &snapshot.dirs.git_dir, before.head_log, &moved)?;
        let keep = format!("{KEPT_REFS}{}", self.keep_as);
        let kept = state::keep_commits(&git, unnamed, &keep, &self.reason)?;
        if wanted.is_empty() && !has_stash && kept.is_empty() {
            return Ok(());
        }
        let change = change.get_or_insert_with(|| unchanged(before));
        for it in refs.iter().filter(|it| it.after.is_none() && text(&it.before).is_some()) {
            let shown = quote::for_people(it.shown().as_bytes()).into_owned();
            match failed.iter().find(|(name, _)| name.as_bytes() == it.name) {
                Some((_, why)) => change.not_restored.push(format!("{shown}: {why}")),
                None => change.refs_restored.push(shown.clone()),
            }
            change.left.retain(|left| *left != shown);
        }
        if has_stash {
            change.refs_restored.push(STASH_LIST.to_owned());
            change.left.retain(|left| left != STASH_LIST);
        }
        change.unnamed =
            kept.iter().map(|kept| format!("{} ({})", kept.name, shown_commit(Some(&kept.commit)))).collect();
        change.kept_as.extend(kept.into_iter().map(|kept| kept.name));
        Ok(())
    }

    /// Restores HEAD, its branch and the index; `None` if nothing differs.
    fn run_head(&self, before: &GitRecord) -> Option<GitChange> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut compared = match compare(self.workspace, before) {
                Ok(compared) => compared?,
                Err(error) => return Some(unrestored(before, &error)),
            };
            match self.restore(before, &mut compared) {
                Ok(()) => return Some(compared.change),
                Err(_) if tries < TRIES => std::thread::sleep(std::time::Duration::from_millis(50)),
                Err(error) => {
                    compared.change.not_restored.push(in_one_line(&error));
                    return Some(compared.change);
                }
            }
        }
    }

    fn restore(&self, before: &GitRecord, compared: &mut Compared) -> Result<()> {
        let Compared { snapshot, now, change, .. } = compared;
        let (Some(head), Some(_)) = (before.parsed_head(), &snapshot.head) else {
            return Err(Error::failed("HEAD and refs cannot be read: git is not on the PATH"));
        };
        let store = self.workspace.store();
        let index = if now.index == before.index { None } else { Some(before.index_source(store)?) };
        let target = GitTarget { head: &head, commit: before.commit.as_deref(), index };
        let keep = format!("{KEPT_REFS}{}", self.keep_as);
        let kept = state::restore(snapshot, target, &keep, &self.reason)?;
        change.kept_as = kept.into_iter().map(|kept| kept.name).collect();
        self.undo_operations(before, snapshot, change)?;
        let is_restored = compare(self.workspace, before)?.is_none_or(|after| {
            !after.change.moved() && after.change.index_after.is_none() && !after.has_begun
        });
        if !is_restored {
            return Err(Error::failed("HEAD, its branch or the index changed again"));
        }
        change.restored = true;
        Ok(())
    }

    /// Moves the files of operations that were begun out of git's directory: the next commit would become part of them.
    fn undo_operations(&self, before: &GitRecord, now: &GitSnapshot, change: &mut GitChange) -> Result<()> {
        let dir = self.dir.join(OPERATIONS_DIR);
        for name in begun(before, now) {
            let (from, to) = (now.dirs.git_dir.join(name), dir.join(name));
            if move_to_free_name(&from, |number| numbered(&to, ".", number))?.is_some() {
                let shown = dir.strip_prefix(self.workspace.root().path()).unwrap_or(&dir);
                change.operations = Some(shown.display().to_string());
            }
        }
        let ended = before.operations.iter().filter(|name| !now.operations.contains(name));
        for name in ended {
            let what = GitSnapshot::describe_operation(name);
            let why = format!("{what} was in progress before, and {name} is gone");
            if !change.not_restored.contains(&why) {
                change.not_restored.push(why);
            }
        }
        Ok(())
    }

    /// Restores the state before a kept run, unless git has moved on since: then nothing is touched, and the reason is returned.
    pub fn run_if_as_left(&self, before: &GitRecord, left: &GitChange) -> Result<Option<GitChange>, WhyLeft> {
        let failed = |error: Error| WhyLeft::Failed(in_one_line(&error));
        let moved_on = |why: &str| Err(WhyLeft::MovedOn(why.to_owned()));
        let Some(Compared { snapshot, now, .. }) = compare(self.workspace, before).map_err(failed)? else {
            return Ok(None);
        };
        let index_is_as_left = match (&left.index_after, &now.index) {
            (Some(left), Some(now)) => *left == now.sha256,
            (None, now) => *now == before.index,
            (Some(left), None) => *left == GitRecord::no_index(),
        };
        if !left.moved() {
            // The run changed at most the index. One that was changed again is the user's.
            return Ok(if index_is_as_left { self.run_head(before) } else { None });
        }
        if now.head.as_deref() != Some(&*left.head_after) || now.commit != left.after {
            return moved_on("HEAD or its branch was moved after the run");
        }
        let git = snapshot.git().map_err(failed)?;
        if let Some(after) = &left.after {
            let args =
                ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", after, "refs/remotes"];
            let remote = git.call(args).line().map_err(failed)?;
            if !remote.is_empty() {
                return moved_on(&format!("{remote} has its commits: they were pushed"));
            }
            if !index_is_as_left {
                let staged =
                    git.call(["diff-index", "--cached", "--quiet", after, "--"]).run().map_err(failed)?;
                if !staged.is_ok() {
                    return moved_on("changes were staged after the run");
                }
            }
        }
        Ok(self.run_head(before))
    }
}

/// Why git's own state is left as it is.
#[derive(Debug)]
pub enum WhyLeft {
    /// It is no longer what the run left.
    MovedOn(String),
    /// git failed: whether it can be restored is unknown.
    Failed(String),
}

impl WhyLeft {
    pub fn into_reason(self) -> String {
        let (WhyLeft::MovedOn(why) | WhyLeft::Failed(why)) = self;
        why
    }
}

/// Compares the present with a checkpoint; `None` if nothing differs.
fn compare(workspace: &Workspace, before: &GitRecord) -> Result<Option<Compared>> {
    let root = workspace.root().path();
    let gone = || Error::failed(format!("git's directory {} is not there any more", before.dir));
    let mut snapshot = GitSnapshot::read(root)?.ok_or_else(gone)?;
    let mut now = GitRecord::of(root, &mut snapshot)?;
    // A longer log alone is no other state.
    now.head_log = before.head_log;
    if now.dir != before.dir {
        return Err(gone());
    }
    if now == *before {
        return Ok(None);
    }
    let mut change = GitChange {
        head_before: before.head.clone().unwrap_or_default(),
        head_after: now.head.clone().unwrap_or_default(),
        before: before.commit.clone(),
        after: now.commit.clone(),
        ..GitChange::default()
    };
    if now.index != before.index {
        change.index_after = Some(now.index.as_ref().map_or_else(GitRecord::no_index, |index| index.sha256));
    }
    let branch = before.parsed_head();
    let mut tips: Vec<String> = now.commit.iter().cloned().collect();
    let mut refs = Vec::new();
    if before.has_other_refs(&now) {
        let old = before.ref_texts(workspace.store())?;
        for ref_change in old.changes(&snapshot.refs) {
            let name = String::from_utf8_lossy(&ref_change.name).into_owned();
            match &branch {
                Some(Head::Branch(branch)) if *branch == name => {
                    tips.extend(ref_change.after.and_then(|value| String::from_utf8(value).ok()));
                }
                // The stash list is compared below.
                _ if name == "refs/stash" => {}
                _ => {
                    change.left.push(quote::for_people(ref_change.shown().as_bytes()).into_owned());
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
    Ok(Some(Compared { snapshot, now, change, has_begun, refs }))
}

/// The operations that were begun since a checkpoint and can be undone, by the names of their files.
fn begun<'o>(before: &'o GitRecord, now: &'o GitSnapshot) -> impl Iterator<Item = &'o String> {
    now.operations.iter().filter(|name| !before.operations.contains(name) && *name != BISECTION)
}

/// The change if HEAD, its branch and the index are as before.
fn unchanged(before: &GitRecord) -> GitChange {
    let head = before.head.clone().unwrap_or_default();
    GitChange {
        head_before: head.clone(),
        head_after: head,
        before: before.commit.clone(),
        after: before.commit.clone(),
        restored: true,
        ..GitChange::default()
    }
}

/// The change when the present cannot be read.
fn unrestored(before: &GitRecord, error: &Error) -> GitChange {
    GitChange {
        head_before: before.head.clone().unwrap_or_default(),
        before: before.commit.clone(),
        not_restored: vec![in_one_line(error)],
        ..GitChange::default()
    }
}

/// An error with its details and hint, for a warning.
fn in_one_line(error: &Error) -> String {
    let mut parts = vec![error.to_string()];
    parts.extend(error.detail_lines().iter().cloned());
    parts.extend(error.hint_text().map(str::to_owned));
    parts.join("; ")
}
