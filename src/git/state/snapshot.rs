//! Reads what git has at one moment. git itself is needed only for refs in the reftable format.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::dirs::GitDirs;
use super::index_file::IndexFile;
use super::refs::{Head, RefTexts};
use crate::error::{IoContext, Result};
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
/// The log of HEAD in a git directory.
pub(super) const HEAD_LOG: &str = "logs/HEAD";
/// The log that is the stash list, in the directory of refs.
pub(super) const STASH_LOG: &str = "logs/refs/stash";
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
}

impl GitSnapshot {
    /// Reads the state of the repository that contains `root`; `None` if there is none.
    pub fn read(root: &Path) -> Result<Option<GitSnapshot>> {
        GitDirs::find(root).map(GitSnapshot::of).transpose()
    }

    fn of(dirs: GitDirs) -> Result<GitSnapshot> {
        let (head, refs) = if dirs.common_dir.join(REFTABLE).is_dir() {
            read_reftable(&dirs)?
        } else {
            (read_head(&dirs.git_dir)?, RefTexts::read(&dirs.common_dir)?)
        };
        let commit = match &head {
            Some(Head::Branch(name)) => refs.value(name),
            Some(Head::Detached(hash)) => Some(hash.clone()),
            None => None,
        };
        let log = dirs.common_dir.join(STASH_LOG);
        let stash = fs::read(&log).if_exists().at("read", &log)?.unwrap_or_default();
        let is_there = |name: &str| dirs.git_dir.join(name).symlink_metadata().is_ok();
        let operations = OPERATIONS.iter().filter(|(name, _)| is_there(name));
        let operations = operations.map(|(name, _)| (*name).to_owned()).collect();
        let index = IndexFile::open(&dirs.git_dir)?;
        let head_log = dirs.git_dir.join(HEAD_LOG).metadata().ok().map(|log| log.len());
        Ok(GitSnapshot { dirs, head, commit, refs, stash, head_log, operations, index })
    }

    /// git for this repository, whatever the environment says; an error if git is not on the `PATH`.
    pub fn git(&self) -> Result<Git> {
        git_in(&self.dirs)
    }

    /// An operation as messages name it, given the name of its file.
    pub fn describe_operation(name: &str) -> &'static str {
        OPERATIONS.iter().find(|(file, _)| *file == name).map_or("an operation", |(_, what)| what)
    }
}

/// Whether a repository has every object that its refs and its index lead to; `None` if git is not on the `PATH`.
pub fn is_connected(git_dir: &Path) -> Option<bool> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = Git::new(git_dir, &variables).ok()?.at(git_dir, &[("GIT_DIR", git_dir.as_os_str())]);
    let args = ["rev-list", "--objects", "--quiet", "--all", "--indexed-objects"];
    Some(git.call(args).variable("GIT_NO_REPLACE_OBJECTS", "1").run().ok()?.is_ok())
}

fn git_in(dirs: &GitDirs) -> Result<Git> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let git = Git::new(&dirs.top, &variables)?;
    let git =
        git.at(&dirs.top, &[("GIT_DIR", dirs.git_dir.as_os_str()), ("GIT_WORK_TREE", dirs.top.as_os_str())]);
    Ok(git)
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
        let refs = git.call(["for-each-ref", "--format=%(objectname) %(refname)"]).ok()?;
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
