//! The work tree and the index as an entry of `git stash list`, made without touching either.
//!
//! ```text
//!   base ◀── i    the index, as a commit                     create   makes an entry
//!     ▲      ▲                                               check    proves that all of it is there
//!     └───── w    tracked files as they are: the entry       list     finds it among others, and drops it
//!            │                                               staged   puts the index back
//!            ▼
//!            u    untracked files, if there are any
//! ```
//!
//! `git stash push` takes what it saves out of the work tree, and `git stash create` knows no untracked files. So the three
//! commits are put together here, in indexes of our own, and `git stash store` lists the result. `apply`, `apply --index`,
//! `pop`, `show`, `branch` and `drop` take it for one of git's.
//!
//! What somebody does not mean (see [`Covers`]) is in `w` and `i` as the base has it, and not in `u`: an entry changes nothing
//! there, wherever it is applied. This is also how sensitive files stay out.
//!
//! # Where it is not what `git stash push` makes
//!
//! - A file that was taken out of the index (`git rm --cached`) and is still there is in `w` alone. git has it in `u` as well, and
//!   then cannot apply what it made.
//! - Submodules are in `w` with the commit they are at; what is in them is theirs. A repository that git does not know of is left
//!   out with all that is in it.
//! - A file that is only meant to be added (`git add -N`) is in `w` with its content. After `git stash apply` it is staged, after
//!   `git stash apply --index` untracked if anything else was staged. [`Stashes::restore_index`] brings the intention back.
//!
//! # What it does not promise
//!
//! Filters and line endings are as git has them: content goes through `clean` into an entry and through `smudge` out of it. Empty
//! directories, ignored files and modes other than `x` are in none. Objects are synced, the list is as durable as git makes it.

mod check;
mod create;
mod list;
mod staged;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use create::StashRequest;

use super::index::{GitIndex, copy_index};
use super::run::{Git, GitCall};
use super::work_tree::WorkTree;
use crate::error::{Error, IoContext, Result};
use crate::fs::ScratchDir;
use crate::fs::atomic::AtomicFile;

/// Whether somebody means this path, which is relative to the project. Say no for what is out of scope, and for what
/// must not get into git's objects.
pub type Covers<'c> = dyn Fn(&[u8]) -> bool + 'c;

/// What a stash entry was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stash {
    /// The entry, `w`.
    pub commit: String,
    /// The commit that was checked out.
    pub base: String,
    /// Its branch; `None` if HEAD was detached.
    pub branch: Option<String>,
    /// The tree of `i`.
    pub index_tree: String,
}

/// The stash entries of the repository that a project is in.
pub struct Stashes {
    place: WorkTree,
    root: PathBuf,
    scratch: PathBuf,
}

impl Stashes {
    /// Of the project at `root`, with its place for work in progress.
    pub fn of(root: &Path, scratch: &Path, variables: &BTreeMap<OsString, OsString>) -> Result<Stashes> {
        Stashes::with(Git::new(root, variables)?, root, scratch)
    }

    /// The same, with a git that is there already.
    pub fn with(git: Git, root: &Path, scratch: &Path) -> Result<Stashes> {
        let advice =
            "`git init` and a first commit make one; a checkpoint of the type file_backup needs no git";
        let mut place = WorkTree::with(git, root, advice)?;
        place.git.set_variable("GIT_OPTIONAL_LOCKS", "0");
        for setting in [
            // Whole directories as one entry are not for those who look at paths.
            "index.sparse=false",
            // A warning that line endings will change must not become an error.
            "core.safecrlf=false",
            // git syncs packs, and leaves it to chance whether loose objects survive a power cut.
            "core.fsync=committed",
            "core.fsyncMethod=batch",
        ] {
            place.git.set_setting(setting);
        }
        Ok(Stashes { place, root: root.to_owned(), scratch: scratch.to_owned() })
    }

