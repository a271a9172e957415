//! The tree in decree's own store, and beside it an entry of `git stash list` that plain git can restore.
//!
//! git's entry holds what git can hold; the exact bytes, modes and empty directories come from the store. Only git knows the index,
//! which is restored from the entry. No branch is moved.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::tree::{self, TreeRollback};
use super::tree_report;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::tree::Tree;
use crate::error::{ErrorKind, Result};
use crate::git::Git;
use crate::git::stash::{Covers, Stash, Stashes};
use crate::history::HistoryContext;
use crate::history::contents_report::{ContentsReport, not_needed};
use crate::history::payload::{CheckpointKind, CheckpointPayload};
use crate::history::record::CheckpointRecord;
use crate::history::rollback_report::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_restored, present_label,
};
use crate::history::scope::Scope;
use crate::history::unmatched;
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};
use crate::interrupt;
use crate::project::Layout;

fn stashes(layout: &Layout) -> Result<Stashes> {
    let variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    Stashes::of(Git::new(layout.root(), &variables)?, layout.root(), &layout.scratch())
}

/// Within the scope, and nothing that must not get into git's objects.
fn covers(scope: &Scope, coverage: &Coverage) -> impl Fn(&[u8]) -> bool {
    move |path| TreePath::new(path).is_ok_and(|path| scope.covers(&path) && !coverage.excludes(&path))
}

/// Saves the whole tree, and makes an entry of what the scope covers.
pub fn save(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    scope: &Scope,
) -> Result<(SavedCheckpoint, Manifest)> {
    save_captured(context, label, scope, || context.workspace.capture(context.progress))
}

fn save_captured(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    scope: &Scope,
    capture: impl FnOnce() -> Result<Manifest>,
) -> Result<(SavedCheckpoint, Manifest)> {
    let stashes = stashes(context.layout)?;
    // Fails where no entry can be made, before anything that takes long.
    stashes.head()?;
    let manifest = capture()?;
    unmatched::check_new(context.workspace.root(), &manifest, scope)?;
    let mut entry = None;
    let saved = write_checkpoint(context.layout, label, |dir, reason| {
        let message = format!("checkpoint:{}:{}", dir.id(), reason.unwrap_or_default());
        let figures = tree::write(context, dir, &manifest, CheckpointPayload::Tree(scope.clone()))?;
        let covers = covers(scope, &manifest.coverage);
        let stash = stashes.create(&message, &covers)?;
        entry = Some(stash.clone());
        Ok(SavedContents { payload: CheckpointPayload::Stash(scope.clone(), stash), ..figures })
    });
    if let (Err(_), Some(entry)) = (&saved, &entry) {
        let _shield = interrupt::shield();
        let _ = stashes.drop_entry(entry);
    }
    Ok((saved?, manifest))
}

/// Drops the entry of a checkpoint from git's list.
pub fn forget(layout: &Layout, stash: &Stash) -> Result<()> {
    stashes(layout)?.drop_entry(stash).map(drop)
}

/// Reads back all content, and everything that git has of it.
pub fn verify(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    record: &CheckpointRecord,
    stash: &Stash,
) -> Result<usize> {
    let entries = tree::verify(context, dir, record)?;
    check(context, dir, stash).map(|_| entries)
}

/// Checks what git has of it.
pub fn check(context: HistoryContext<'_>, dir: &CheckpointDir, stash: &Stash) -> Result<Stashes> {
    let stashes = stashes(context.layout)?;
    stashes.check(stash).map_err(|error| {
        error.hint(format!("decree's store still has the tree: `decree revert {}` restores it", dir.id()))
    })?;
    Ok(stashes)
}

/// What the checkpoint holds within the scope.
pub fn describe(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    scope: &Scope,
    stash: &Stash,
) -> Result<ContentsReport> {
    let tracked_only = tracked_only(context.layout, manifest, scope)?;
    let mut report = tree_report::describe(context.workspace.root(), manifest, scope);
    let (entry, base) = (short(&stash.commit), short(&stash.base));
    report
        .assumptions
        .push(format!("git is available: it verifies the stash entry {entry} and restores the index"));
    report.assumptions.push(format!("HEAD stays at {base}: a rollback moves no branch"));
    let warning = |path: &String| format!("only the stash entry has {path}: it is tracked, but ignored");
    report.warnings.extend(tracked_only.iter().map(warning));
    report.assumptions.extend(not_needed(&tracked_only));
    report.left_out.extend(tracked_only);
    Ok(report)
}

/// Files that git tracks although they are ignored: they are in git's entry, and not in decree's tree.
fn tracked_only(layout: &Layout, manifest: &Manifest, scope: &Scope) -> Result<Vec<String>> {
    let paths = stashes(layout)?.tracked_but_ignored()?.into_iter();
    let paths = paths.filter_map(|path| TreePath::new(&*path).ok());
    let missing = paths.filter(|path| scope.covers(path) && !manifest.tree.has(path));
    Ok(missing.map(|path| path.to_string()).collect())
}

