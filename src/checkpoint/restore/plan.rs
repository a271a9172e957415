//! Deciding whether a diff can be taken in a direction, and doing it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::journal::{DirMode, Journal, RestoreStep};
use super::stage::stage;
use super::transaction::{Transaction, make_dirs};
use crate::checkpoint::coverage::PathText;
use crate::checkpoint::disk_node::agrees;
use crate::checkpoint::entry::{FileMode, Node, describe};
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::quote;
use crate::checkpoint::root::PathKind;
use crate::checkpoint::unlocked_dirs::UnlockedDirs;
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::quarantine::{free_name, numbered};
use crate::fs::random_hex;

/// What is to be done.
pub struct RestoreRequest<'g> {
    /// The diff.
    pub patch: &'g Patch,
    /// Which way.
    pub direction: Direction,
    /// For messages and the journal: `revert 2026111603100000-0`.
    pub what: String,
    /// Things that no diff holds and that have to make way.
    pub beside: &'g [TreePath],
    /// Where they go.
    pub aside_dir: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub enum RestoreOutcome {
    /// Every path was there already.
    AlreadyThere,
    /// The tree is on the other side now, and was checked.
    Done(RestoreReport),
}

/// What was done.
#[derive(Debug, Default)]
pub struct RestoreReport {
    /// Paths that were changed and read back.
    pub verified: usize,
    /// What was moved away, and where it is now; what something else put in the way meanwhile among it.
    pub set_aside: Vec<(TreePath, PathBuf)>,
}

impl Workspace {
    /// Takes the tree to the other side of a diff, or leaves it alone.
    pub fn restore(&self, goal: &RestoreRequest<'_>) -> Result<RestoreOutcome> {
        let steps = steps(goal.patch, goal.direction);
        let paths = steps.iter().map(|step| &step.path.0).chain(goal.beside);
        let mut opened = UnlockedDirs::above(&self.root, paths).at("look into", self.root.path())?;
        let found: Vec<Option<Node>> = steps
            .par_iter()
            .map(|step| opened.present(&step.path.0).at("read", step.path.0.as_path()))
            .collect::<Result<_>>()?;
        let beside: Vec<&TreePath> = goal
            .beside
            .iter()
            .filter(|path| self.root.find(path).is_ok_and(|found| found.is_some()))
            .collect();
        let there = self.all_agree(&steps, &found, |step| step.to.as_ref())?;
        if there && beside.is_empty() {
            return Ok(RestoreOutcome::AlreadyThere);
        }
        let conflicts = self.conflicts(&steps, &found, &beside)?;
        if !conflicts.is_empty() {
            let (n, all) = (conflicts.len(), steps.len());
            return Err(Error::failed(format!("cannot {}: {n} of {all} paths changed since", goal.what))
                .details(conflicts, 20)
                .detail("nothing was touched"));
        }
        let dir = self.scratch.join(format!("restore-{}", random_hex()));
        make_dirs(&dir)?;
        let dirs = self.dirs_above(&steps, &beside, &opened)?;
        let result = self.move_in(goal, steps, dirs, &beside, &dir);
        if result.is_ok() {
            opened.forget();
        }
        if result.is_err() && !dir.join(super::journal::FILE).exists() {
            let _ = std::fs::remove_dir_all(&dir);
        }
        result.map(RestoreOutcome::Done)
    }

    fn move_in(
        &self,
        goal: &RestoreRequest<'_>,
        steps: Vec<RestoreStep>,
        dirs: Vec<DirMode>,
        beside: &[&TreePath],
        dir: &Path,
    ) -> Result<RestoreReport> {
        stage(&self.root, goal.patch, goal.direction, &steps, dir)
            .map_err(|error| error.detail("nothing was touched"))?;
        let aside_dir = free_name(|number| numbered(&goal.aside_dir, "-", number));
        let mut set_aside: Vec<(TreePath, PathBuf)> =
            beside.iter().map(|path| ((*path).clone(), aside_dir.join(path.as_path()))).collect();
        let asides = beside.iter().map(|path| quote::in_json(path.as_bytes()).into_owned()).collect();
        let inside = aside_dir.strip_prefix(self.decree_dir()).unwrap_or(&aside_dir).to_owned();
        let verified = steps.len();
        let journal = Journal::new(goal.what.clone(), steps, inside, asides, dirs);
        set_aside.extend(Transaction::new(&self.root, dir.to_owned(), journal).run()?);
        Ok(RestoreReport { verified, set_aside })
    }

    /// Where decree's own data is: work in progress is in it.
    fn decree_dir(&self) -> &Path {
        self.scratch.parent().unwrap_or(&self.scratch)
    }

