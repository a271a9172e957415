//! An index in a separate file, to build trees in without touching the user's index.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::run::{Git, GitCall, GitOutput};
use crate::error::{Error, IoContext, Result};

/// Mode and hash of a path in an index, as git prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Six octal digits; all zeros if the path is absent.
    pub mode: String,
    /// The hash of the blob, or of the commit of a submodule.
    pub hash: String,
}

/// Entries of an index by their path in the repository.
pub type Differences = BTreeMap<Vec<u8>, IndexEntry>;

/// An index file: a separate one, or the user's own.
pub struct GitIndex<'g> {
    git: &'g Git,
    file: Option<PathBuf>,
}

impl<'g> GitIndex<'g> {
    /// An index in this file, which need not exist yet.
    pub fn at(git: &'g Git, file: PathBuf) -> Self {
        GitIndex { git, file: Some(file) }
    }

    /// The user's own index.
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

    /// Replaces the content of the index with that of a tree.
    pub fn read_tree(&self, tree: &str) -> Result<()> {
        self.call(&["read-tree", tree]).ok().map(drop)
    }

    /// Removes these paths; one that is absent is no error.
    pub fn remove(&self, paths: &[Vec<u8>]) -> Result<()> {
        run_on(paths, self.call(&["update-index", "--force-remove", "-z", "--stdin"]))
    }

    /// Adds these paths from a work tree as `git add` does, with line ending conversion and filters. Attributes come from the
    /// work tree, or else from the index.
    pub fn add(&self, top: &Path, paths: &[Vec<u8>]) -> Result<()> {
        let call = self.call(&["update-index", "--add", "--replace", "-z", "--stdin"]);
        run_on(paths, call.directory(top).variable("GIT_WORK_TREE", top))
    }

