//! The tree in decree's own store, and beside it an entry of `git stash list` that plain git can restore.
//!
//! git's entry holds what git can hold; the exact bytes, modes and empty directories come from the store. What only git knows is
//! the index: it is put back as the entry has it. No branch is moved.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::tree::{self, IndexRestore};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::error::{Error, Result};
use crate::git::stash::{Stash, StashRequest, Stashes};
use crate::history::HistoryContext;
use crate::history::record::CheckpointRecord;
use crate::history::rollback::{RollbackOptions, RollbackReport};
use crate::history::scope::Scope;
use crate::project::Layout;

fn stashes(layout: &Layout) -> Result<Stashes> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    Stashes::of(layout.root(), &layout.scratch(), &variables)
}

/// Whether there is a repository in which an entry can be made; asked before anything that takes long.
pub fn is_possible(site: HistoryContext<'_>) -> Result<()> {
    stashes(site.layout)?.head().map(drop)
}

/// Within the scope, and nothing that must not get into git's objects.
fn covers(scope: &Scope, coverage: &Coverage) -> impl Fn(&[u8]) -> bool {
    move |path| {
        TreePath::new(path).is_ok_and(|path| {
            scope.covers(&path) && !coverage.is_sensitive(&path) && !coverage.is_special(&path)
        })
    }
}

/// Writes the manifest, then makes the entry.
pub fn fill(
    site: HistoryContext<'_>,
    dir: &Path,
    manifest: &Manifest,
    scope: &Scope,
    record: &mut CheckpointRecord,
) -> Result<()> {
    tree::fill(dir, manifest, record)?;
    let reason = record.reason.as_deref().unwrap_or_default();
    let message = format!("checkpoint:{}:{reason}", record.id);
    let covers = covers(scope, &manifest.coverage);
    record.stash = Some(stashes(site.layout)?.create(&StashRequest { message, covers: &covers })?);
    Ok(())
}

/// Takes the entry off git's list: its checkpoint goes, or was never finished. That it cannot be is no reason to keep the rest.
pub fn forget(layout: &Layout, record: &CheckpointRecord) -> Result<()> {
    match &record.stash {
        Some(stash) => stashes(layout)?.drop_entry(stash).map(drop),
        None => Ok(()),
    }
}

/// Reads back all content, and all that git has of it.
pub fn verify(site: HistoryContext<'_>, saved: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    let entries = tree::verify(site, saved, record)?;
    check(site, record).map(|_| entries)
}

fn check(site: HistoryContext<'_>, record: &CheckpointRecord) -> Result<(Stashes, Stash)> {
    let stash = record.stash.clone().ok_or_else(|| {
        Error::integrity(format!("the record of {} does not say which entry of git's it is", record.id))
    })?;
    let stashes = stashes(site.layout)?;
    stashes.check(&stash).map_err(|error| {
        error.hint(format!("the tree itself is in decree's store: `decree revert {}`", record.id))
    })?;
    Ok((stashes, stash))
}

/// Files that git tracks although they are ignored: they are in git's entry, and not in decree's tree.
pub fn tracked_only(layout: &Layout, manifest: &Manifest, scope: &Scope) -> Result<Vec<String>> {
    let paths = stashes(layout)?.tracked_but_ignored()?.into_iter();
    let paths = paths.filter_map(|path| TreePath::new(&*path).ok());
    let missing = paths.filter(|path| scope.covers(path) && !manifest.tree.has(path));
    Ok(missing.map(|path| path.to_string()).collect())
}

/// Puts back the tree, and the index.
pub fn rollback(
    site: HistoryContext<'_>,
    saved: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    scope: &Scope,
    wish: &RollbackOptions,
) -> Result<RollbackReport> {
    let own = record.expect("only a checkpoint that says so has an entry");
    let (stashes, stash) = check(site, own)?;
    let manifest = saved.manifest()?;
    let covers = covers(scope, &manifest.coverage);
    let staged = IndexRestore::since(&stashes, &stash, &covers)?;
    let mut done = tree::rollback(site, saved, record, scope, wish, Some(&staged))?;
    for path in tracked_only(site.layout, &manifest, scope)? {
        let from = format!("git checkout {} -- {path}", short(&stash.commit));
        done.warnings.push(format!("{path} is ignored, so decree does not hold it; git does: `{from}`"));
        done.left_out.push(path);
    }
    if let Some(head) = stashes.head()?.filter(|head| *head != stash.base) {
        done.warnings.push(format!(
            "HEAD was at {} and is at {}: commits are not undone, and `git status` compares with them",
            short(&stash.base),
            short(&head)
        ));
    }
    if !stashes.is_listed(&stash)? {
        done.warnings.push(format!("{} is no longer in `git stash list`", short(&stash.commit)));
    }
    Ok(done)
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
