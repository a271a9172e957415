//! Finds entries in the stash list, where their numbers change, and drops them.

use super::{Stash, Stashes};
use crate::error::{Error, Result};

/// How often a concurrent change of the list may interfere before decree gives up.
const TRIES: usize = 50;
const STASH_REF: &str = "refs/stash";

/// One line of `git stash list`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StashListEntry {
    commit: String,
    message: String,
}

impl Stashes {
    /// Whether `git stash list` contains the entry.
    pub fn is_listed(&self, stash: &Stash) -> Result<bool> {
        Ok(self.list()?.iter().any(|entry| entry.commit == stash.commit))
    }

    /// Drops exactly this entry from the list, and no other. Returns whether it was in the list. Its objects stay until git
    /// collects them.
    ///
    /// git drops by number, and numbers change when another process stashes at the same time. So what git reports as dropped and
    /// what is left are compared with the request, and an entry that was dropped by mistake is added again, on top. One race
    /// remains, as with any `git stash drop`: between git's lookup of the newest entry and its removal.
    pub fn drop_entry(&self, stash: &Stash) -> Result<bool> {
        for _ in 0..TRIES {
            let before = self.list()?;
            let Some(number) = before.iter().rposition(|entry| entry.commit == stash.commit) else {
                return Ok(false);
            };
            if before.len() == 1 {
                // Deletes the ref only if it still has this hash, so a concurrent stash makes it fail.
                if self.git().call(["update-ref", "-d", STASH_REF, &stash.commit]).run()?.is_ok() {
                    return Ok(true);
                }
                continue;
            }
            let output = self.git().call(["stash", "drop", &format!("stash@{{{number}}}")]).run()?;
            if !output.is_ok() {
                continue;
            }
            let line = output.line();
            let dropped = line.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
            let after = self.list()?;
            let count =
                |list: &[StashListEntry]| list.iter().filter(|entry| entry.commit == stash.commit).count();
            if count(&after) < count(&before) {
                return Ok(true);
            }
            self.restore_dropped(stash, dropped, &before, &after)?;
        }
        Err(Error::failed(format!("the stash entry {} could not be dropped", stash.commit))
            .detail("another process keeps changing the list")
            .hint("wait for it and try again; `git stash list` shows the entries"))
    }

    /// Adds entries again that were dropped by mistake: the one that git reports, or if that is still listed, because another
    /// process changed the list at the same time, every entry that is missing.
    fn restore_dropped(
        &self,
        stash: &Stash,
        reported: Option<&str>,
        before: &[StashListEntry],
        after: &[StashListEntry],
    ) -> Result<()> {
        let is_left = |commit: &str| after.iter().any(|entry| entry.commit == commit);
        let lost: Vec<&StashListEntry> =
            before.iter().rev().filter(|entry| !is_left(&entry.commit)).collect();
        let reported = reported.filter(|commit| *commit != stash.commit && !is_left(commit));
        match reported.map(|commit| (commit, lost.iter().find(|entry| entry.commit == commit))) {
            Some((_, Some(entry))) => self.store_again(&entry.commit, &entry.message),
            // It was created after the list was read.
            Some((commit, None)) => {
                let args = ["log", "-1", "--no-show-signature", "--format=%s", commit];
                self.store_again(commit, &self.git().call(args).line()?)
            }
            None => lost.iter().try_for_each(|entry| self.store_again(&entry.commit, &entry.message)),
        }
    }

    /// Retries, because the entry is the user's and must not be lost.
    fn store_again(&self, commit: &str, message: &str) -> Result<()> {
        let mut stored = self.store(commit, message);
        for _ in 1..TRIES {
            if stored.is_ok() {
                break;
            }
            stored = self.store(commit, message);
        }
        stored.map_err(|error| {
            error
                .detail("another stash entry was dropped by mistake, and could not be restored")
                .hint(format!("`git stash store {commit}` restores it"))
        })
    }

    /// The whole list, newest first.
    fn list(&self) -> Result<Vec<StashListEntry>> {
        if !self.git().call(["reflog", "exists", STASH_REF]).run()?.is_ok() {
            return Ok(Vec::new());
        }
        let args = ["log", "--walk-reflogs", "--no-show-signature", "--format=%H %gs", STASH_REF, "--"];
        let output = self.git().call(args).run()?;
        if !output.is_ok() && self.git().commit_of(STASH_REF)?.is_none() {
            // The last entry was dropped between the two calls.
            return Ok(Vec::new());
        }
        if !output.is_ok() {
            return Err(output.into_error());
        }
        let text = String::from_utf8_lossy(&output.out);
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Ok(lines
            .map(|(commit, message)| StashListEntry {
                commit: commit.to_owned(),
                message: message.to_owned(),
            })
            .collect())
    }
}
