//! Refs, stash entries and commits that a failed run left without a name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::refs::{RefChange, is_hash, symbolic_target};
use super::restore::{KeptCommit, identified, name_commits};
use super::snapshot::{GitSnapshot, HEAD, STASH};
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::git::Git;

/// How git marks a commit that replaces the one before it.
const AMEND: &str = "commit (amend)";

/// Moves a ref, unless another process has moved it meanwhile.
pub fn move_ref(git: &Git, name: &str, from: &str, to: &str, reason: &str) -> Result<()> {
    identified(git.call(["update-ref", "--no-deref", "-m", reason, name, to, from])).ok().map(drop)
}

/// Creates refs that were deleted, all of them or, if that fails, each that can be. Returns those that are not there, each with the reason.
pub fn create_refs<'c>(git: &Git, deleted: &[&'c RefChange], reason: &str) -> Vec<(&'c RefChange, String)> {
    let target = |it: &RefChange| symbolic_target(&String::from_utf8_lossy(&value(it))).map(str::to_owned);
    let (symbolic, direct): (Vec<&RefChange>, Vec<&RefChange>) =
        deleted.iter().partition(|it| target(it).is_some());
    let create = |refs: &[&RefChange]| {
        let command = |it: &&RefChange| [b"create ", &*it.name, b" ", &value(it), b"\n"].concat();
        let commands: Vec<u8> = refs.iter().flat_map(command).collect();
        identified(git.call(["update-ref", "-m", reason, "--stdin"])).input(commands).ok()
    };
    let why = |error: Error| error.detail_lines().first().cloned().unwrap_or_else(|| error.to_string());
    let mut failed = Vec::new();
    if !direct.is_empty() && create(&direct).is_err() {
        for one in direct {
            failed.extend(create(&[one]).err().map(|error| (one, why(error))));
        }
    }
    // `update-ref` knows them only since git 2.46.
    for it in symbolic {
        let (name, target) = (OsStr::from_bytes(&it.name), target(it).unwrap_or_default());
        let args =
            [OsStr::new("symbolic-ref"), OsStr::new("-m"), OsStr::new(reason), name, OsStr::new(&target)];
        let created = identified(git.call(args)).ok();
        failed.extend(created.err().map(|error| (it, why(error))));
    }
    failed
}

/// What a deleted ref had.
fn value(deleted: &RefChange) -> Vec<u8> {
    deleted.before.clone().unwrap_or_default()
}

/// The commits of stash entries that are not in the list any more.
pub fn dropped_entries(now: &GitSnapshot, before: &[u8]) -> Vec<String> {
    let commits = |text: &[u8]| -> Vec<String> {
        text.split(|byte| *byte == b'\n').filter_map(|line| hashes(line).map(|(_, commit)| commit)).collect()
    };
    let kept = commits(&now.stash);
    commits(before).into_iter().filter(|commit| !kept.contains(commit)).collect()
}

/// What became of the stash list.
#[derive(Debug, Default)]
pub struct RestoredStash {
    /// Whether entries were missing.
    pub was_missing: bool,
    /// The entries that were added meanwhile, the latest first: the number in `stash@{…}`, and the message.
    pub made: Vec<(usize, Vec<u8>)>,
}

/// Restores stash entries that were dropped. Those that were added meanwhile are behind those from before, so that `stash@{0}` is what it
/// was: `git stash pop` would apply failed work.
pub fn restore_stash(git: &Git, now: &GitSnapshot, before: &[u8], reason: &str) -> Result<RestoredStash> {
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let commits = |list: &[Vec<u8>]| -> Vec<String> {
        list.iter().filter_map(|line| hashes(line).map(|(_, commit)| commit)).collect()
    };
    let (old, new) = (lines(before), lines(&now.stash));
    let (known, found) = (commits(&old), commits(&new));
    let is_added = |line: &&Vec<u8>| hashes(line).is_some_and(|(_, commit)| !known.contains(&commit));
    let added: Vec<Vec<u8>> = new.iter().filter(is_added).cloned().collect();
    // The last line of a log is its latest entry.
    let list = if added.is_empty() { old } else { chained(added.iter().chain(&old)) };
    let message = |line: &Vec<u8>| line.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default().to_vec();
    let numbered = added.iter().enumerate().map(|(at, line)| (list.len() - 1 - at, message(line)));
    // The log may have been restored without the ref.
    let is_there = known.is_empty() || now.refs.value(STASH).is_some();
    let was_missing = !is_there || known.iter().any(|commit| !found.contains(commit));
    let made = numbered.rev().collect();
    let Some(last) = commits(&list).pop() else { return Ok(RestoredStash::default()) };
    if was_missing || commits(&list) != found {
        write_stash(git, now, &list, &last, reason)?;
    }
    Ok(RestoredStash { was_missing, made })
}

/// The lines of a log in another order: each one begins with the commit of the one before it.
fn chained<'l>(lines: impl Iterator<Item = &'l Vec<u8>>) -> Vec<Vec<u8>> {
    let mut before: Option<String> = None;
    let mut list = Vec::new();
    for line in lines {
        let Some((_, commit)) = hashes(line) else { continue };
        let old = before.unwrap_or_else(|| "0".repeat(commit.len()));
        list.push([old.as_bytes(), &line[commit.len()..]].concat());
        before = Some(commit);
    }
    list
}

