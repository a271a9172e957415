//! The directories that a restore makes, removes and changes the modes of.

use std::collections::BTreeMap;
use std::io;

use super::journal::{DirMode, RestoreStep};
use super::transaction::{StepEnd, Transaction};
use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::root::PathKind;
use crate::error::{IoContext, Result};

impl Transaction<'_> {
    /// Lets this user read and change the directories of the restore, as far as that is possible. Parents first.
    pub(super) fn unlock_dirs(&self) -> Result<()> {
        let mut dirs = self.touched_and_quarantined_dirs();
        dirs.sort();
        for path in dirs {
            let found = self.root.find(&path).at("read", &path)?;
            if let Some(found) = found
                && found.kind == PathKind::Dir
                && found.mode.bits() & 0o700 != 0o700
            {
                match self.root.set_mode(&path, FileMode::from_bits(found.mode.bits() | 0o700)) {
                    // Another user owns it, and may still have granted the access that is needed.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    result => result.at("open", path)?,
                }
            }
        }
        Ok(())
    }

    /// Gives every directory of the restore the mode and the attributes it has at that end; children first.
    pub(super) fn set_dir_modes(&self, end: StepEnd) -> Result<()> {
        let known = self.known_dirs();
        let stated: BTreeMap<&TreePath, &RestoreStep> = self
            .journal
            .steps
            .iter()
            .filter(|step| is_dir_step(step))
            .map(|step| (&step.path, step))
            .collect();
        let mut dirs = self.touched_and_quarantined_dirs();
        dirs.sort_by(|a, b| b.cmp(a));
        dirs.dedup();
        for path in dirs {
            let (step, known) = (stated.get(&path), known.get(&path));
            let mode = match step {
                Some(step) => end.of(step).filter(|node| node.is_dir()).and_then(Node::mode),
                None => known.map(|dir| dir.mode()),
            };
            let mode = mode.unwrap_or(FileMode::DIR);
            let changed = step.and_then(|step| step.attributes.as_ref()).map(|change| end.attributes(change));
            let attributes = match (changed, known, end) {
                (Some(changed), ..) => Some(changed),
                // The restore made it, and it may have inherited something.
                (None, None, _) => Some(Attributes::none()),
                (None, Some(dir), StepEnd::From) => dir.attributes.as_ref(),
                (None, Some(_), StepEnd::To) => None,
            };
            match self.root.find(&path).at("read", &path)? {
                Some(found) if found.kind == PathKind::Dir => match attributes {
                    Some(attributes) => self.give_attributes(&path, attributes, mode)?,
                    None if found.mode != mode => {
                        self.root.set_mode(&path, mode).at("set the mode of", &path)?
                    }
                    None => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// The directories that were there before the restore.
    pub(super) fn known_dirs(&self) -> BTreeMap<&TreePath, &DirMode> {
        self.journal.dirs.iter().map(|dir| (&dir.path, dir)).collect()
    }

    /// The directories above the steps, and those that are steps; children first.
    pub(super) fn touched_dirs(&self) -> Vec<TreePath> {
        let steps = &self.journal.steps;
        let mut dirs = dirs_above(steps.iter().map(|step| &step.path));
        dirs.extend(steps.iter().filter(|step| is_dir_step(step)).map(|step| step.path.clone()));
        dirs.into_iter().rev().collect()
    }

    /// The touched directories that nothing says have to stay: they are removed if they are empty.
    pub(super) fn removable_dirs(&self) -> Vec<TreePath> {
        let stays = |path: &TreePath| {
            let at = self.journal.steps.binary_search_by(|step| step.path.cmp(path));
            at.is_ok_and(|at| self.journal.steps[at].to.is_some_and(|to| to.is_dir()))
        };
        let steps = self.journal.steps.iter();
        let needed = dirs_above(steps.filter(|step| step.to.is_some()).map(|step| &step.path));
        let mut dirs = self.touched_dirs();
        dirs.retain(|path| !stays(path) && !needed.contains(path));
        dirs
    }

    fn touched_and_quarantined_dirs(&self) -> Vec<TreePath> {
        let mut dirs = self.touched_dirs();
        for (path, _) in self.quarantine_moves() {
            dirs.extend(path.ancestors());
        }
        dirs
    }
}

fn is_dir_step(step: &RestoreStep) -> bool {
    [step.from, step.to].into_iter().flatten().any(|node| node.is_dir())
}
