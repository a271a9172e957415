//! Writes the content before and after runs to a temporary work tree, from which git adds it. The content is rebuilt from the
//! store and the diffs and verified; the user's work tree is never read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::plan::NetChange;
use crate::checkpoint::content_source::ContentSource;
use crate::checkpoint::entry::Node;
use crate::checkpoint::hash::{Hasher, Hashing};
use crate::checkpoint::patch::rebuild::{Direction, RebuildError, rebuild};
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::store::Store;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::ScratchDir;
use crate::fs::sparse::SparseWriter;
use crate::interrupt;
use crate::process::redact::Redactor;

/// A work tree that contains only the files to be added.
pub struct AddTree {
    /// The top of the work tree, as git sees it.
    pub top: PathBuf,
    root: PathBuf,
}

impl AddTree {
    /// Creates an empty work tree in a temporary directory; `prefix` is the project's path within the repository.
    pub fn new(scratch: &ScratchDir, name: &str, prefix: &[u8]) -> Result<AddTree> {
        let top = scratch.path(name);
        let root = top.join(OsStr::from_bytes(prefix));
        fs::create_dir_all(&root).at("create", &root)?;
        Ok(AddTree { top, root })
    }

    pub fn write_before(&self, store: &Store, paths: &[(&TreePath, Node)]) -> Result<()> {
        self.make_dirs(paths.iter().map(|(path, _)| *path))?;
        paths.par_iter().try_for_each(|(path, node)| {
            self.write(path, node, |out| {
                let mut content = ContentSource::open(store, path, node).map_err(io::Error::other)?;
                Ok(io::copy(&mut content, out).map(drop)?)
            })
        })
    }

    pub fn write_after(&self, store: &Store, paths: &[(&TreePath, &NetChange<'_>)]) -> Result<()> {
        self.make_dirs(paths.iter().map(|(path, _)| *path))?;
        paths.par_iter().try_for_each(|(path, net)| {
            let node = net.after.expect("the caller filters deleted paths");
            let diff = File::open(&net.patch.path).at("read", &net.patch.path)?;
            self.write(path, &node, |mut out| {
                let before = net.record.change.before.filter(|before| !before.is_dir());
                let mut source: Box<dyn Read> = match &before {
                    Some(before) => ContentSource::open(store, path, before).map_err(io::Error::other)?,
                    None => Box::new(io::empty()),
                };
                rebuild(&net.record.forward, Direction::Forward, &diff, &mut source, &mut out)
            })
        })
    }

    /// The paths that contain a secret of the environment: in the content, the name, or a link's target.
    pub fn secrets(&self, redactor: &Redactor, paths: &[(&TreePath, &NetChange<'_>)]) -> Result<Vec<String>> {
        let has_secret = |path: &TreePath, target: &Path| -> io::Result<bool> {
            if redactor.is_in(path.as_bytes())? {
                return Ok(true);
            }
            match fs::symlink_metadata(target)?.file_type() {
                kind if kind.is_symlink() => redactor.is_in(fs::read_link(target)?.as_os_str().as_bytes()),
                kind if kind.is_file() => redactor.is_in(File::open(target)?),
                _ => Ok(false),
            }
        };
        let secret_path = |(path, _): &(&TreePath, &NetChange<'_>)| {
            let target = path.below(&self.root);
            let found = has_secret(path, &target).at("read", &target);
            found.map(|found| found.then(|| redactor.redact(&path.to_string()).into_owned())).transpose()
        };
        paths.par_iter().filter_map(secret_path).collect()
    }

    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.top);
    }

    fn make_dirs<'p>(&self, paths: impl Iterator<Item = &'p TreePath>) -> Result<()> {
        for dir in dirs_above(paths) {
            let dir = dir.below(&self.root);
            fs::create_dir_all(&dir).at("create", &dir)?;
        }
        Ok(())
    }

    /// Writes one file or link, and verifies it against its recorded hash.
    fn write(
        &self,
        path: &TreePath,
        node: &Node,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), RebuildError>,
    ) -> Result<()> {
        interrupt::check()?;
        let target = path.below(&self.root);
        match node {
            Node::File { mode, .. } => {
                let file = File::create_new(&target).at("create", &target)?;
                let mut out = Hashing::new(SparseWriter::new(file));
                fill(&mut out).map_err(|error| rebuild_error(path, error))?;
                check(path, node, out.hasher)?;
                out.out.finish().at("write", &target)?;
                let mode = fs::Permissions::from_mode(mode.bits());
                fs::set_permissions(&target, mode).at("set the mode of", &target)
            }
            Node::Symlink { .. } => {
                let mut out = Hashing::new(Vec::new());
                fill(&mut out).map_err(|error| rebuild_error(path, error))?;
                let text = std::mem::take(&mut out.out);
                check(path, node, out.hasher)?;
                symlink(OsStr::from_bytes(&text), &target).at("create", &target)
            }
            Node::Dir { .. } => Ok(()),
        }
    }
}

fn check(path: &TreePath, node: &Node, written: Hasher) -> Result<()> {
    if Some(written.finish()) == node.content() {
        return Ok(());
    }
    Err(Error::integrity(format!("{path} cannot be rebuilt: its hash is not the recorded one"))
        .detail("nothing was done"))
}

fn rebuild_error(path: &TreePath, error: RebuildError) -> Error {
    let error = error.into_error("rebuild", path);
    if error.kind() == ErrorKind::Integrity { error.detail("nothing was done") } else { error }
}
