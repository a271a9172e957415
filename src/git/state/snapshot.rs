//! Reads what git has at one moment. git itself is needed only for refs in the reftable format.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::dirs::GitDirs;
use super::index_file::IndexFile;
use super::refs::{Head, RefTexts};
use crate::error::{Error, IoContext, Result};
use crate::git::Git;

/// Operations that git has begun, each with the file or directory that shows it.
const OPERATIONS: [(&str, &str); 10] = [
    ("MERGE_HEAD", "a merge"),
    ("MERGE_MODE", "a merge"),
    ("MERGE_MSG", "a merge"),
    ("AUTO_MERGE", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("sequencer", "a sequence of commits"),
    ("BISECT_LOG", "a bisection"),
];
/// How the files of operations begin.
const OPERATION_FILES: [&str; 10] = [
    "MERGE_",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "rebase-",
    "sequencer",
    "BISECT_",
    "NOTES_MERGE_",
];
/// Where the logs of refs are, in a git directory.
const LOGS: &str = "logs";
pub(super) const HEAD: &str = "HEAD";
/// The ref whose log is the stash list.
pub(super) const STASH: &str = "refs/stash";
/// The entries of a log, the latest first, with what a line of a file has: the commit, who, when, and why.
const LOG_FORMAT: &str = "--format=%H %gn <%ge> %gd%x09%gs";
/// The directory of refs in the reftable format.
const REFTABLE: &str = "reftable";

/// What git has at one moment.
#[derive(Debug)]
pub struct GitSnapshot {
    pub dirs: GitDirs,
    /// `None` if HEAD cannot be read without a git that is not there.
    pub head: Option<Head>,
    /// The commit that is checked out; `None` before the first one.
    pub commit: Option<String>,
    pub refs: RefTexts,
    /// The stash list: the log of `refs/stash`.
    pub stash: Vec<u8>,
    /// The size of HEAD's log; `None` if it has none.
    pub head_log: Option<u64>,
    /// The operations in progress, by the names of their files.
    pub operations: Vec<String>,
    pub index: Option<IndexFile>,
    /// Why the index or the stash list cannot be read: then there seems to be none. HEAD and the refs are known all the same.
    pub index_error: Option<Error>,
    pub stash_error: Option<Error>,
}

impl GitSnapshot {
    /// Reads the state of the repository that contains `root`; `None` if there is none.
    pub fn read(root: &Path) -> Result<Option<GitSnapshot>> {
        GitDirs::find(root).map(GitSnapshot::of).transpose()
    }

    fn of(dirs: GitDirs) -> Result<GitSnapshot> {
        let (head, refs) = if dirs.has_reftable() {
            read_reftable(&dirs)?
        } else {
            (read_head(&dirs.git_dir)?, RefTexts::read(&dirs.common_dir)?)
        };
        let commit = match &head {
            Some(Head::Branch(name)) => refs.value(name),
            Some(Head::Detached(hash)) => Some(hash.clone()),
            None => None,
        };
        let has_stash = refs.value(STASH).is_some() || !dirs.has_reftable();
        let stash = if has_stash { read_log(&dirs, &dirs.common_dir, STASH, 0) } else { Ok(Vec::new()) };
        let (stash, stash_error) = known(stash);
        let is_there = |name: &str| dirs.git_dir.join(name).symlink_metadata().is_ok();
        let operations = OPERATIONS.iter().filter(|(name, _)| is_there(name));
        let operations = operations.map(|(name, _)| (*name).to_owned()).collect();
        let (index, index_error) = known(IndexFile::open(&dirs.git_dir));
        let head_log = if dirs.has_reftable() {
            // One that cannot be printed has no entries that could be recognized later.
            read_log(&dirs, &dirs.git_dir, HEAD, 0).ok().map(|log| log.len() as u64)
        } else {
            dirs.git_dir.join(LOGS).join(HEAD).metadata().ok().map(|log| log.len())
        };
        Ok(GitSnapshot {
            dirs,
            head,
            commit,
            refs,
            stash,
            head_log,
            operations,
            index,
            index_error,
            stash_error,
        })
    }

    /// git for this repository, whatever the environment says; an error if git is not on the `PATH`.
    pub fn git(&self) -> Result<Git> {
        git_in(&self.dirs)
    }

    /// What was added to the log of HEAD since it had this size.
    pub(super) fn head_log_since(&self, size: u64) -> Result<Vec<u8>> {
        read_log(&self.dirs, &self.dirs.git_dir, HEAD, size)
    }

    /// The file with the log of `refs/stash`; `None` if the refs are in a format of their own.
    pub(super) fn stash_log(&self) -> Option<PathBuf> {
        (!self.dirs.has_reftable()).then(|| self.dirs.common_dir.join(LOGS).join(STASH))
    }

    /// Whether a path in a git directory belongs to an operation in progress.
    pub fn is_of_operation(name: &Path) -> bool {
        let first = name.iter().next().map(|first| first.to_string_lossy());
        first.is_some_and(|first| OPERATION_FILES.iter().any(|begin| first.starts_with(begin)))
    }

    /// The branch of a rebase in progress, which moves to its result at the end; `None` if there is no rebase.
    pub fn rebased_branch(&self) -> Option<Vec<u8>> {
        let read = |dir: &&str| fs::read(self.dirs.git_dir.join(dir).join("head-name")).ok();
        let name = ["rebase-merge", "rebase-apply"].iter().find_map(read)?;
        Some(name.trim_ascii().to_owned()).filter(|name| name.starts_with(b"refs/heads/"))
    }

    /// An operation as messages name it, given the name of its file.
    pub fn describe_operation(name: &str) -> &'static str {
        OPERATIONS.iter().find(|(file, _)| *file == name).map_or("an operation", |(_, what)| what)
    }
}