/// Makes the log of the stash these lines, and the ref the commit of the last.
fn write_stash(git: &Git, now: &GitSnapshot, list: &[Vec<u8>], last: &str, reason: &str) -> Result<()> {
    let Some(log) = now.stash_log() else { return rewrite_stash(git, list) };
    identified(git.call(["update-ref", "-m", reason, STASH, last])).ok()?;
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).at("create", parent)?;
    }
    let text: Vec<u8> = list.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect();
    write_log(&log, &text)
}

/// Writes the log of the stash, with the mode that it has, or else that of HEAD's.
fn write_log(log: &Path, text: &[u8]) -> Result<()> {
    let beside = log.parent().and_then(Path::parent).map(|logs| logs.join(HEAD));
    let found = log.metadata().ok().or_else(|| beside?.metadata().ok());
    let mut file = AtomicFile::create(log)?;
    if let Some(found) = found {
        file.set_mode(found.permissions())?;
    }
    file.write_all(text).at("write", log)?;
    file.commit()
}

/// Makes the log of the stash these lines, entry by entry: git alone can write it.
fn rewrite_stash(git: &Git, list: &[Vec<u8>]) -> Result<()> {
    git.call(["update-ref", "-d", STASH]).ok()?;
    for line in list {
        let line = String::from_utf8_lossy(line).into_owned();
        let (who, reason) = line.split_once('\t').unwrap_or((&line, ""));
        let Some((_, commit)) = hashes(line.as_bytes()) else { continue };
        let call = git.call(["update-ref", "--create-reflog", "-m", reason, STASH, &commit]);
        // `<hash> <hash> <name> <email> <time> <zone>`
        let who = who.splitn(3, ' ').last().unwrap_or_default();
        let (name, rest) = who.split_once(" <").unwrap_or((who, ""));
        let (email, date) = rest.split_once("> ").unwrap_or_default();
        let values = [("NAME", name), ("EMAIL", email), ("DATE", date)];
        let given = values.iter().filter(|(_, value)| !value.is_empty());
        given
            .fold(identified(call), |call, (key, value)| {
                call.variable(format!("GIT_COMMITTER_{key}"), *value)
            })
            .ok()?;
    }
    Ok(())
}

/// The commits that HEAD was at since its log had this size, and `others`, as far as no ref leads to them: of each line of commits the
/// last.
pub fn unnamed_commits(
    git: &Git,
    now: &GitSnapshot,
    since: Option<u64>,
    others: &[String],
) -> Result<Vec<String>> {
    let text = since.map_or(Ok(Vec::new()), |since| now.head_log_since(since))?;
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
    let asked: String = commits.iter().map(|commit| format!("{commit}^{{commit}}\n")).collect();
    let found = git.call(["cat-file", "--batch-check=%(objectname)"]).input(asked.into_bytes()).ok()?;
    let text = String::from_utf8_lossy(&found.out).into_owned();
    let present: BTreeSet<&str> = text.lines().filter(|line| is_hash(line)).collect();
    if present.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = present.iter().map(|commit| format!("{commit}\n")).collect();
    let list = |excluded: Vec<String>| {
        let excluded = excluded.iter().map(|name| format!("--exclude={name}"));
        // Whether a `--not` counts for the input differs between versions of git: here it does not, in any.
        let args = ["rev-list", "--parents", "--not"].map(str::to_owned).into_iter().chain(excluded);
        let args = args.chain(["--all", "--not", "--stdin"].map(str::to_owned));
        git.call(args).input(asked.clone().into_bytes()).ok()
    };
    let output = list(Vec::new()).or_else(|error| match broken_refs(git, now)? {
        none if none.is_empty() => Err(error),
        broken => list(broken),
    })?;
    let text = String::from_utf8_lossy(&output.out).into_owned();
    let unnamed: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let parents: BTreeSet<&str> = text.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    let last = present.into_iter().filter(|it| unnamed.contains(it) && !parents.contains(it));
    Ok(last.map(str::to_owned).collect())
}

/// The refs that lead to nothing: git does not list commits while one is there.
fn broken_refs(git: &Git, now: &GitSnapshot) -> Result<Vec<String>> {
    let all: Vec<(String, String)> = now.refs.names_and_values().collect();
    let asked: String = all.iter().map(|(_, value)| format!("{value}\n")).collect();
    let found = git.call(["cat-file", "--batch-check=%(objectname)"]).input(asked.into_bytes()).ok()?;
    let text = String::from_utf8_lossy(&found.out).into_owned();
    let is_there: BTreeSet<&str> = text.lines().filter(|line| is_hash(line)).collect();
    let is_broken = |value: &str| symbolic_target(value).is_none() && !is_there.contains(value);
    Ok(all.iter().filter(|(_, value)| is_broken(value)).map(|(name, _)| name.clone()).collect())
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
