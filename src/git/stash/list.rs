//! Entries in the list, where they have numbers that shift.

use super::{Stash, Stashes};
use crate::error::{Error, Result};

/// How often somebody else may get in between before we give up.
const TRIES: usize = 50;
const STASH: &str = "refs/stash";

/// A line of `git stash list`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    commit: String,
    message: String,
}

impl Stashes {
    /// Whether `git stash list` has it.
    pub fn is_listed(&self, stash: &Stash) -> Result<bool> {
        Ok(self.list()?.iter().any(|listed| listed.commit == stash.commit))
    }

    /// Takes exactly this entry off the list, and never another; whether it was on it. Its objects stay until git collects them.
    ///
    /// git drops by number, and numbers shift when somebody stashes meanwhile. So what it says it dropped, and what is left, is
    /// compared with what was asked for, and what should have stayed is put back, on top. That leaves the moment in which git itself
    /// has looked up the newest entry and not dropped it yet, as with everybody's `git stash drop`.
    pub fn drop_entry(&self, stash: &Stash) -> Result<bool> {
        for _ in 0..TRIES {
            let before = self.list()?;
            let Some(number) = before.iter().rposition(|listed| listed.commit == stash.commit) else {
                return Ok(false);
            };
            if before.len() == 1 {
                // By its hash, and with the whole list: whatever somebody adds meanwhile makes it fail.
                if self.git().call(["update-ref", "-d", STASH, &stash.commit]).run()?.is_ok() {
                    return Ok(true);
                }
                continue;
            }
            let answer = self.git().call(["stash", "drop", &format!("stash@{{{number}}}")]).run()?;
            if !answer.is_ok() {
                continue;
            }
            let said = answer.line();
            let dropped = said.rsplit_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
            let after = self.list()?;
            let count = |list: &[Listed]| list.iter().filter(|listed| listed.commit == stash.commit).count();
            if count(&after) < count(&before) {
                return Ok(true);
            }
            self.put_back(stash, dropped, &before, &after)?;
        }
        Err(Error::failed(format!("the stash entry {} could not be dropped", stash.commit))
            .detail("something else keeps changing the list")
            .hint("wait for it and try again; `git stash list` shows what is there"))
    }

    /// It hit another one: that which git says, unless somebody was faster between its looking it up and its dropping it.
    fn put_back(&self, stash: &Stash, said: Option<&str>, before: &[Listed], after: &[Listed]) -> Result<()> {
        let is_left = |commit: &str| after.iter().any(|listed| listed.commit == commit);
        let lost: Vec<&Listed> = before.iter().rev().filter(|listed| !is_left(&listed.commit)).collect();
        let said = said.filter(|said| *said != stash.commit && !is_left(said));
        match said.map(|said| (said, lost.iter().find(|listed| listed.commit == said))) {
            Some((_, Some(listed))) => self.store_again(&listed.commit, &listed.message),
            // It was made after we looked.
            Some((said, None)) => {
                let args = ["log", "-1", "--no-show-signature", "--format=%s", said];
                self.store_again(said, &self.git().call(args).line()?)
            }
            None => lost.iter().try_for_each(|listed| self.store_again(&listed.commit, &listed.message)),
        }
    }

    /// Does not give up at once: it is not ours to lose.
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
                .detail("another stash entry was dropped by mistake, and could not be put back")
                .hint(format!("`git stash store {commit}` puts it back"))
        })
    }

    /// The list, newest first.
    fn list(&self) -> Result<Vec<Listed>> {
        if !self.git().call(["reflog", "exists", STASH]).run()?.is_ok() {
            return Ok(Vec::new());
        }
        let args = ["log", "--walk-reflogs", "--no-show-signature", "--format=%H %gs", STASH, "--"];
        let answer = self.git().call(args).run()?;
        if !answer.is_ok() && self.git().commit_of(STASH)?.is_none() {
            // It went away meanwhile.
            return Ok(Vec::new());
        }
        let out = match answer.is_ok() {
            true => String::from_utf8_lossy(&answer.out).into_owned(),
            false => return Err(answer.into_error()),
        };
        let listed = out.lines().filter_map(|line| line.split_once(' '));
        Ok(listed
            .map(|(commit, message)| Listed { commit: commit.to_owned(), message: message.to_owned() })
            .collect())
    }
}
