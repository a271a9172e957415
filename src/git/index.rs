//! An index of our own, in which trees are put together. The user's is not touched by it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::run::{Git, GitCall, GitOutput};
use crate::error::{Error, Result};

/// What an index has at a path: mode and hash, as git writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Six octal digits; all zeros if there is nothing.
    pub mode: String,
    /// Of the blob.
    pub hash: String,
}

/// Paths of the repository, and what an index has there.
pub type Differences = BTreeMap<Vec<u8>, IndexEntry>;

/// An index in a file.
pub struct GitIndex<'g> {
    git: &'g Git,
    file: Option<PathBuf>,
}

impl<'g> GitIndex<'g> {
    /// In this file, which need not exist yet.
    pub fn at(git: &'g Git, file: PathBuf) -> Self {
        GitIndex { git, file: Some(file) }
    }

    /// The user's own.
    pub fn of_user(git: &'g Git) -> Self {
        GitIndex { git, file: None }
    }

    fn call(&self, args: &[&str]) -> GitCall<'g> {
        let call = self.git.call(args);
        match &self.file {
            Some(file) => call.variable("GIT_INDEX_FILE", file),
            None => call,
        }
    }

    /// Begins with what is in a tree.
    pub fn read_tree(&self, tree: &str) -> Result<()> {
        self.call(&["read-tree", tree]).ok().map(drop)
    }

    /// Removes these paths, whether they are in it or not.
    pub fn remove(&self, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.call(&["update-index", "--force-remove", "-z", "--stdin"]).input(joined(paths)).ok().map(drop)
    }

    /// Adds these paths from a work tree, as `git add` would: line endings are converted and filters run as attributes
    /// say, which are those of the work tree or else of the index.
    pub fn add(&self, top: &Path, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.call(&["update-index", "--add", "--replace", "-z", "--stdin"])
            .directory(top)
            .variable("GIT_WORK_TREE", top)
            .input(joined(paths))
            .ok()
            .map(drop)
    }

    /// Takes over entries as they are.
    pub fn put(&self, entries: &Differences) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        // What goes makes room for what comes.
        for coming in [false, true] {
            for (path, staged) in entries.iter().filter(|(_, staged)| staged.exists() == coming) {
                input.extend_from_slice(format!("{} {}\t", staged.mode, staged.hash).as_bytes());
                input.extend_from_slice(path);
                input.push(0);
            }
        }
        self.call(&["update-index", "-z", "--index-info"]).input(input).ok().map(drop)
    }

    /// What it has at a path.
    pub fn get(&self, path: &[u8]) -> Result<Option<IndexEntry>> {
        let mut call = self.call(&["ls-files", "--stage", "-z", "--"]).variable("GIT_LITERAL_PATHSPECS", "1");
        call.push(OsStr::from_bytes(path));
        let answer = call.ok()?;
        let found = answer.pieces().find_map(|piece| {
            let tab = memchr::memchr(b'\t', piece)?;
            let head = std::str::from_utf8(&piece[..tab]).ok()?;
            let mut words = head.split(' ');
            let staged = IndexEntry { mode: words.next()?.to_owned(), hash: words.next()?.to_owned() };
            (piece[tab + 1..] == *path).then_some(staged)
        });
        Ok(found)
    }

    /// Where submodules are.
    pub fn submodules(&self) -> Result<Vec<Vec<u8>>> {
        let answer = self.call(&["ls-files", "--stage", "-z"]).ok()?;
        let of_submodule = |piece: &[u8]| {
            let tab = memchr::memchr(b'\t', piece)?;
            piece.starts_with(b"160000 ").then(|| piece[tab + 1..].to_vec())
        };
        Ok(answer.pieces().filter_map(of_submodule).collect())
    }

    /// Writes it as a tree.
    pub fn write_tree(&self) -> Result<String> {
        self.call(&["write-tree"]).line()
    }

    /// Looks at the work tree, so that git need not read every file that was put here from elsewhere.
    pub fn refresh(&self) -> Result<()> {
        // Files that people edited since are none of our business, and make it fail.
        self.call(&["update-index", "-q", "--refresh"]).run().map(drop)
    }

    /// Where it is not what a tree is.
    pub fn differences(&self, tree: &str) -> Result<Differences> {
        let answer = self.call(&["diff-index", "--cached", "--raw", "-z", "--no-renames", tree]).ok()?;
        Ok(changes(&answer)?.into_iter().map(|change| (change.path, change.after)).collect())
    }

    /// The same from both sides. What is only meant to be added has no content yet, and does not count.
    pub fn changes_since(&self, tree: &str) -> Result<Vec<IndexChange>> {
        let args =
            ["diff-index", "--cached", "--ita-invisible-in-index", "--raw", "-z", "--no-renames", tree];
        changes(&self.call(&args).ok()?)
    }

    /// Where the work tree is not what it is, as far as that can be told without reading: what was only touched is
    /// among it. Of a submodule only its commit counts. What git was told not to look at is as it should be.
    pub fn changes_of_work_tree(&self) -> Result<Vec<IndexChange>> {
        changes(&self.call(&["diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=dirty"]).ok()?)
    }

    /// Files that it does not have and git does not ignore, below a directory and relative to it. Another
    /// repository in between has a slash at its end.
    pub fn others(&self, directory: &Path) -> Result<Vec<Vec<u8>>> {
        let call = self.call(&["ls-files", "--others", "--exclude-standard", "-z"]).directory(directory);
        Ok(call.ok()?.pieces().map(<[u8]>::to_vec).collect())
    }

    /// Paths that a merge left open.
    pub fn unmerged(&self) -> Result<Vec<Vec<u8>>> {
        let answer = self.call(&["ls-files", "--unmerged", "-z"]).ok()?;
        let path = |piece: &[u8]| Some(piece[memchr::memchr(b'\t', piece)? + 1..].to_vec());
        let mut paths: Vec<Vec<u8>> = answer.pieces().filter_map(path).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Brings these paths to what is in the work tree now, which may be nothing any more.
    pub fn take(&self, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
        self.call(&args).input(joined(paths)).ok().map(drop)
    }

    /// The paths with this tag of `git ls-files -v`, among these: `S` is not checked out, `h` is not to be looked at.
    pub fn tagged(&self, tag: fn(u8) -> bool, among: &BTreeSet<&[u8]>) -> Result<Vec<Vec<u8>>> {
        let answer = self.call(&["ls-files", "-v", "-z"]).ok()?;
        let found = answer.pieces().filter(|piece| piece.first().is_some_and(|letter| tag(*letter)));
        Ok(found
            .filter_map(|piece| piece.get(2..))
            .filter(|path| among.contains(path))
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Sets a flag of `git update-index` for those of these paths that it has.
    pub fn flag(&self, flag: &str, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.call(&["update-index", flag, "-z", "--stdin"]).input(joined(paths)).ok().map(drop)
    }

    /// Notes of these files, which it does not have, that they are meant to be added.
    pub fn intend(&self, paths: &[Vec<u8>]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        self.call(&["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"])
            .variable("GIT_LITERAL_PATHSPECS", "1")
            .input(joined(paths))
            .ok()
            .map(drop)
    }
}

/// A path where two things are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexChange {
    /// In the repository.
    pub path: Vec<u8>,
    /// What was there.
    pub before: IndexEntry,
    /// What is there.
    pub after: IndexEntry,
}

/// What git says with `--raw -z --no-renames`.
pub fn changes(answer: &GitOutput) -> Result<Vec<IndexChange>> {
    let mut changes = Vec::new();
    let mut pieces = answer.pieces();
    while let (Some(head), Some(path)) = (pieces.next(), pieces.next()) {
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let [old_mode, mode, old_hash, hash, _] = words[..] else {
            return Err(Error::failed("git told of changes in a way that makes no sense"));
        };
        let staged = |mode: &str, hash: &str| IndexEntry { mode: mode.to_owned(), hash: hash.to_owned() };
        let (before, after) = (staged(old_mode, old_hash), staged(mode, hash));
        changes.push(IndexChange { path: path.to_vec(), before, after });
    }
    Ok(changes)
}

impl IndexEntry {
    /// Whether there is something.
    pub fn exists(&self) -> bool {
        self.mode.bytes().any(|digit| digit != b'0')
    }

    /// Whether it is another repository.
    pub fn is_repository(&self) -> bool {
        self.mode == "160000"
    }
}

/// Copies an index with the time it was written at: by that git knows which files may have been changed since then without
/// a trace, in the same second and with the same size. The file that was copied is returned.
pub fn copy_index(from: &Path, to: &Path) -> io::Result<File> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_modified(source.metadata()?.modified()?)?;
    Ok(source)
}

/// Paths as git reads them with `-z`.
pub fn joined(paths: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = paths.join(&0);
    bytes.push(0);
    bytes
}