    /// A copy of the index as it is, conflicts and all.
    pub fn keep_index(&self, to: &Path) -> Result<()> {
        let index = self.place.git_dir.join("index");
        let mut out = AtomicFile::create(to)?;
        let mut found = File::open(&index).at("read", &index)?;
        io::copy(&mut found, &mut out).at("copy", &index)?;
        out.commit()
    }

    /// Tracked files that an ignore rule would hide, relative to the project: decree does not hold them.
    pub fn tracked_but_ignored(&self) -> Result<Vec<Vec<u8>>> {
        let answer = self
            .git()
            .call(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"])
            .directory(&self.place.top)
            .ok()?;
        Ok(answer.pieces().filter_map(|path| self.place.inside(path)).map(<[u8]>::to_vec).collect())
    }

    /// The commit that is checked out, if there is one yet.
    pub fn head(&self) -> Result<Option<String>> {
        self.git().commit_of("HEAD")
    }

    fn git(&self) -> &Git {
        &self.place.git
    }

    fn scratch(&self) -> Result<ScratchDir> {
        ScratchDir::new(&self.scratch, "stash")
    }

    /// Whether a path of the repository is in the project, and covered.
    fn is_covered(&self, covers: &Covers<'_>, path: &[u8]) -> bool {
        self.place.inside(path).is_some_and(covers)
    }

    /// Paths for people.
    fn shown(&self, paths: &[Vec<u8>]) -> Vec<String> {
        paths
            .iter()
            .map(|path| self.git().shown(&String::from_utf8_lossy(path)).replace('\n', "\\n"))
            .collect()
    }

    /// A copy of the user's index, which nothing here writes to.
    fn copy_of_index(&self, scratch: &ScratchDir) -> Result<Copied<'_>> {
        let (index, file) = (self.place.git_dir.join("index"), scratch.path("found"));
        let seen = match copy_index(&index, &file) {
            // Nothing was ever added here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.and_then(|found| Seen::of(&found)).at("copy", &index)?),
        };
        Ok(Copied { index: GitIndex::at(self.git(), file.clone()), file, seen })
    }

    /// Sees to it that a call that writes commits or reflogs knows somebody to write them for: as `git stash` does, which works
    /// where nobody has said who they are.
    fn by_somebody<'g>(&self, mut call: GitCall<'g>) -> Result<GitCall<'g>> {
        for who in ["AUTHOR", "COMMITTER"] {
            if !self.git().call(["var", &format!("GIT_{who}_IDENT")]).run()?.is_ok() {
                call = call
                    .variable(format!("GIT_{who}_NAME"), "decree")
                    .variable(format!("GIT_{who}_EMAIL"), "decree@stash");
            }
        }
        Ok(call)
    }

    /// Puts a commit on top of the list.
    fn store(&self, commit: &str, message: &str) -> Result<()> {
        let call = self.git().call(["stash", "store", "-m", message, commit]);
        self.by_somebody(call)?.ok().map(drop).map_err(|error: Error| {
            error.hint("if something else is working in this repository, wait for it and try again")
        })
    }
}

/// A copy of the user's index.
struct Copied<'g> {
    index: GitIndex<'g>,
    file: PathBuf,
    /// What was copied; `None` if there is no index.
    seen: Option<Seen>,
}

/// By what one version of a file that is only ever replaced is told from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    inode: u64,
    length: u64,
    modified: SystemTime,
}

impl Seen {
    fn of(file: &File) -> io::Result<Seen> {
        file.metadata().and_then(|metadata| Seen::from(&metadata))
    }

    fn at(path: &Path) -> io::Result<Option<Seen>> {
        match fs::metadata(path) {
            Ok(metadata) => Seen::from(&metadata).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn from(metadata: &fs::Metadata) -> io::Result<Seen> {
        use std::os::unix::fs::MetadataExt;
        Ok(Seen { inode: metadata.ino(), length: metadata.len(), modified: metadata.modified()? })
    }
}
