//! Rebuilding every file beside the tree, before anything in the tree is touched.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use rayon::prelude::*;

use super::attributes::{GivenAttributes, give};
use super::journal::RestoreStep;
use super::transaction_dir::TransactionDir;
use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::content_source::ContentSource;
use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::{Hasher, Hashing};
use crate::checkpoint::patch::parse::{Patch, Recipe};
use crate::checkpoint::patch::rebuild::{Direction, RebuildError, rebuild};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::sparse::SparseWriter;
use crate::interrupt;

/// Stages the files that the steps need; step `n` is the patch's record `n`. Returns the steps whose file could not get all of its
/// attributes.
pub fn stage(
    root: &Root,
    patch: &Patch,
    direction: Direction,
    steps: &[RestoreStep],
    dir: &TransactionDir,
) -> Result<Vec<(usize, GivenAttributes)>> {
    let diff = File::open(&patch.path).at("read", &patch.path)?;
    let stager = Stager { root, diff: &diff, direction };
    let jobs: Vec<usize> = (0..steps.len()).filter(|&n| steps[n].is_staged()).collect();
    let staged: Vec<(usize, Result<Option<GivenAttributes>>)> = jobs
        .into_par_iter()
        .map(|n| {
            let recipe = match direction {
                Direction::Forward => &patch.records[n].forward,
                Direction::Backward => &patch.records[n].backward,
            };
            (n, stager.stage(&steps[n], recipe, &dir.staged(n)))
        })
        .collect();
    let (mut incomplete, mut failures) = (Vec::new(), Vec::new());
    for (n, result) in staged {
        match result {
            Ok(given) => {
                incomplete.extend(given.filter(|given| !given.lost.is_empty()).map(|given| (n, given)))
            }
            Err(error) => failures.push(error),
        }
    }
    // A signal stops every file, and nothing is wrong with them.
    let is_interrupt = |error: &Error| matches!(error.kind(), ErrorKind::Interrupted { .. });
    if let Some(interrupt) = failures.iter().position(is_interrupt) {
        return Err(failures.swap_remove(interrupt));
    }
    let Some(first) = failures.first() else {
        return Ok(incomplete);
    };
    if let [_] = &failures[..] {
        return Err(failures.into_iter().next().expect("there is one"));
    }
    let lines = failures.iter().map(ToString::to_string).collect();
    let count = crate::humanize::count(failures.len(), "file");
    Err(Error::new(first.kind(), format!("{count} cannot be rebuilt")).details(lines, 20))
}

struct Stager<'s> {
    root: &'s Root,
    diff: &'s File,
    direction: Direction,
}

impl Stager<'_> {
    fn stage(&self, step: &RestoreStep, recipe: &Recipe, target: &Path) -> Result<Option<GivenAttributes>> {
        let path = &step.path;
        let Some(to) = step.to else { return Ok(None) };
        interrupt::check()?;
        let mut source = self.source(step)?;
        match to {
            Node::File { mode, .. } => {
                // Its content may be for its owner alone.
                let mut options = File::options();
                let file =
                    options.write(true).create_new(true).mode(0o600).open(target).at("create", target)?;
                let mut out = Hashing::new(SparseWriter::new(file));
                rebuild(recipe, self.direction, self.diff, &mut source, &mut out)
                    .map_err(|error| rebuild_error(path, error))?;
                check(path, &to, out.hasher)?;
                let (file, _) = out.out.finish().at("restore", path.as_path())?;
                give(file.as_fd(), &self.attributes(step)?, mode, self.root.owner())
                    .at("set the attributes of", target)
                    .map(Some)
            }
            Node::Symlink { .. } => {
                let mut out = Hashing::new(Vec::new());
                rebuild(recipe, self.direction, self.diff, &mut source, &mut out)
                    .map_err(|error| rebuild_error(path, error))?;
                check(path, &to, out.hasher)?;
                symlink(std::ffi::OsStr::from_bytes(&out.out), target).at("create", target)?;
                self.copy_owner(path, target)?;
                Ok(None)
            }
            // Directories are made in the tree, not staged.
            Node::Dir { .. } => Ok(None),
        }
    }

    fn source(&self, step: &RestoreStep) -> Result<Box<dyn io::Read + '_>> {
        match &step.from {
            Some(from) if !from.is_dir() => ContentSource::open(self.root, &step.path, from),
            _ => Ok(Box::new(io::empty())),
        }
    }

    /// The attributes that a file gets: those that the diff has, else those of the file that it replaces, else none.
    fn attributes(&self, step: &RestoreStep) -> Result<Attributes> {
        match (&step.attributes, step.from) {
            (Some(change), _) => Ok(change.after.clone()),
            (None, Some(Node::File { .. })) => self.root.attributes(&step.path).at("read", &step.path),
            (None, _) => Ok(Attributes::default()),
        }
    }

    /// Gives a link the owner of what it replaces, or of the directory it is in: as root, decree works on trees of other users
    /// (in a container, on a bind mount).
    fn copy_owner(&self, path: &TreePath, target: &Path) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let top = fs::metadata(self.root.path()).at("read", self.root.path())?;
        let (mut owner, mut group) = (top.uid(), top.gid());
        for place in path.ancestors().chain([path.clone()]) {
            if let Some(found) = self.root.find(&place).at("read", &place)? {
                (owner, group) = found.owner;
            }
        }
        if (owner, group) == (0, 0) {
            return Ok(());
        }
        std::os::unix::fs::lchown(target, Some(owner), Some(group)).at("change the owner of", target)
    }
}

fn check(path: &TreePath, to: &Node, hasher: Hasher) -> Result<()> {
    let found = hasher.finish();
    if Some(found) == to.content() {
        return Ok(());
    }
    Err(Error::integrity(format!("{path} cannot be rebuilt: the result does not match the recorded hash")))
}

fn rebuild_error(path: &TreePath, error: RebuildError) -> Error {
    let error = error.into_error("restore", path);
    match error.kind() {
        ErrorKind::Integrity => {
            error.hint("if another process writes to it, stop that; then run the same command again")
        }
        _ => error,
    }
}
