//! What comes of a directory and of its entries while the tree is walked.

use std::io;

use super::result::{Item, ItemKind, News, WalkedDir};
use super::scope::Side;
use crate::checkpoint::coverage::{Coverage, PathText};
use crate::checkpoint::entry::{Mode, Node};
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::error::Error;
use crate::figures::count;

/// A directory still to be entered.
pub(super) struct Task {
    pub path: Box<[u8]>,
    pub mode: Mode,
    pub in_scope: bool,
    pub now: Side,
    pub before: Option<Side>,
    /// The baseline does not know this directory.
    pub is_new: bool,
}

/// What came of one directory.
pub(super) struct Outcome {
    pub dir: WalkedDir,
    /// In the order of the directories among the items.
    pub tasks: Vec<Task>,
    pub ignore_files: Vec<IgnoreFile>,
    pub coverage: Coverage,
    pub beside: Vec<TreePath>,
    pub opened: Option<(TreePath, Mode)>,
    pub failures: Vec<Failure>,
}

pub(super) type Failure = (Box<[u8]>, io::Error);

/// What came of one entry of a directory.
pub(super) enum Seen {
    /// Nothing to say: not there any more, decree's own, out of scope.
    Nothing,
    InScope(Found),
    Enter(Task),
    IgnoredDir(TreePath),
    IgnoredFile,
    Sensitive(TreePath),
    Special(TreePath),
    Beside(TreePath),
    Failed(Failure),
}

/// A file or link in scope.
pub(super) enum Found {
    Same,
    Known(Node),
    News(News),
}

impl Outcome {
    /// Adds what came of the entry `name`.
    pub(super) fn take(&mut self, name: &[u8], seen: Seen) {
        match seen {
            Seen::Nothing => {}
            Seen::InScope(found) => {
                let name = self.dir.name(name);
                let kind = match found {
                    Found::Same => ItemKind::Same,
                    Found::Known(node) => {
                        self.dir.known.push(node);
                        ItemKind::Known(self.dir.known.len() as u32 - 1)
                    }
                    Found::News(news) => {
                        self.dir.news.push(news);
                        ItemKind::News(self.dir.news.len() as u32 - 1)
                    }
                };
                self.dir.items.push(Item { name, kind });
            }
            Seen::Enter(task) => {
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
            Seen::IgnoredDir(path) => self.coverage.ignored_dirs.push(PathText(path)),
            Seen::IgnoredFile => self.coverage.ignored_files += 1,
            Seen::Sensitive(path) => self.coverage.sensitive.push(PathText(path)),
            Seen::Special(path) => self.coverage.special.push(PathText(path)),
            Seen::Beside(path) => self.beside.push(path),
            Seen::Failed(failure) => self.failures.push(failure),
        }
    }
}

/// The error that names every path that could not be read.
pub(super) fn unreadable(failures: Vec<Failure>) -> Error {
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