    /// Sets entries without reading the work tree; an entry with mode zero removes its path.
    pub fn put(&self, entries: &Differences) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        // Removals come first: a file may have to go before a directory of its name can be added.
        for adding in [false, true] {
            for (path, entry) in entries.iter().filter(|(_, entry)| entry.exists() == adding) {
                input.extend_from_slice(format!("{} {}\t", entry.mode, entry.hash).as_bytes());
                input.extend_from_slice(path);
                input.push(0);
            }
        }
        self.call(&["update-index", "-z", "--index-info"]).input(input).ok().map(drop)
    }

    /// The entry of a path, if there is one.
    pub fn get(&self, path: &[u8]) -> Result<Option<IndexEntry>> {
        let mut call = self.call(&["ls-files", "--stage", "-z", "--"]).variable("GIT_LITERAL_PATHSPECS", "1");
        call.push(OsStr::from_bytes(path));
        let output = call.ok()?;
        let mut staged = output.records().filter_map(parse_staged);
        Ok(staged.find(|(_, found)| *found == path).map(|(entry, _)| entry))
    }

    /// The paths of all submodules.
    pub fn submodules(&self) -> Result<Vec<Vec<u8>>> {
        let output = self.call(&["ls-files", "--stage", "-z"]).ok()?;
        let staged = output.records().filter_map(parse_staged);
        Ok(staged.filter(|(entry, _)| entry.is_repository()).map(|(_, path)| path.to_vec()).collect())
    }

    /// Writes the index as a tree object and returns its hash.
    pub fn write_tree(&self) -> Result<String> {
        self.call(&["write-tree"]).line()
    }

    /// Updates the cached stat data, so that git need not read every file that decree wrote.
    pub fn refresh(&self) -> Result<()> {
        // git exits with an error if files differ from the index, which is fine here.
        self.call(&["update-index", "-q", "--refresh"]).run().map(drop)
    }

    /// The entries that differ from a tree.
    pub fn differences(&self, tree: &str) -> Result<Differences> {
        let output = self.call(&["diff-index", "--cached", "--raw", "-z", "--no-renames", tree]).ok()?;
        Ok(parse_changes(&output)?.into_iter().map(|change| (change.path, change.after)).collect())
    }

    /// The changes since a tree. Intent-to-add entries (`git add -N`) have no content yet and do not count.
    pub fn changes_since(&self, tree: &str) -> Result<Vec<IndexChange>> {
        let args =
            ["diff-index", "--cached", "--ita-invisible-in-index", "--raw", "-z", "--no-renames", tree];
        parse_changes(&self.call(&args).ok()?)
    }

    /// Files in the work tree that differ from the index, judged without reading them, so touched files are included. Of a
    /// submodule only its commit counts. Files with the skip-worktree or assume-unchanged flag count as unchanged.
    pub fn changes_of_work_tree(&self) -> Result<Vec<IndexChange>> {
        parse_changes(
            &self.call(&["diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=dirty"]).ok()?,
        )
    }

    /// Untracked files that git does not ignore, below a directory and relative to it. A nested repository is one path with a
    /// slash at its end.
    pub fn untracked(&self, directory: &Path) -> Result<Vec<Vec<u8>>> {
        let call = self.call(&["ls-files", "--others", "--exclude-standard", "-z"]).directory(directory);
        Ok(call.ok()?.records().map(<[u8]>::to_vec).collect())
    }

    /// Paths with unresolved conflicts.
    pub fn unmerged(&self) -> Result<Vec<Vec<u8>>> {
        let output = self.call(&["ls-files", "--unmerged", "-z"]).ok()?;
        let staged = output.records().filter_map(parse_staged);
        let mut paths: Vec<Vec<u8>> = staged.map(|(_, path)| path.to_vec()).collect();
        paths.dedup();
        Ok(paths)
    }

    /// Updates these paths from the work tree, and removes those that are gone there.
    pub fn update(&self, paths: &[Vec<u8>]) -> Result<()> {
        run_on(paths, self.call(&["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]))
    }

    /// Those of the given paths whose tag in `git ls-files -v` matches: `S` is skip-worktree, lower case is assume-unchanged.
    pub fn tagged(&self, tag: fn(u8) -> bool, among: &BTreeSet<&[u8]>) -> Result<Vec<Vec<u8>>> {
        let output = self.call(&["ls-files", "-v", "-z"]).ok()?;
        let found = output.records().filter(|record| record.first().is_some_and(|letter| tag(*letter)));
        Ok(found
            .filter_map(|record| record.get(2..))
            .filter(|path| among.contains(path))
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Sets a flag of `git update-index` for these paths.
    pub fn set_flag(&self, flag: &str, paths: &[Vec<u8>]) -> Result<()> {
        run_on(paths, self.call(&["update-index", flag, "-z", "--stdin"]))
    }

    /// Adds these untracked files as intent-to-add (`git add -N`).
    pub fn add_intent(&self, paths: &[Vec<u8>]) -> Result<()> {
        let args = ["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"];
        run_on(paths, self.call(&args).variable("GIT_LITERAL_PATHSPECS", "1"))
    }
}

/// Runs a command that reads these paths from its standard input; none if there are none.
fn run_on(paths: &[Vec<u8>], call: GitCall<'_>) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    call.input(nul_separated(paths)).ok().map(drop)
}

/// Splits `<mode> <hash> <stage>\t<path>`, a record of `git ls-files --stage -z`.
fn parse_staged(record: &[u8]) -> Option<(IndexEntry, &[u8])> {
    let tab = memchr::memchr(b'\t', record)?;
    let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
    let entry = IndexEntry { mode: words.next()?.to_owned(), hash: words.next()?.to_owned() };
    Some((entry, &record[tab + 1..]))
}

/// A path whose entry differs between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexChange {
    /// Relative to the repository.
    pub path: Vec<u8>,
    pub before: IndexEntry,
    pub after: IndexEntry,
}

/// Parses the output of a diff command with `--raw -z --no-renames`.
pub fn parse_changes(output: &GitOutput) -> Result<Vec<IndexChange>> {
    let mut changes = Vec::new();
    let mut records = output.records();
    while let (Some(head), Some(path)) = (records.next(), records.next()) {
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let [old_mode, mode, old_hash, hash, _] = words[..] else {
            return Err(Error::failed("git printed changes in an unknown format"));
        };
        let entry = |mode: &str, hash: &str| IndexEntry { mode: mode.to_owned(), hash: hash.to_owned() };
        let (before, after) = (entry(old_mode, old_hash), entry(mode, hash));
        changes.push(IndexChange { path: path.to_vec(), before, after });
    }
    Ok(changes)
}

impl IndexEntry {
    /// Whether the path is present.
    pub fn exists(&self) -> bool {
        self.mode.bytes().any(|digit| digit != b'0')
    }

    /// Whether the path is a submodule or another nested repository.
    pub fn is_repository(&self) -> bool {
        self.mode == "160000"
    }
}

/// Copies an index with its modification time: git compares that with the times of files to find those that may have changed
/// within the same clock tick without a trace in their stat data. Returns the file that was copied.
pub fn copy_index(from: &Path, to: &Path) -> io::Result<File> {
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_modified(source.metadata()?.modified()?)?;
    Ok(source)
}

/// The file in a git directory that is git's lock on the index.
pub const INDEX_LOCK: &str = "index.lock";

/// Takes git's lock on the index in `git_dir` and returns the lock file, which the caller renames or removes. If another process
/// holds it, the error says `taken`, and with `unchanged` what was not touched.
pub fn lock_index(git_dir: &Path, taken: &str, unchanged: &str) -> Result<PathBuf> {
    let lock = git_dir.join(INDEX_LOCK);
    match OpenOptions::new().write(true).create_new(true).open(&lock) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::failed(format!("{taken}: {} exists", lock.display()))
                .detail(unchanged)
                .hint("wait for it; if none is running, remove that file"))
        }
        result => result.at("create", &lock).map(|_| lock),
    }
}

/// Joins paths for the standard input of a command with `-z`.
pub fn nul_separated(paths: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = paths.join(&0);
    bytes.push(0);
    bytes
}
