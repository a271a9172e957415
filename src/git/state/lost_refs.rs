//! Refs, stash entries and commits that a failed run left without a name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::refs::is_hash;
use super::restore::{KeptCommit, identified, name_commits};
use super::snapshot::{GitSnapshot, HEAD_LOG, STASH_LOG};
use crate::error::{IoContext, Result};
use crate::fs::atomic;
use crate::git::Git;

const STASH: &str = "refs/stash";
/// How git marks a commit that replaces the one before it.
const AMEND: &str = "commit (amend)";

/// Creates refs that were deleted, all of them or, if that fails, each that can be. Returns those that are not there, each with the reason.
pub fn create_refs(git: &Git, refs: &[(String, String)], reason: &str) -> Result<Vec<(String, String)>> {
    let create = |refs: &[(String, String)]| {
        let commands: String = refs.iter().map(|(name, value)| format!("create {name} {value}\n")).collect();
        identified(git.call(["update-ref", "-m", reason, "--stdin"])).input(commands.into_bytes()).ok()
    };
    let mut failed = Vec::new();
    if refs.is_empty() || create(refs).is_ok() {
        return Ok(failed);
    }
    for one in refs.chunks(1) {
        if let Err(error) = create(one) {
            let why = error.detail_lines().first().cloned().unwrap_or_else(|| error.to_string());
            failed.push((one[0].0.clone(), why));
        }
    }
    Ok(failed)
}

/// Restores stash entries that were dropped: the list is what it was, and then what was added. Returns whether any was missing.
pub fn restore_stash(git: &Git, now: &GitSnapshot, before: &[u8], reason: &str) -> Result<bool> {
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (old, new) = (lines(before), lines(&now.stash));
    let commit = |line: &Vec<u8>| hashes(line).map(|(_, commit)| commit);
    let kept: BTreeSet<String> = new.iter().filter_map(commit).collect();
    // The log may have been restored without the ref.
    let is_there = old.is_empty() || now.refs.value(STASH).is_some();
    if is_there && old.iter().filter_map(commit).all(|commit| kept.contains(&commit)) {
        return Ok(false);
    }
    let known: BTreeSet<String> = old.iter().filter_map(commit).collect();
    let added = new.into_iter().filter(|line| commit(line).is_some_and(|commit| !known.contains(&commit)));
    let list: Vec<Vec<u8>> = old.into_iter().chain(added).collect();
    let Some(last) = list.last().and_then(commit) else { return Ok(false) };
    identified(git.call(["update-ref", "-m", reason, STASH, &last])).ok()?;
    let log = now.dirs.common_dir.join(STASH_LOG);
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).at("create", parent)?;
    }
    atomic::write(&log, &list.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect::<Vec<u8>>())?;
    Ok(true)
}

/// The commits that HEAD was at since its log had this size, and `others`, as far as no ref leads to them: of each line of commits the
/// last.
pub fn unnamed_commits(
    git: &Git,
    git_dir: &Path,
    since: Option<u64>,
    others: &[String],
) -> Result<Vec<String>> {
    let mut text = Vec::new();
    let path = git_dir.join(HEAD_LOG);
    if let (Some(since), Some(mut log)) = (since, fs::File::open(&path).if_exists().at("read", &path)?) {
        log.seek(SeekFrom::Start(since)).and_then(|_| log.read_to_end(&mut text)).at("read", &path)?;
    }
    let mut commits: BTreeSet<String> = others.iter().cloned().collect();
    let mut replaced = BTreeSet::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Some((before, after)) = hashes(line) else { continue };
        if String::from_utf8_lossy(line).contains(&format!("\t{AMEND}")) {
            replaced.insert(before);
        }
        commits.insert(after);
    }
    commits.retain(|commit| !replaced.contains(commit) && commit.bytes().any(|digit| digit != b'0'));
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    // A commit that git has collected since has no name that it could keep.
    let mut present = Vec::new();
    for commit in commits {
        present.extend(git.commit_of(&commit)?);
    }
    let args = ["rev-list", "--parents"].map(str::to_owned).into_iter().chain(present.iter().cloned());
    let output = git.call(args.chain(["--not", "--all", "--"].map(str::to_owned))).ok()?;
    let text = String::from_utf8_lossy(&output.out).into_owned();
    let unnamed: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let parents: BTreeSet<&str> = text.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    Ok(present.into_iter().filter(|it| unnamed.contains(&**it) && !parents.contains(&**it)).collect())
}

/// Gives commits names of decree's.
pub fn keep_commits(git: &Git, commits: Vec<String>, keep: &str, reason: &str) -> Result<Vec<KeptCommit>> {
    let kept = name_commits(git, commits, keep)?;
    let commands: String =
        kept.iter().map(|kept| format!("update {} {}\n", kept.name, kept.commit)).collect();
    if !commands.is_empty() {
        identified(git.call(["update-ref", "-m", reason, "--stdin"])).input(commands.into_bytes()).ok()?;
    }
    Ok(kept)
}

/// Both hashes of a line in a log.
fn hashes(line: &[u8]) -> Option<(String, String)> {
    let mut words =
        line.splitn(3, |byte| *byte == b' ').map(|word| String::from_utf8_lossy(word).into_owned());
    let (before, after) = (words.next()?, words.next()?);
    (is_hash(&before) && is_hash(&after)).then_some((before, after))
}
