//! Rebuilding every file beside the tree, before anything in the tree is touched.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rayon::prelude::*;

use super::journal::RestoreStep;
use super::transaction::staged;
use crate::checkpoint::content_source::ContentSource;
use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::{Hasher, Hashing};
use crate::checkpoint::patch::parse::{Patch, Recipe};
use crate::checkpoint::patch::rebuild::{Direction, rebuild};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::root::Root;
use crate::error::{Error, IoContext, Result};
use crate::interrupt;

/// Stages what the steps need; step `n` is the patch's record `n`.
pub fn stage(
    root: &Root,
    patch: &Patch,
    direction: Direction,
    steps: &[RestoreStep],
    dir: &Path,
) -> Result<()> {
    let diff = File::open(&patch.path).at("read", &patch.path)?;
    let stager = Stager { root, diff: &diff, direction };
    let jobs: Vec<usize> = (0..steps.len()).filter(|&n| steps[n].is_staged()).collect();
    let failures: Vec<Error> = jobs
        .into_par_iter()
        .filter_map(|n| {
            let recipe = match direction {
                Direction::Forth => &patch.records[n].forth,
                Direction::Back => &patch.records[n].back,
            };
            stager.one(&steps[n], recipe, &staged(dir, n)).err()
        })
        .collect();
    let Some(first) = failures.first() else {
        return Ok(());
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
    fn one(&self, step: &RestoreStep, recipe: &Recipe, target: &Path) -> Result<()> {
        let path = &step.path.0;
        let to = step.to.expect("only what shall be there is staged");
        interrupt::check()?;
        let mut source = self.source(step)?;
        match to {
            Node::File { mode, .. } => {
                let file = File::create_new(target).at("create", target)?;
                let mut out = Hashing::new(BufWriter::new(file));
                rebuild(recipe, self.direction, self.diff, &mut source, &mut out)
                    .and_then(|()| out.flush())
                    .map_err(|error| rebuild_error(path, target, error))?;
                check(path, &to, out.hasher)?;
                self.take_owner(path, target)?;
                fs::set_permissions(target, fs::Permissions::from_mode(mode.bits()))
                    .at("set the mode of", target)
            }
            Node::Symlink { .. } => {
                let mut out = Hashing::new(Vec::new());
                rebuild(recipe, self.direction, self.diff, &mut source, &mut out)
                    .map_err(|error| rebuild_error(path, target, error))?;
                check(path, &to, out.hasher)?;
                symlink(std::ffi::OsStr::from_bytes(&out.out), target).at("create", target)?;
                self.take_owner(path, target)
            }
            Node::Dir { .. } => unreachable!("directories are made, not staged"),
        }
    }

    fn source(&self, step: &RestoreStep) -> Result<Box<dyn io::Read + '_>> {
        match &step.from {
            Some(from) if !from.is_dir() => ContentSource::open(self.root, &step.path.0, from),
            _ => Ok(Box::new(io::empty())),
        }
    }

    /// Root works on other people's trees (in a container, on a bind mount): what it puts back is theirs.
    fn take_owner(&self, path: &TreePath, target: &Path) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let mut owner = std::os::unix::fs::MetadataExt::uid(
            &fs::metadata(self.root.path()).at("read", self.root.path())?,
        );
        let mut group = std::os::unix::fs::MetadataExt::gid(
            &fs::metadata(self.root.path()).at("read", self.root.path())?,
        );
        for place in path.ancestors().chain([path.clone()]) {
            if let Some(found) = self.root.find(&place).at("read", place.as_path())? {
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
    Err(Error::integrity(format!("{path} cannot be rebuilt: what comes out is not what the checkpoint has")))
}

fn rebuild_error(path: &TreePath, target: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            Error::integrity(format!("{path} cannot be rebuilt from the diff"))
                .caused_by(error)
                .hint("if something else writes to it, stop that; then run the same command again")
        }
        _ => Err::<(), _>(error).at("write", target).expect_err("it was an error"),
    }
}