/// What was read, or nothing and the reason.
fn known<T: Default>(read: Result<T>) -> (T, Option<Error>) {
    read.map_or_else(|error| (T::default(), Some(error)), |found| (found, None))
}

impl GitDirs {
    fn has_reftable(&self) -> bool {
        self.common_dir.join(REFTABLE).is_dir()
    }
}

/// The log of a ref from this size on, as its file has it.
fn read_log(dirs: &GitDirs, dir: &Path, name: &str, size: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if !dirs.has_reftable() {
        let path = dir.join(LOGS).join(name);
        let Some(mut log) = fs::File::open(&path).if_exists().at("read", &path)? else { return Ok(text) };
        log.seek(SeekFrom::Start(size)).and_then(|_| log.read_to_end(&mut text)).at("read", &path)?;
        return Ok(text);
    }
    let git = git_in(dirs)?;
    let printed = git.call(["log", "-g", "--date=raw", "--no-show-signature", LOG_FORMAT, name, "--"]);
    let printed = String::from_utf8_lossy(&printed.ok()?.out).into_owned();
    let mut before: Option<&str> = None;
    for line in printed.lines().rev() {
        // `<commit> <name> <email> HEAD@{<time> <zone>}`, a tab, the reason.
        let (who, why) = line.split_once('\t').unwrap_or((line, ""));
        let (Some((who, when)), Some((commit, _))) = (who.rsplit_once("@{"), line.split_once(' ')) else {
            continue;
        };
        let (who, when) = (who.rsplit_once(' ').map_or(who, |(who, _)| who), when.trim_end_matches('}'));
        let old = before.map_or_else(|| "0".repeat(commit.len()), str::to_owned);
        text.extend_from_slice(format!("{old} {who} {when}\t{why}\n").as_bytes());
        before = Some(commit);
    }
    Ok(text.split_off(text.len().min(usize::try_from(size).unwrap_or(usize::MAX))))
}

/// Whether a repository has every object that its refs and its index lead to; `None` if git is not on the `PATH`.
pub fn is_connected(git_dir: &Path) -> Option<bool> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = Git::new(git_dir, &variables).ok()?.at(git_dir, &[("GIT_DIR", git_dir.as_os_str())]);
    // What a partial clone leaves to its remote is not lost.
    let args =
        ["rev-list", "--objects", "--quiet", "--exclude-promisor-objects", "--all", "--indexed-objects"];
    Some(without_network(git).call(args).run().ok()?.is_ok())
}

fn git_in(dirs: &GitDirs) -> Result<Git> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = Git::new(&dirs.top, &variables)?;
    let git =
        git.at(&dirs.top, &[("GIT_DIR", dirs.git_dir.as_os_str()), ("GIT_WORK_TREE", dirs.top.as_os_str())]);
    Ok(without_network(git))
}

/// Objects that a partial clone does not have are not fetched.
fn without_network(mut git: Git) -> Git {
    git.set_variable("GIT_NO_LAZY_FETCH", "1");
    git
}

fn read_head(git_dir: &Path) -> Result<Option<Head>> {
    let path = git_dir.join("HEAD");
    // Old repositories have a link.
    if let Ok(target) = fs::read_link(&path) {
        return Ok(target.to_str().and_then(|name| Head::parse(&format!("ref: {name}"))));
    }
    let text = fs::read(&path).at("read", &path)?;
    Ok(String::from_utf8(text).ok().and_then(|text| Head::parse(&text)))
}

/// Refs in a binary format, which git has to print. Without git, their list of tables shows at least that something changed.
fn read_reftable(dirs: &GitDirs) -> Result<(Option<Head>, RefTexts)> {
    let printed = git_in(dirs).and_then(|git| {
        let value = "%(if)%(symref)%(then)ref: %(symref)%(else)%(objectname)%(end)";
        let refs = git.call(["for-each-ref", &format!("--format={value} %(refname)")]).ok()?;
        Ok((git, refs.out))
    });
    let Ok((git, loose)) = printed else {
        let list = dirs.common_dir.join(REFTABLE).join("tables.list");
        let packed = fs::read(&list).at("read", &list)?;
        return Ok((None, RefTexts { loose: Vec::new(), packed }));
    };
    let symbolic = git.call(["symbolic-ref", "-q", "HEAD"]).run()?;
    let head = if symbolic.is_ok() {
        Some(Head::Branch(symbolic.line()))
    } else {
        git.commit_of("HEAD")?.map(Head::Detached)
    };
    Ok((head, RefTexts { loose, packed: Vec::new() }))
}
