//! Restores git's own state: HEAD, its branch and the index. `git_names` has what follows: other refs, stash entries and commits without a name.
//!
//! A failure here is part of the result and no error: the files are restored all the same, and a repository in which git cannot work
//! must not keep a run from being settled. HEAD and its branch need neither the index nor the store, so they go back without them, too.

use std::fs;
use std::path::{Path, PathBuf};

use super::git_change::GitChange;
use super::git_compare::{Compared, begun, compare, in_one_line, look, unrestored};
use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::quarantine::{free_name, move_to_free_name, numbered};
use crate::git::state::{self, GitSnapshot, GitTarget, INDEX, IndexSource};

/// Refs that keep the commits of reverted runs.
pub const KEPT_REFS: &str = "refs/decree/runs/";
/// How often another process may move a ref meanwhile.
const TRIES: u32 = 3;
/// Where the files of git operations that a run had begun are moved, in the run's or the checkpoint's directory.
pub(super) const OPERATIONS_DIR: &str = "git";
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

impl GitRestore<'_> {
    /// Restores HEAD, its branch and the index; `None` if nothing differs.
    pub(super) fn run_head(&self, before: &GitRecord) -> Option<GitChange> {
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
        let Compared { snapshot, now, change, unknown, .. } = compared;
        let (Some(head), Some(_)) = (before.parsed_head(), &snapshot.head) else {
            snapshot
                .git()
                .map_err(|error| Error::failed(format!("HEAD and refs cannot be read: {error}")))?;
            return Err(Error::failed("HEAD cannot be read, or could not be when the checkpoint was made"));
        };
        let aside = self.operations_dir(before).join(INDEX);
        let is_same_index = snapshot.index_error.is_none() && now.index == before.index;
        let store = self.workspace.store();
        let index_is_lost = if is_same_index { None } else { before.why_index_is_lost(store) };
        let index = match &index_is_lost {
            _ if is_same_index => None,
            None => Some(before.index_source(store)?),
            Some(_) => Some(self.index_of_head(before, snapshot, &aside)?),
        };
        let target = GitTarget { head: &head, commit: before.commit.as_deref(), index, aside: &aside };
        let keep = format!("{KEPT_REFS}{}", self.keep_as);
        let kept = state::restore(snapshot, target, &keep, &self.reason)?;
        change.kept_as = kept.into_iter().map(|kept| kept.name).collect();
        self.undo_operations(before, snapshot, change)?;
        let is_restored = compare(self.workspace, before)?.is_none_or(|after| {
            let has_index = index_is_lost.is_some() || after.change.index_after.is_none();
            !after.change.moved() && has_index && !after.has_begun
        });
        if !is_restored {
            return Err(Error::failed("HEAD, its branch or the index changed again"));
        }
        change.restored = true;
        let index = Path::new(&before.dir).join(INDEX);
        change.not_restored.extend(index_is_lost.map(|why| {
            let index = index.display();
            format!("{index}: {why}; it is that of HEAD now, and what was staged is lost")
        }));
        change.not_restored.append(unknown);
        Ok(())
    }

    /// The index of the commit that is to be HEAD, for an index that the store has lost: nothing of the failed work is staged. The one that is
    /// there is copied to `aside`, as it may have what was staged before.
    fn index_of_head(
        &self,
        before: &GitRecord,
        now: &GitSnapshot,
        aside: &Path,
    ) -> Result<Option<IndexSource<'static>>> {
        let found = now.dirs.git_dir.join(INDEX);
        if found.is_file() && now.index_error.is_none() {
            fs::create_dir_all(self.operations_dir(before)).at("create", self.operations_dir(before))?;
            fs::copy(&found, free_name(|number| numbered(aside, ".", number))).at("copy", &found)?;
        }
        state::index_of_commit(now, before.commit.as_deref())
    }

    /// Where files of a repository are moved.
    fn operations_dir(&self, before: &GitRecord) -> PathBuf {
        let mut dir = self.dir.join(OPERATIONS_DIR);
        dir.extend(before.work_tree.as_ref());
        dir
    }

    /// Moves the files of operations that were begun out of git's directory: the next commit would become part of them.
    fn undo_operations(&self, before: &GitRecord, now: &GitSnapshot, change: &mut GitChange) -> Result<()> {
        let dir = self.operations_dir(before);
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
        let Some(compared) = compare(self.workspace, before).map_err(failed)? else { return Ok(None) };
        if let Some(why) = compared.index_error() {
            return Err(WhyLeft::Failed(why));
        }
        let Compared { snapshot, now, .. } = compared;
        let index_is_as_left = match (&left.index_after, &now.index) {
            (Some(left), Some(now)) => *left == now.sha256,
            (None, now) => *now == before.index,
            (Some(left), None) => *left == GitRecord::no_index(),
        };
        let is_back = (&now.head, &now.commit) == (&before.head, &before.commit);
        if !left.moved() {
            // The run changed at most the index. One that was changed again is the user's.
            return Ok(if is_back && index_is_as_left { self.run_head(before) } else { None });
        }
        let is_as_left = now.head.as_deref() == Some(&*left.head_after) && now.commit == left.after;
        if !is_as_left && !is_back {
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
            if !(index_is_as_left || is_back && now.index == before.index) {
                let staged =
                    git.call(["diff-index", "--cached", "--quiet", after, "--"]).run().map_err(failed)?;
                if !staged.is_ok() {
                    // An earlier process may have been killed between the branch and the index; a person moves both.
                    let (branch, index) = ("HEAD or its branch was moved", "changes were staged");
                    return moved_on(&format!("{} after the run", if is_back { branch } else { index }));
                }
            }
        }
        Ok(self.run_head(before))
    }

    /// The names of decree's that a commit has.
    pub fn names_of(&self, before: &GitRecord, commit: &str) -> Vec<String> {
        let args = ["for-each-ref", "--format=%(refname)", "--points-at", commit, KEPT_REFS];
        let found = look(self.workspace, before).and_then(|found| found.snapshot.git()?.call(args).ok());
        found.map_or_else(
            |_| Vec::new(),
            |output| String::from_utf8_lossy(&output.out).lines().map(str::to_owned).collect(),
        )
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
