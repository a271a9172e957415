//! The work tree and the index as an entry of `git stash list`, created without touching either.
//!
//! ```text
//!   base ◀── i    the index, as a commit                create         creates an entry
//!     ▲      ▲                                          check          verifies that an entry is complete
//!     └───── w    tracked files as they are: the entry  list           finds an entry in the list, and drops it
//!            │                                          restore_index  restores the index from an entry
//!            ▼
//!            u    untracked files, if there are any
//! ```
//!
//! `git stash push` removes from the work tree what it saves, and `git stash create` ignores untracked files. So this module
//! builds the three commits itself, in separate index files, and `git stash store` adds the result to the list. `apply`,
//! `apply --index`, `pop`, `show`, `branch` and `drop` work on it as on git's own entries.
//!
//! A path that is not covered (see [`Covers`]) is in `w` and `i` as in the base, and not in `u`: applying the entry does not
//! change it. This is also how sensitive files are left out.
//!
//! # Differences from `git stash push`
//!
//! - A file that was removed from the index (`git rm --cached`) and still exists is in `w` only. git puts it into `u` too, and
//!   then cannot apply its own entry.
//! - A submodule is in `w` with its current commit, without its content. A nested repository that is no submodule is left out.
//! - An intent-to-add file (`git add -N`) is in `w` with its content. After `git stash apply` it is staged, after `git stash apply
//!   --index` untracked if anything else was staged. [`Stashes::restore_index`] restores the intent-to-add entry.
//!
//! # What it does not promise
//!
//! Content goes through git's `clean` filter into an entry and through `smudge` out of it. Empty directories, ignored files
//! and modes other than `x` are not saved. Objects are synced; the stash list is as durable as git makes it.

mod check;
mod create;
mod list;
mod restore_index;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::index::{GitIndex, copy_index};
use super::run::{Git, GitCall};
use super::work_tree::WorkTree;
use crate::error::{Error, IoContext, Result};
use crate::fs::ScratchDir;
use crate::fs::atomic::AtomicFile;

/// Whether an entry covers this path, which is relative to the project. Must be false for paths that are out of scope, and for
/// files that must not become git objects.
pub type Covers<'c> = dyn Fn(&[u8]) -> bool + 'c;

/// A stash entry that decree created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stash {
    /// The commit of the entry, `w`.
    pub commit: String,
    /// The commit that was checked out.
    pub base: String,
    /// The branch that was checked out; `None` if HEAD was detached.
    pub branch: Option<String>,
    /// The tree of `i`.
    pub index_tree: String,
}

/// The stash entries of the repository that a project is in.
pub struct Stashes {
    work_tree: WorkTree,
    root: PathBuf,
    scratch: PathBuf,
}

impl Stashes {
    /// The entries for the project at `root`, where `git` runs; temporary files go to `scratch`.
    pub fn of(git: Git, root: &Path, scratch: &Path) -> Result<Stashes> {
        let advice =
            "`git init` and a first commit create one; a checkpoint of the type file_backup needs no git";
        let mut work_tree = WorkTree::find(git, root, advice)?;
        work_tree.git.set_variable("GIT_OPTIONAL_LOCKS", "0");
        for setting in [
            // A sparse index has whole directories as one entry, but this module needs every path.
            "index.sparse=false",
            // Otherwise a change of line endings may be an error.
            "core.safecrlf=false",
            // By default git syncs packs but not loose objects, which a power cut may lose.
            "core.fsync=committed",
            "core.fsyncMethod=batch",
        ] {
            work_tree.git.set_config(setting);
        }
        Ok(Stashes { work_tree, root: root.to_owned(), scratch: scratch.to_owned() })
    }

    /// Copies the index file as it is, with its conflicts.
    pub fn save_index(&self, to: &Path) -> Result<()> {
        let index = self.work_tree.git_dir.join("index");
        let mut out = AtomicFile::create(to)?;
        let mut source = File::open(&index).at("read", &index)?;
        io::copy(&mut source, &mut out).at("copy", &index)?;
        out.commit()
    }

    /// Tracked files that an ignore rule matches, relative to the project: checkpoints of the tree leave them out.
    pub fn tracked_but_ignored(&self) -> Result<Vec<Vec<u8>>> {
        let output = self
            .git()
            .call(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"])
            .directory(&self.work_tree.top)
            .ok()?;
        Ok(output.records().filter_map(|path| self.work_tree.to_project(path)).map(<[u8]>::to_vec).collect())
    }

    /// The commit that is checked out, if there is any.
    pub fn head(&self) -> Result<Option<String>> {
        self.git().commit_of("HEAD")
    }

    fn git(&self) -> &Git {
        &self.work_tree.git
    }

    fn scratch(&self) -> Result<ScratchDir> {
        ScratchDir::new(&self.scratch, "stash")
    }

    /// Whether a path of the repository is in the project and covered.
    fn is_covered(&self, covers: &Covers<'_>, path: &[u8]) -> bool {
        self.work_tree.to_project(path).is_some_and(covers)
    }

    /// Paths as single lines for messages.
    fn printable(&self, paths: &[Vec<u8>]) -> Vec<String> {
        paths
            .iter()
            .map(|path| self.git().printable(&String::from_utf8_lossy(path)).replace('\n', "\\n"))
            .collect()
    }

    /// Copies the user's index, so that git commands here never write to it.
    fn copy_index(&self, scratch: &ScratchDir) -> Result<IndexCopy<'_>> {
        let (index, file) = (self.work_tree.git_dir.join("index"), scratch.path("found"));
        // A repository has no index until something is added.
        let source = copy_index(&index, &file)
            .and_then(|found| FileVersion::of(&found.metadata()?))
            .if_exists()
            .at("copy", &index)?;
        Ok(IndexCopy { index: GitIndex::at(self.git(), file.clone()), file, source })
    }

    /// Sets an identity for a call that writes commits or reflogs if the user has configured none, as `git stash` does.
    fn with_identity<'g>(&self, mut call: GitCall<'g>) -> Result<GitCall<'g>> {
        for role in ["AUTHOR", "COMMITTER"] {
            if !self.git().call(["var", &format!("GIT_{role}_IDENT")]).run()?.is_ok() {
                call = call
                    .variable(format!("GIT_{role}_NAME"), "decree")
                    .variable(format!("GIT_{role}_EMAIL"), "decree@stash");
            }
        }
        Ok(call)
    }

    /// Adds a commit to the top of the stash list.
    fn store(&self, commit: &str, message: &str) -> Result<()> {
        let call = self.git().call(["stash", "store", "-m", message, commit]);
        self.with_identity(call)?.ok().map(drop).map_err(|error: Error| {
            error.hint("if another process works in this repository, wait for it and try again")
        })
    }
}

/// A copy of the user's index.
struct IndexCopy<'g> {
    index: GitIndex<'g>,
    file: PathBuf,
    /// The version that was copied; `None` if there is no index.
    source: Option<FileVersion>,
}

/// Identifies one version of a file that is only ever replaced, never modified in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    length: u64,
    modified: SystemTime,
}

impl FileVersion {
    fn of(metadata: &Metadata) -> io::Result<FileVersion> {
        Ok(FileVersion { inode: metadata.ino(), length: metadata.len(), modified: metadata.modified()? })
    }
}
