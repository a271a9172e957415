//! Moves HEAD and its branch back, and restores the index. Commits that this leaves without a name get one.
//!
//! 1. The next index becomes git's lock, complete.
//! 2. One transaction: the names of the commits, and the branch or the detached HEAD, each only from its expected value.
//! 3. HEAD names its branch again.
//! 4. The lock becomes the index.
//!
//! A process that is killed in between leaves a state from which the same call goes on: a lock with that very index is taken over.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::index_file::{IndexFile, IndexSource, LockedIndex};
use super::refs::Head;
use super::snapshot::GitSnapshot;
use crate::error::{IoContext, Result};
use crate::git::{Git, GitCall};

/// The identity in reflogs, so that they show what decree moved; git needs one even if none is configured.
const IDENTITY: [(&str, &str); 2] =
    [("GIT_COMMITTER_NAME", "decree"), ("GIT_COMMITTER_EMAIL", "decree@localhost")];
/// How many commits are listed.
pub const MAX_LISTED: usize = 10_000;

/// Where git writes the index of a commit. The name is fixed, so that one which a killed process left is replaced.
const INDEX_OF_COMMIT: &str = "index.decree-commit";

/// What HEAD, its branch and the index are to be.
pub struct GitTarget<'t> {
    pub head: &'t Head,
    /// The commit of HEAD; `None` if its branch has none yet.
    pub commit: Option<&'t str>,
    /// `None` to leave the index as it is; `Some(None)` for no index.
    pub index: Option<Option<IndexSource<'t>>>,
    /// Where a directory in the place of the index moves.
    pub aside: &'t Path,
}

/// A commit that has a name of decree's, because no branch leads to it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCommit {
    pub name: String,
    pub commit: String,
}

/// Moves from `now` to the target. `keep` is the full name of the ref for commits that would be lost; if it is taken, numbered ones
/// are used. `reason` is for the reflogs.
pub fn restore(
    now: &GitSnapshot,
    target: GitTarget<'_>,
    keep: &str,
    reason: &str,
) -> Result<Vec<KeptCommit>> {
    let (head, commit) = (target.head, target.commit);
    let moves = Some(head) != now.head.as_ref() || commit != now.commit.as_deref();
    // Without git the index alone can still be restored.
    let git = if moves { Some(now.git()?) } else { None };
    let mut kept = Vec::new();
    let mut commands = String::new();
    if let Some(git) = &git {
        kept = name_commits(git, leaving(git, now, head, commit)?, keep)?;
        commands = transaction(now, head, commit, &kept);
    }
    let index = target.index.map(|source| LockedIndex::write(&now.dirs.git_dir, source)).transpose()?;
    if let Some(git) = &git {
        if !commands.is_empty() {
            identified(git.call(["update-ref", "-m", reason, "--stdin"]))
                .input(commands.into_bytes())
                .ok()?;
        }
        if let Head::Branch(branch) = head
            && now.head.as_ref() != Some(head)
        {
            identified(git.call(["symbolic-ref", "-m", reason, "HEAD", branch])).ok()?;
        }
    }
    index.map_or(Ok(()), |index| index.place(target.aside))?;
    Ok(kept)
}

/// The index that has what a commit has, and nothing else; `None` for no commit.
pub fn index_of_commit(now: &GitSnapshot, commit: Option<&str>) -> Result<Option<IndexSource<'static>>> {
    let Some(commit) = commit else { return Ok(None) };
    let path = now.dirs.git_dir.join(INDEX_OF_COMMIT);
    fs::remove_file(&path).if_exists().at("remove", &path)?;
    now.git()?.call(["read-tree", commit]).variable("GIT_INDEX_FILE", &path).ok()?;
    let Some(IndexFile { file, mode, .. }) = IndexFile::open_at(&path)? else { return Ok(None) };
    // It is read from the open file.
    fs::remove_file(&path).at("remove", &path)?;
    // The same every time, so that a lock which a killed process left is taken over. git looks at all files again.
    let modified = 0;
    Ok(Some(IndexSource { content: Box::new(file), modified, mode }))
}

