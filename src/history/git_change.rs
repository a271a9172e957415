//! What became of git's own state in a run: its record in `result.json`, and the sentences for the user.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checkpoint::git_record::GitRecord;
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::path::TreePath;
use crate::git::state::{self, Head};
use crate::humanize::count;

/// How many digits of a commit messages show.
const SHORT: usize = 10;
/// How many refs a sentence names.
const MAX_NAMED: usize = 10;

/// How git's own state differed from the checkpoint, and what was done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitChange {
    /// The work tree of a repository in the tree; absent for the one that contains the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<TreePath>,
    /// The last attempt before the clean slate that restored the state; absent at the end of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// As in the file `HEAD`.
    pub head_before: String,
    pub head_after: String,
    /// The commits that were checked out; null before the first one.
    pub before: Option<String>,
    pub after: Option<String>,
    /// The commits that are new, the newest first.
    #[serde(default)]
    pub commits: Vec<String>,
    /// The index after the run, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_after: Option<ContentHash>,
    /// The log of the stash after the run, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stash_after: Option<ContentHash>,
    /// Stash entries that were made meanwhile, as `stash@{2} (On main: x)`; those from before come first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stash_made: Vec<String>,
    /// Refs that were deleted and are there again; `the stash list` if entries of it were dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs_restored: Vec<String>,
    /// Commits that nothing led to any more, each as `<ref> (<commit>)`; the refs of decree's keep them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<String>,
    /// Other refs and lists that differ; they are left as they are.
    #[serde(default)]
    pub left: Vec<String>,
    /// Of these, the remote-tracking refs that are there, with their values: they do not prove that a remote has a commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub remote_refs: BTreeMap<String, String>,
    /// Whether HEAD, its branch and the index are as before. The index is that of HEAD if the store has lost it, as `not_restored` says.
    #[serde(default)]
    pub restored: bool,
    /// The refs that keep the commits after that.
    #[serde(default)]
    pub kept_as: Vec<String>,
    /// Where the files of operations that were begun are now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<String>,
    /// Why something is not restored.
    #[serde(default)]
    pub not_restored: Vec<String>,
}

impl GitChange {
    /// The change if HEAD and its branch are as before.
    pub fn none_since(before: &GitRecord) -> GitChange {
        let head = before.head.clone().unwrap_or_default();
        GitChange {
            repository: before.work_tree.clone(),
            head_before: head.clone(),
            head_after: head,
            before: before.commit.clone(),
            after: before.commit.clone(),
            ..GitChange::default()
        }
    }

    /// Whether there is something to say.
    pub fn is_any(&self) -> bool {
        let is_listed =
            [&self.refs_restored, &self.stash_made, &self.unnamed, &self.left, &self.not_restored];
        self.moved()
            || self.index_after.is_some()
            || self.operations.is_some()
            || is_listed.iter().any(|list| !list.is_empty())
    }

    /// Whether HEAD, or the branch that it names, differs.
    pub fn moved(&self) -> bool {
        (&self.head_before, &self.before) != (&self.head_after, &self.after)
    }

    /// Whether HEAD could be read.
    pub fn is_known(&self) -> bool {
        !self.head_after.is_empty()
    }

    /// Whether git's state is not as before although it should be.
    pub fn is_unrestored(&self) -> bool {
        !self.not_restored.is_empty()
    }

