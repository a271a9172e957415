//! The result of walking one directory, collected from the decisions about its entries.

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
    /// The directory was not there when the baseline was captured.
    pub is_new: bool,
}

/// The result of one directory.
pub(super) struct DirOutcome {
    pub dir: WalkedDir,
    /// The directories among the items, in the same order.
    pub tasks: Vec<Task>,
    pub ignore_files: Vec<IgnoreFile>,
    pub coverage: Coverage,
    pub out_of_scope: Vec<TreePath>,
    pub unlocked: Option<(TreePath, FileMode)>,
    pub failures: Vec<WalkFailure>,
}

pub(super) type WalkFailure = (Box<[u8]>, io::Error);

/// What to do with one entry of a directory.
pub(super) enum EntryDecision {
    /// The entry vanished, or is decree's or git's own data.
    Skip,
    InScope(InScope),
    Enter(Task),
    IgnoredDir(TreePath),
    IgnoredFile,
    Sensitive(TreePath),
    Special(TreePath),
    OutOfScope(TreePath),
    Failed(WalkFailure),
}

/// A file or link in scope.
pub(super) enum InScope {
    Same,
    Known(Node),
    Uncached(UncachedEntry),
}

impl DirOutcome {
    pub(super) fn new(task: &Task) -> Self {
        DirOutcome {
            dir: WalkedDir::new(&task.path, task.mode, task.in_scope),
            tasks: Vec::new(),
            ignore_files: Vec::new(),
            coverage: Coverage::default(),
            out_of_scope: Vec::new(),
            unlocked: None,
            failures: Vec::new(),
        }
    }

    /// Adds the decision about the entry `name`.
    pub(super) fn add(&mut self, name: &[u8], decision: EntryDecision) {
        match decision {
            EntryDecision::Skip => {}
            EntryDecision::InScope(entry) => {
                let name = self.dir.add_name(name);
                let kind = match entry {
                    InScope::Same => ItemKind::Same,
                    InScope::Known(node) => {
                        self.dir.known.push(node);
                        ItemKind::Known(self.dir.known.len() as u32 - 1)
                    }
                    InScope::Uncached(entry) => {
                        self.dir.uncached.push(entry);
                        ItemKind::Uncached(self.dir.uncached.len() as u32 - 1)
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
                // The number is assigned when the level is complete.
                let name = self.dir.add_name(name);
                self.dir.items.push(Item { name, kind: ItemKind::Dir(0) });
                self.tasks.push(task);
            }
            EntryDecision::IgnoredDir(path) => self.coverage.ignored_dirs.push(PathText(path)),
            EntryDecision::IgnoredFile => self.coverage.ignored_files += 1,
            EntryDecision::Sensitive(path) => self.coverage.sensitive.push(PathText(path)),
            EntryDecision::Special(path) => self.coverage.special.push(PathText(path)),
            EntryDecision::OutOfScope(path) => self.out_of_scope.push(path),
            EntryDecision::Failed(failure) => self.failures.push(failure),
        }
    }
}

/// The error that lists the paths that cannot be read.
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