/// Restores the tree, and the index.
pub fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    record: &CheckpointRecord,
    (made_for, stash): (&Scope, &Stash),
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let stashes = check(context, dir, stash)?;
    let manifest = dir.manifest(context.workspace.store())?;
    record.check_manifest(&manifest)?;
    let scope = &tree::rollback_scope(context, &manifest, made_for, options)?;
    let covers = covers(scope, &manifest.coverage);
    let index = IndexRestore::since(&stashes, stash, &covers)?;
    let mut rollback = TreeRollback::compare(context, dir, &manifest, scope, options)?;
    rollback.report.kind = CheckpointKind::GitStash;
    rollback.report.staged.extend(index.changes());
    rollback.report.assumptions.push(format!(
        "git restores and compares the index right, from its stash entry {}: the hashes are those of the tree",
        short(&stash.commit)
    ));
    let is_same = rollback.is_same() && index.differs.is_empty();
    let mut report = if options.dry_run || is_same {
        rollback.report
    } else {
        let touched = &manifest.tree;
        let (present, saved) = save_present(context, dir, touched, &index, &mut rollback.report)?;
        options.note_present(&present);
        rollback.restore_tree(&present.dir, &saved.tree)?;
        if rollback.report.logged.is_none() {
            rollback.report.log_first(&context.layout.audit(), dir.id(), present.dir.id(), options);
        }
        rollback.report.shield.get_or_insert_with(interrupt::shield);
        index.restore(dir.id(), present.dir.id())?;
        rollback.finish(&present.dir)?
    };
    for path in tracked_only(context.layout, &manifest, scope)? {
        let from = format!("git checkout {} -- {path}", short(&stash.commit));
        report.warnings.push(format!("{path} is ignored, so decree does not hold it; git does: `{from}`"));
        report.left_out.push(path);
    }
    if let Some(head) = stashes.head()?.filter(|head| *head != stash.base) {
        report.warnings.push(format!(
            "HEAD moved from {} to {}: commits are not undone, and `git status` compares with the new HEAD",
            short(&stash.base),
            short(&head)
        ));
    }
    if !stashes.is_listed(stash)? {
        report.warnings.push(format!("{} is no longer in `git stash list`", short(&stash.commit)));
    }
    Ok(report)
}

/// Saves the present as an entry. Where git can make none, as in the middle of a merge, the index is kept as a file.
fn save_present(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    touched: &Tree,
    index: &IndexRestore<'_>,
    report: &mut RollbackReport,
) -> Result<(SavedCheckpoint, Manifest)> {
    let (label, everything) = (present_label(dir.id()), Scope::default());
    let capture = || context.workspace.capture_present(touched, context.progress);
    match save_captured(context, &label, &everything, capture) {
        Ok(saved) => Ok(saved),
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted { .. }) => Err(error),
        Err(error) => {
            let (present, manifest) = tree::save_present(context, &label, touched)?;
            if !index.differs.is_empty() {
                index.stashes.save_index(&present.dir.dir().join("index"))?;
            }
            report.warnings.push(format!("{} has no stash entry: {error}", present.dir.id()));
            Ok((present, manifest))
        }
    }
}

/// git's index, which is restored together with the tree.
struct IndexRestore<'s> {
    stashes: &'s Stashes,
    stash: &'s Stash,
    covers: &'s Covers<'s>,
    /// The paths that are staged differently.
    differs: Vec<String>,
}

impl<'s> IndexRestore<'s> {
    /// Finds what was staged or unstaged since the entry was made.
    fn since(stashes: &'s Stashes, stash: &'s Stash, covers: &'s Covers<'s>) -> Result<IndexRestore<'s>> {
        let mut index = IndexRestore { stashes, stash, covers, differs: Vec::new() };
        index.differs = index.find()?;
        Ok(index)
    }

    fn find(&self) -> Result<Vec<String>> {
        let paths = self.stashes.staged_since(self.stash, self.covers)?;
        Ok(paths.iter().map(|path| quote::in_json(path).into_owned()).collect())
    }

    fn changes(&self) -> impl Iterator<Item = RolledBackPath> {
        self.differs.iter().map(|path| RolledBackPath {
            name: path.clone(),
            operation: Operation::Modify,
            summary: "staged or unstaged since; git's index is restored for it".to_owned(),
        })
    }

    /// Restores it and compares it again.
    fn restore(&self, id: &str, present: &str) -> Result<()> {
        if self.differs.is_empty() {
            return Ok(());
        }
        self.stashes.restore_index(self.stash, self.covers)?;
        let differs = self.find()?;
        if differs.is_empty() { Ok(()) } else { Err(not_restored(id, "git's index", differs, present)) }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