    /// Sentences for a state that was to be restored.
    pub fn restored_lines(&self) -> Vec<String> {
        let git = self.of_repository("git");
        let mut lines = Vec::new();
        if self.moved() && self.restored {
            let (place, before) = (shown_head(&self.head_before), shown_commit(self.before.as_deref()));
            let was = match shown_head(&self.head_after) {
                there if there == place => format!("it was at {}", shown_commit(self.after.as_deref())),
                there => format!("HEAD was on {there} at {}", shown_commit(self.after.as_deref())),
            };
            let is_unnamed =
                |name: &&String| self.unnamed.iter().any(|it| it.starts_with(&format!("{name} ")));
            let names: Vec<&str> = self.kept_as.iter().filter(|it| !is_unnamed(it)).map(|it| &**it).collect();
            let verb = if self.commits.len() == 1 { "is" } else { "are" };
            let kept = match names[..] {
                [] => String::new(),
                _ => format!("; {} made since {verb} kept as {}", self.shown_count(), names.join(", ")),
            };
            lines.push(format!("{git}: {place} is back at {before} ({was}){kept}"));
        }
        if !self.refs_restored.is_empty() {
            let names = shown_list(&self.refs_restored);
            lines.push(format!("{git}: deleted meanwhile, and restored: {names}"));
        }
        if !self.stash_made.is_empty() {
            let names = shown_list(&self.stash_made);
            lines.push(format!(
                "{git}: stash entries made meanwhile, and left behind those from before: {names}"
            ));
        }
        if !self.unnamed.is_empty() {
            let names = shown_list(&self.unnamed);
            lines.push(format!("{git}: commits that no branch leads to any more are kept as {names}"));
        }
        if let Some(place) = &self.operations {
            lines.push(format!("{git}: an operation that was begun is undone; its files are in {place}"));
        }
        if !self.left.is_empty() {
            lines.push(format!("{git}: changed meanwhile, and left as they are: {}", shown_list(&self.left)));
        }
        if self.restored && self.index_after.is_some() && !self.moved() && self.repository.is_some() {
            lines.push(format!("{git}: the index is restored"));
        }
        lines.extend(self.unrestored_lines());
        lines
    }

    /// Why something is not restored, in sentences.
    pub fn unrestored_lines(&self) -> Vec<String> {
        let state = self.of_repository("git's own state");
        self.not_restored.iter().map(|why| format!("{state} is not restored: {why}")).collect()
    }

    /// `git`, or `git in lib`.
    pub fn of_repository(&self, what: &str) -> String {
        self.repository.as_ref().map_or_else(|| what.to_owned(), |place| format!("{what} in {place}"))
    }

    /// Sentences for a state that is kept.
    pub fn kept_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.moved() {
            let place = shown_head(&self.head_after);
            let (before, after) = (shown_commit(self.before.as_deref()), shown_commit(self.after.as_deref()));
            lines.push(format!("git: {place} is at {after} (before: {before}), {} new", self.shown_count()));
        }
        if !self.left.is_empty() {
            lines.push(format!("git: also changed: {}", shown_list(&self.left)));
        }
        lines
    }

    /// The commits that are new and were not taken back, in a few words. Records may come from elsewhere: what is no hash is not shown.
    pub fn kept_commits(&self) -> Option<String> {
        let is_hash = |commit: &String| commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if self.commits.is_empty() || self.restored || !self.commits.iter().all(is_hash) {
            return None;
        }
        let shown: Vec<&str> =
            self.commits.iter().take(MAX_NAMED).map(|commit| shown_commit(Some(commit))).collect();
        let more = if self.commits.len() > MAX_NAMED { ", …" } else { "" };
        Some(format!("{}: {}{more}", self.shown_count(), shown.join(", ")))
    }

    fn shown_count(&self) -> String {
        let commits = count(self.commits.len(), "commit");
        if self.commits.len() < state::MAX_LISTED { commits } else { format!("at least {commits}") }
    }
}

/// A list for people; further names are only counted.
fn shown_list(list: &[String]) -> String {
    let more = list.len().saturating_sub(MAX_NAMED);
    let mut named = list[..list.len() - more].join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    named
}

/// The branch of a HEAD, for messages.
fn shown_head(text: &str) -> String {
    Head::parse(text).map_or_else(|| text.to_owned(), |head| head.shown().to_owned())
}

/// The beginning of a commit's hash.
pub fn shown_commit(commit: Option<&str>) -> &str {
    commit.map_or("no commit", |commit| commit.get(..SHORT).unwrap_or(commit))
}
