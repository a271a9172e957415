//! What comes of a directory and of its entries while the tree is walked.

use std::io;

use super::result::{Item, ItemKind, UncachedEntry, WalkedDir};
use super::scope::RuleSet;
use crate::checkpoint::coverage::{Coverage, PathText};
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::error::Error;
use crate::humanize::count;

/// A directory still to be entered.
pub(super) struct Task {
    pub path: Box<[u8]>,
    pub mode: FileMode,
    pub in_scope: bool,
    pub now: RuleSet,
    pub before: Option<RuleSet>,
    /// The baseline does not know this directory.
    pub is_new: bool,
}

/// What came of one directory.
pub(super) struct DirOutcome {
    pub dir: WalkedDir,
    /// In the order of the directories among the items.
    pub tasks: Vec<Task>,
    pub ignore_files: Vec<IgnoreFile>,
    pub coverage: Coverage,
    pub beside: Vec<TreePath>,
    pub opened: Option<(TreePath, FileMode)>,
    pub failures: Vec<WalkFailure>,
}

pub(super) type WalkFailure = (Box<[u8]>, io::Error);

/// What came of one entry of a directory.
pub(super) enum EntryDecision {
    /// Nothing to say: not there any more, decree's own, out of scope.
    Nothing,
    InScope(InScope),
    Enter(Task),
    IgnoredDir(TreePath),
    IgnoredFile,
    Sensitive(TreePath),
    Special(TreePath),
    Beside(TreePath),
    Failed(WalkFailure),
}

/// A file or link in scope.
pub(super) enum InScope {
    Same,
    Known(Node),
    Uncached(UncachedEntry),
}

impl DirOutcome {
    /// Adds what came of the entry `name`.
    pub(super) fn take(&mut self, name: &[u8], seen: EntryDecision) {
        match seen {
            EntryDecision::Nothing => {}
            EntryDecision::InScope(found) => {
                let name = self.dir.name(name);
                let kind = match found {
                    InScope::Same => ItemKind::Same,
                    InScope::Known(node) => {
                        self.dir.known.push(node);
                        ItemKind::Known(self.dir.known.len() as u32 - 1)
                    }
                    InScope::Uncached(news) => {
                        self.dir.news.push(news);
                        ItemKind::Uncached(self.dir.news.len() as u32 - 1)
                    }
                };
                self.dir.items.push(Item { name, kind });
            }
            EntryDecision::Enter(task) => {
                if !task.in_scope
                    && let Ok(path) = TreePath::new(&*task.path)
                {
                    self.coverage.ignored_dirs.push(PathText(path));
                }
                // The number is given when the level is complete.
                let name = self.dir.name(name);
                self.dir.items.push(Item { name, kind: ItemKind::Dir(0) });
                self.tasks.push(task);
            }
            EntryDecision::IgnoredDir(path) => self.coverage.ignored_dirs.push(PathText(path)),
            EntryDecision::IgnoredFile => self.coverage.ignored_files += 1,
            EntryDecision::Sensitive(path) => self.coverage.sensitive.push(PathText(path)),
            EntryDecision::Special(path) => self.coverage.special.push(PathText(path)),
            EntryDecision::Beside(path) => self.beside.push(path),
            EntryDecision::Failed(failure) => self.failures.push(failure),
        }
    }
}

/// The error that names every path that could not be read.
pub(super) fn unreadable(failures: Vec<WalkFailure>) -> Error {
    let lines = failures
        .iter()
        .map(|(path, error)| {
            let path = if path.is_empty() { &b"."[..] } else { path };
            format!("{}: {error}", quote::for_people(path))
        })
        .collect();
    Error::integrity(format!("{} cannot be read", count(failures.len(), "path")))
        .details(lines, 20)
        .hint("make them readable, or leave them out with a line in .decreeignore")
}
