//! Collecting what was found in the directories, in an order that does not depend on the threads.
//!
//! A directory gets a *place* when its parent is done, in the order of the threads, and a *number*, its index in [`Walk::dirs`], when the
//! walk is complete.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::inspect::{EntryDecision, PrunedDir, Task, WalkFailure};
use super::result::{ItemKind, Walk, WalkedDir};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::FileMode;
use crate::checkpoint::ignore::IgnoreFile;
use crate::checkpoint::path::TreePath;

/// The result of one directory.
#[derive(Default)]
pub(super) struct DirOutcome {
    pub dir: WalkedDir,
    /// The directories among the items, in the same order, until they are entered.
    pub tasks: Vec<Task>,
    /// The place of the first of them; the others follow.
    pub first_child: u32,
    /// Boxed, because few directories have any.
    pub findings: Option<Box<DirFindings>>,
}

/// What was found in a directory besides entries in scope.
#[derive(Default)]
pub(super) struct DirFindings {
    pub ignore_files: Vec<IgnoreFile>,
    pub coverage: Coverage,
    pub out_of_scope: Vec<TreePath>,
    pub databases: Vec<TreePath>,
    pub unlocked: Option<(TreePath, FileMode)>,
    pub failures: Vec<WalkFailure>,
}

/// The results of all directories. Each has a place, which its parent reserves.
pub(super) struct Outcomes {
    next_place: AtomicU32,
    found: Mutex<Vec<(u32, DirOutcome)>>,
}

impl Default for Outcomes {
    fn default() -> Self {
        Outcomes { next_place: AtomicU32::new(Self::ROOT + 1), found: Mutex::default() }
    }
}

impl Outcomes {
    pub const ROOT: u32 = 0;

    /// The directories to enter below one, with their places.
    pub fn reserve(&self, outcome: &mut DirOutcome) -> impl Iterator<Item = (Task, u32)> + use<> {
        let tasks = std::mem::take(&mut outcome.tasks);
        let first = self.next_place.fetch_add(tasks.len() as u32, Ordering::Relaxed);
        outcome.first_child = first;
        tasks.into_iter().zip(first..)
    }

    pub fn add(&self, place: u32, outcome: DirOutcome) {
        self.found.lock().expect("no thread panics while it adds a result").push((place, outcome));
    }

    /// Puts the results together, level by level, and returns what could not be read, too.
    pub fn into_walk(self, with_attributes: bool) -> (Walk, Vec<WalkFailure>) {
        let found = self.found.into_inner().expect("no thread panics while it adds a result");
        let mut by_place: Vec<Option<DirOutcome>> = Vec::new();
        by_place.resize_with(found.len(), || None);
        for (place, outcome) in found {
            by_place[place as usize] = Some(outcome);
        }
        let mut walk = Walk { with_attributes, dirs: Vec::with_capacity(by_place.len()), ..Walk::default() };
        let mut failures = Vec::new();
        let mut order = vec![Self::ROOT];
        let mut at = 0;
        while let Some(&place) = order.get(at) {
            at += 1;
            let outcome = by_place[place as usize].take();
            let mut outcome = outcome.expect("every directory that was found was entered once");
            let mut child = outcome.first_child;
            for item in &mut outcome.dir.items {
                if let ItemKind::Dir(number) = &mut item.kind {
                    *number = order.len() as u32;
                    order.push(child);
                    child += 1;
                }
            }
            walk.dirs.push(outcome.dir);
            let Some(findings) = outcome.findings else { continue };
            walk.ignore_files.extend(findings.ignore_files);
            walk.coverage.absorb(findings.coverage);
            walk.out_of_scope.extend(findings.out_of_scope);
            walk.databases.extend(findings.databases);
            walk.unlocked.extend(findings.unlocked);
            failures.extend(findings.failures);
        }
        walk.coverage.sort();
        walk.out_of_scope.sort();
        (walk, failures)
    }
}

impl DirOutcome {
    pub fn ignore_files(&self) -> &[IgnoreFile] {
        self.findings.as_ref().map_or(&[], |findings| &findings.ignore_files)
    }

    /// What was found besides entries in scope, to add to it.
    pub fn findings_mut(&mut self) -> &mut DirFindings {
        self.findings.get_or_insert_default()
    }

    /// Adds the decision about the entry `name`.
    pub fn add(&mut self, name: &[u8], decision: EntryDecision) {
        match decision {
            EntryDecision::Skip => {}
            EntryDecision::Same => self.dir.add(name, ItemKind::Same),
            EntryDecision::Known(node, attributes) => {
                let number = self.dir.known.len() as u32;
                self.dir.add(name, ItemKind::Known(number));
                if !attributes.is_none() {
                    self.dir.add_known_attributes(number, attributes);
                }
                self.dir.known.push(node);
            }
            EntryDecision::Uncached(entry) => {
                self.dir.add(name, ItemKind::Uncached(self.dir.uncached.len() as u32));
                self.dir.uncached.push(entry);
            }
            EntryDecision::Enter(task) => {
                if !task.in_scope
                    && let Ok(path) = TreePath::new(&*task.path)
                {
                    self.add_ignored_in_root(&path);
                    self.findings_mut().coverage.ignored_dirs.push(path);
                }
                // The number is assigned when the walk is complete.
                self.dir.add(name, ItemKind::Dir(0));
                self.tasks.push(*task);
            }
            EntryDecision::IgnoredDir(PrunedDir { path, secrets }) => {
                self.add_ignored_in_root(&path);
                let coverage = &mut self.findings_mut().coverage;
                coverage.ignored_dirs.push(path);
                coverage.sensitive.extend(secrets);
            }
            EntryDecision::NewDir(PrunedDir { path, secrets }) => {
                let findings = self.findings_mut();
                findings.out_of_scope.push(path);
                findings.coverage.sensitive.extend(secrets);
            }
            EntryDecision::IgnoredFile(path) => self.findings_mut().coverage.add_ignored_file(path),
            EntryDecision::Sensitive(path) => self.findings_mut().coverage.sensitive.push(path),
            EntryDecision::NewSecret(path) => {
                let findings = self.findings_mut();
                findings.out_of_scope.push(path.clone());
                findings.coverage.sensitive.push(path);
            }
            EntryDecision::Repository(path) => self.findings_mut().coverage.repositories.push(path),
            EntryDecision::Special(path) => self.findings_mut().coverage.special.push(path),
            EntryDecision::Output(path) => {
                let coverage = &mut self.findings_mut().coverage;
                coverage.special.push(path.clone());
                coverage.outputs.push(path);
            }
            EntryDecision::OutOfScope(path) => self.findings_mut().out_of_scope.push(path),
            EntryDecision::Failed(failure) => self.findings_mut().failures.push(failure),
        }
    }

    fn add_ignored_in_root(&mut self, path: &TreePath) {
        if self.dir.path.is_empty() {
            self.findings_mut().coverage.ignored_in_root.push(path.clone());
        }
    }
}
