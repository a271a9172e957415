//! Files and directories that stay in the tree and get another mode or other attributes.

use std::os::fd::AsFd;

use super::attributes::give;
use super::journal::RestoreStep;
use super::transaction::{StepEnd, Transaction};
use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::is_absent;
use crate::error::{IoContext, Result};

impl Transaction<'_> {
    /// Gives a file whose content stays the mode and attributes that it has at that end.
    pub(super) fn set_in_place(&self, step: &RestoreStep, end: StepEnd) -> Result<()> {
        let Some(mode) = end.of(step).and_then(Node::mode) else { return Ok(()) };
        match &step.attributes {
            Some(change) => self.give_attributes(&step.path, end.attributes(change), mode),
            None => self.set_mode(&step.path, mode),
        }
    }

    /// Gives something in the tree these attributes and the mode.
    pub(super) fn give_attributes(&self, path: &TreePath, wanted: &Attributes, mode: FileMode) -> Result<()> {
        let given =
            self.root.open_forced(path).and_then(|file| give(file.as_fd(), wanted, mode, self.root.owner()));
        let given = match given {
            // Another process removed it; the verification at the end reports that.
            Err(error) if is_absent(&error) => return Ok(()),
            result => result.at("set the attributes of", path)?,
        };
        if !given.lost.is_empty() {
            self.incomplete.borrow_mut().insert(path.clone(), given);
        }
        Ok(())
    }

    /// Everything that could not be restored, by path.
    pub(super) fn lost_attributes(&self) -> Vec<(TreePath, Vec<String>)> {
        let staged = self.journal.steps.iter().filter(|step| !step.lost.is_empty());
        let mut lost: Vec<_> = staged.map(|step| (step.path.clone(), step.lost.clone())).collect();
        let in_place = self.incomplete.borrow();
        lost.extend(in_place.iter().map(|(path, given)| (path.clone(), given.lost.clone())));
        lost.sort();
        lost
    }

    /// The difference between the attributes of a path and those that its step has at that end.
    pub(super) fn attribute_mismatch(&self, step: &RestoreStep, end: StepEnd) -> Result<Option<String>> {
        let path = &step.path;
        let Some(change) = &step.attributes else { return Ok(None) };
        if !step.lost.is_empty() || self.incomplete.borrow().contains_key(path) {
            return Ok(None);
        }
        let (found, expected) = (self.root.attributes(path).at("read", path)?, end.attributes(change));
        let shown = |attributes: &Attributes| match &attributes.names()[..] {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        Ok((found != *expected)
            .then(|| format!("{path}: expected the attributes {}, found {}", shown(expected), shown(&found))))
    }
}
