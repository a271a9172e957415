//! What the entries of a `.git` directory are for, by their names: that decides what a failed run or command must not change.

use std::collections::BTreeSet;
use std::path::Path;

use crate::git::state::{GitSnapshot, OBJECTS};

/// What a user sets up, and git itself never changes on its own.
const SETTINGS: [&str; 7] =
    ["config", "config.worktree", "description", "hooks", "info", SHALLOW, ALTERNATES];
/// Which commits have no parents here, and where else objects are: without these a repository may be broken.
pub(super) const SHALLOW: &str = "shallow";
pub(super) const ALTERNATES: &str = "objects/info/alternates";
pub(super) const REFS: &str = "refs";
pub(super) const PACKED_REFS: &str = "packed-refs";
pub(super) const REFTABLE: &str = "reftable";
pub(super) const LOGS: &str = "logs";
pub(super) const HEAD: &str = "HEAD";
/// The repositories of submodules.
pub(super) const MODULES: &str = "modules";
/// HEAD, index and logs of linked work trees, a directory for each.
pub(super) const WORK_TREES: &str = "worktrees";
/// In each of those: where the `.git` file of the work tree is.
pub(super) const PLACE_OF_WORK_TREE: &str = "gitdir";
/// The log that is the stash list. The checkpoint has it.
const STASH_LOG: &str = "logs/refs/stash";
/// How the file begins that a split index needs besides itself. Its name has its hash, so git never changes it.
const SHARED_INDEX: &str = "sharedindex.";
/// What the checkpoint has, or has a guard of its own.
const STATE: [&str; 7] = [HEAD, "index", PACKED_REFS, REFS, REFTABLE, OBJECTS, MODULES];
/// What git makes anew or removes at any time.
const PASSING: [&str; 8] = [
    "COMMIT_EDITMSG",
    "TAG_EDITMSG",
    "EDIT_DESCRIPTION",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "gc.log",
    "gc.pid",
    "fsmonitor--daemon",
];

/// In the order in which there is room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InsideKind {
    /// Settings, hooks and the like.
    Setting,
    /// A file of an operation in progress, or the shared part of an index.
    Operation,
    /// Refs and the index, which the checkpoint has, and what is only there for a while.
    Passing,
    /// A reflog, to which git only adds, or a directory of them.
    Log,
    /// The list of stashes.
    StashLog,
    /// What other programs keep there (`lfs`, `annex`), and whatever else git does not remove.
    Data,
}

impl InsideKind {
    pub fn of(name: &Path) -> InsideKind {
        let is_in = |names: &[&str]| names.iter().any(|it| name.starts_with(it));
        let mut parts = name.iter();
        if parts.next().is_some_and(|first| first == WORK_TREES) {
            let within: &Path = match parts.next() {
                Some(_) => parts.as_path(),
                None => Path::new(""),
            };
            // A work tree that is gone as a whole is restored as a whole.
            return if within == Path::new("") { InsideKind::Passing } else { InsideKind::of(within) };
        }
        let last = name.file_name().unwrap_or_default().to_string_lossy();
        if is_in(&SETTINGS) {
            InsideKind::Setting
        } else if GitSnapshot::is_of_operation(name) || last.starts_with(SHARED_INDEX) {
            InsideKind::Operation
        } else if name == Path::new(STASH_LOG) {
            InsideKind::StashLog
        } else if name.starts_with(LOGS) {
            InsideKind::Log
        } else if is_in(&STATE) || is_in(&PASSING) || is_passing(name, &last) {
            InsideKind::Passing
        } else {
            InsideKind::Data
        }
    }

    /// Whether a failed run must not change it.
    pub fn is_kept_as_it_was(self) -> bool {
        matches!(self, InsideKind::Setting | InsideKind::Operation)
    }

    /// Whether a failed run must not delete it.
    pub fn is_kept(self) -> bool {
        self != InsideKind::Passing
    }
}

/// Locks, and files on the way to their names.
fn is_passing(name: &Path, last: &str) -> bool {
    let is_at_top = name.parent() == Some(Path::new(""));
    last.ends_with(".lock") || is_at_top && ["index.", "tmp_"].iter().any(|begin| last.starts_with(begin))
}

/// What a reflog is to be if it does not begin with what it had: that, and then the lines that are new in it. `None` if it only grew.
pub(super) fn merged_log(before: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    if now.starts_with(before) {
        return None;
    }
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let old: BTreeSet<Vec<u8>> = lines(before).into_iter().collect();
    let mut merged = before.to_vec();
    let added = lines(now).into_iter().filter(|line| !old.contains(line) && is_log_line(line));
    merged.extend(added.flatten());
    Some(merged)
}

/// Whether git would read this line: two hashes, and who. git does not read a log to its end if one is another.
fn is_log_line(line: &[u8]) -> bool {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let mut is_hash = || {
        words.next().is_some_and(|word| {
            matches!(word.len(), 40 | 64) && word.iter().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    is_hash() && is_hash() && line.contains(&b'>') && line.ends_with(b"\n")
}