/// The commits that are reachable from `after` and not from `before`, the newest first.
pub fn commits_between(git: &Git, before: Option<&str>, after: &[&str]) -> Result<Vec<String>> {
    if after.is_empty() {
        return Ok(Vec::new());
    }
    let mut args: Vec<String> = vec!["rev-list".to_owned(), format!("--max-count={MAX_LISTED}")];
    args.extend(after.iter().map(|commit| (*commit).to_owned()));
    args.extend(before.map(|before| format!("^{before}")));
    args.push("--".to_owned());
    let output = git.call(args).ok()?;
    Ok(String::from_utf8_lossy(&output.out).lines().map(str::to_owned).collect())
}

pub(super) fn identified(call: GitCall<'_>) -> GitCall<'_> {
    IDENTITY.iter().fold(call, |call, (name, value)| call.variable(*name, *value))
}

/// The commits that HEAD and its branch lead to now, and that the target does not contain.
fn leaving(git: &Git, now: &GitSnapshot, head: &Head, commit: Option<&str>) -> Result<Vec<String>> {
    let mut leaving: Vec<String> = now.commit.iter().cloned().chain(branch_value(now, head)).collect();
    leaving.sort();
    leaving.dedup();
    let mut kept = Vec::new();
    for found in leaving {
        let contained = match commit {
            Some(commit) => git.call(["merge-base", "--is-ancestor", &found, commit]).run()?.is_ok(),
            None => false,
        };
        if !contained {
            kept.push(found);
        }
    }
    Ok(kept)
}

/// Gives each commit a name that is free, or that it has already.
pub(super) fn name_commits(git: &Git, commits: Vec<String>, keep: &str) -> Result<Vec<KeptCommit>> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let pattern = format!("{keep}*");
    let output = git.call(["for-each-ref", "--format=%(refname) %(objectname)", &pattern]).ok()?;
    let text = String::from_utf8_lossy(&output.out).into_owned();
    let taken: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let is_ours =
        |name: &str| name.strip_prefix(keep).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'_', ..]));
    let named: BTreeMap<&str, &str> =
        taken.iter().filter(|(name, _)| is_ours(name)).map(|(name, commit)| (*commit, *name)).collect();
    let numbered = |number: u64| if number == 1 { keep.to_owned() } else { format!("{keep}_{number}") };
    let mut free = (1..).map(numbered).filter(|name| !taken.contains_key(&**name));
    let name_of = |commit: String| {
        let known = named.get(&*commit).map(|name| (*name).to_owned());
        let name = known.or_else(|| free.next()).expect("numbers do not end");
        KeptCommit { name, commit }
    };
    Ok(commits.into_iter().map(name_of).collect())
}

/// The value of the branch that HEAD is to name.
fn branch_value(now: &GitSnapshot, head: &Head) -> Option<String> {
    match head {
        Head::Branch(branch) => now.refs.value(branch),
        Head::Detached(_) => None,
    }
}

/// The input of `git update-ref --stdin`. Each ref moves only from the value that it has now.
fn transaction(now: &GitSnapshot, head: &Head, commit: Option<&str>, kept: &[KeptCommit]) -> String {
    let mut commands: String =
        kept.iter().map(|kept| format!("update {} {}\n", kept.name, kept.commit)).collect();
    match (head, branch_value(now, head)) {
        (Head::Branch(_), value) if value.as_deref() == commit => {}
        (Head::Branch(branch), value) => commands.push_str(&match (commit, value) {
            (Some(commit), Some(value)) => format!("update {branch} {commit} {value}\n"),
            (Some(commit), None) => format!("create {branch} {commit}\n"),
            (None, Some(value)) => format!("delete {branch} {value}\n"),
            (None, None) => String::new(),
        }),
        (Head::Detached(_), _) if now.head.as_ref() == Some(head) => {}
        (Head::Detached(hash), _) => {
            let expected = match &now.head {
                Some(Head::Detached(found)) => format!(" {found}"),
                _ => String::new(),
            };
            commands.push_str(&format!("option no-deref\nupdate HEAD {hash}{expected}\n"));
        }
    }
    commands
}