    fn all_agree(
        &self,
        steps: &[RestoreStep],
        found: &[Option<Node>],
        side: fn(&RestoreStep) -> Option<&Node>,
    ) -> Result<bool> {
        for (step, found) in steps.iter().zip(found) {
            let path = &step.path.0;
            if !agrees(&self.root, path, found.as_ref(), side(step)).at("read", path.as_path())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is not as the diff has it, in words.
    fn conflicts(
        &self,
        steps: &[RestoreStep],
        found: &[Option<Node>],
        beside: &[&TreePath],
    ) -> Result<Vec<String>> {
        let mut conflicts = Vec::new();
        for (step, found) in steps.iter().zip(found) {
            let path = &step.path.0;
            let unexplained = step.from.is_none()
                && found.as_ref().is_some_and(Node::is_dir)
                && !step.to.is_some_and(|to| to.is_dir())
                && !inhabited(steps, path);
            let agrees = agrees(&self.root, path, found.as_ref(), step.from.as_ref());
            if unexplained || !agrees.at("read", path.as_path())? {
                let expected = describe(step.from.as_ref());
                conflicts.push(format!("{path}: expected {expected}, found {}", describe(found.as_ref())));
                continue;
            }
            if step.to.is_none() {
                continue;
            }
            if let Some(blocker) = self.root.blocker(path).at("read", path.as_path())?
                && !moves_away(steps, &blocker)
                && !beside.contains(&&blocker)
            {
                conflicts.push(format!(
                    "{path}: {blocker} is not a directory, and nothing is written through a link"
                ));
            } else if found.as_ref().is_some_and(Node::is_dir) && !step.to.is_some_and(|to| to.is_dir()) {
                self.strangers(steps, beside, path, &mut conflicts)?;
            }
        }
        Ok(conflicts)
    }

    /// Finds what is in a directory that has to make room for a file, and that nobody accounts for.
    fn strangers(
        &self,
        steps: &[RestoreStep],
        beside: &[&TreePath],
        dir: &TreePath,
        conflicts: &mut Vec<String>,
    ) -> Result<()> {
        for path in self.root.list(dir).at("read", dir.as_path())? {
            let is_dir = self
                .root
                .find(&path)
                .at("read", path.as_path())?
                .is_some_and(|found| found.kind == PathKind::Dir);
            if beside.contains(&&path) || moves_away(steps, &path) {
                continue;
            }
            if is_dir && inhabited(steps, &path) {
                self.strangers(steps, beside, &path, conflicts)?;
            } else {
                conflicts.push(format!("{path}: not part of this change, and {dir} has to make way"));
            }
        }
        Ok(())
    }

    /// The directories above the steps as they are now.
    fn dirs_above(
        &self,
        steps: &[RestoreStep],
        beside: &[&TreePath],
        opened: &UnlockedDirs<'_>,
    ) -> Result<Vec<DirMode>> {
        let above = dirs_above(steps.iter().map(|step| &step.path.0).chain(beside.iter().copied()));
        let mut dirs = BTreeMap::new();
        for path in above.iter().chain(steps.iter().map(|step| &step.path.0)) {
            if let Some(found) = self.root.find(path).at("read", path.as_path())?
                && found.kind == PathKind::Dir
            {
                dirs.insert(path, opened.real_mode(path).unwrap_or(found.mode));
            }
        }
        let entry = |(path, mode): (&TreePath, FileMode)| DirMode {
            path: PathText(path.clone()),
            mode: mode.to_string(),
        };
        Ok(dirs.into_iter().map(entry).collect())
    }
}

fn steps(patch: &Patch, direction: Direction) -> Vec<RestoreStep> {
    patch
        .records
        .iter()
        .map(|record| {
            let (from, to) = match direction {
                Direction::Forth => (record.change.before, record.change.after),
                Direction::Back => (record.change.after, record.change.before),
            };
            RestoreStep { path: PathText(record.change.path.clone()), from, to }
        })
        .collect()
}

/// Whether the diff accounts for something below `dir` on the side we come from.
fn inhabited(steps: &[RestoreStep], dir: &TreePath) -> bool {
    let start = steps.partition_point(|step| step.path.0 <= *dir);
    steps[start..]
        .iter()
        .take_while(|step| step.path.0.as_bytes().starts_with(dir.as_bytes()))
        .any(|step| step.path.0.is_in(dir) && step.from.is_some())
}

/// Whether the diff takes away what is at `path` now.
fn moves_away(steps: &[RestoreStep], path: &TreePath) -> bool {
    steps
        .binary_search_by(|step| step.path.0.cmp(path))
        .is_ok_and(|at| steps[at].from.is_some() && !steps[at].keeps_content())
}
