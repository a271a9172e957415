//! The tree, in decree's own store: the manifest has the paths, the store has the content.

use std::path::PathBuf;

use crate::checkpoint::attributes::Attributes;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::{Change, Changes};
use crate::checkpoint::coverage::Coverage;
use crate::checkpoint::entry::{Node, describe as describe_node};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::{BadPath, TreePath};
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreRequest};
use crate::checkpoint::root::{PathKind, Root};
use crate::checkpoint::tree::combined_hash;
use crate::error::{Error, Result};
use crate::fs::atomic::AtomicFile;
use crate::history::HistoryContext;
use crate::history::audit::AuditLog;
use crate::history::contents_report::{ContentsReport, not_needed};
use crate::history::payload::{CheckpointKind, CheckpointPayload};
use crate::history::record::CheckpointRecord;
use crate::history::rollback_report::{
    Operation, RollbackOptions, RollbackReport, RolledBackPath, not_restored, present_label,
};
use crate::history::scope::Scope;
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};
use crate::humanize;

/// Saves the whole tree; `scope` is what a rollback restores.
pub fn save(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    scope: &Scope,
) -> Result<(SavedCheckpoint, Manifest)> {
    // What takes long and fails most often comes first: nothing is left of it.
    let manifest = context.workspace.capture(context.progress)?;
    let payload = CheckpointPayload::Tree(scope.clone());
    let saved = write_checkpoint(context.layout, label, |dir, _| write(dir, &manifest, payload))?;
    Ok((saved, manifest))
}

/// Writes the manifest of a tree whose content is in the store.
pub(super) fn write(
    dir: &CheckpointDir,
    manifest: &Manifest,
    payload: CheckpointPayload,
) -> Result<SavedContents> {
    manifest.write(&dir.manifest_path())?;
    let (files, bytes) = manifest.tree.count();
    Ok(SavedContents { files: files as u64, bytes, hash: manifest.tree.hash(), payload })
}

/// Reads back all content.
pub fn verify(context: HistoryContext<'_>, dir: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    let manifest = dir.manifest()?;
    record.check_manifest(&manifest)?;
    dir.verify(context.workspace, &manifest)
}

/// Restores what differs, in one transaction. `record` is `None` for the checkpoint of a run.
pub fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    made_for: &Scope,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let manifest = dir.manifest()?;
    if let Some(record) = record {
        record.check_manifest(&manifest)?;
    }
    let scope = rollback_scope(context, &manifest, made_for, options)?;
    let mut rollback = TreeRollback::compare(context, dir, &manifest, &scope, options)?;
    if options.dry_run || rollback.is_same() {
        return Ok(rollback.report);
    }
    let (present, _) = save(context, &present_label(dir.id()), &Scope::default())?;
    options.note_present(&present);
    rollback.restore_tree(&present.dir)?;
    rollback.finish(&present.dir)
}

/// What the user wants to roll back; by default, what the checkpoint was made for.
pub(super) fn rollback_scope(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    made_for: &Scope,
    options: &RollbackOptions,
) -> Result<Scope> {
    if options.scope.list.is_empty() {
        return Ok(made_for.clone());
    }
    Scope::parse(&options.scope, context.workspace.root(), &|path| manifest.tree.has(path))
}

/// A rollback of the tree, from the comparison on.
pub(super) struct TreeRollback<'r> {
    context: HistoryContext<'r>,
    dir: &'r CheckpointDir,
    manifest: &'r Manifest,
    scope: &'r Scope,
    options: &'r RollbackOptions,
    /// `None` once they are reverted.
    changes: Option<Changes<'r>>,
    pub report: RollbackReport,
}

impl<'r> TreeRollback<'r> {
    /// Finds what differs within the scope.
    pub fn compare(
        context: HistoryContext<'r>,
        dir: &'r CheckpointDir,
        manifest: &'r Manifest,
        scope: &'r Scope,
        options: &'r RollbackOptions,
    ) -> Result<TreeRollback<'r>> {
        let mut changes = context.workspace.compare(manifest, context.progress)?;
        let before = hash_now(&changes, manifest, scope);
        let (wanted, held) = hash_then(manifest, scope);
        changes.list.retain(|change| scope.covers(&change.path));
        changes.out_of_scope.retain(|path| scope.covers(path));
        // The scope that the checkpoint was made for may have been empty then, and may be empty still.
        if held == 0 && changes.list.is_empty() && !options.scope.list.is_empty() && !scope.is_everything() {
            let id = dir.id();
            return Err(Error::project(format!(
                "the scope matches nothing: {}",
                scope.patterns().join(", ")
            ))
            .detail(format!("neither {id} nor the tree has such a path"))
            .hint(format!("`decree checkpoint show {id} --files` lists what it holds")));
        }
        let (before, wanted) = (before.to_string(), wanted.to_string());
        let mut report = RollbackReport::new(CheckpointKind::FileBackup, before, wanted, held);
        let root = context.workspace.root();
        let came_or_went = changes.list.iter().filter(|change| !is_only_listed(change, manifest, root));
        report.changes = came_or_went.map(|change| reverted_path(change, manifest, root)).collect();
        report.left_out = left_out(&manifest.coverage, scope);
        report.evidence.push(context.layout.shown(&dir.manifest_path()));
        Ok(TreeRollback { context, dir, manifest, scope, options, changes: Some(changes), report })
    }

    /// Whether nothing has to be restored.
    pub fn is_same(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.list.is_empty() && changes.out_of_scope.is_empty())
    }

    /// Reverts the changes. Their diff is kept beside the checkpoint of the present.
    pub fn restore_tree(&mut self, present: &CheckpointDir) -> Result<()> {
        let Some(changes) =
            self.changes.take().filter(|it| !it.list.is_empty() || !it.out_of_scope.is_empty())
        else {
            return Ok(());
        };
        let (workspace, diff) = (self.context.workspace, present.dir().join("rollback.diff"));
        let mut file = AtomicFile::create(&diff)?;
        workspace.write_diff(&changes, &mut file)?;
        file.commit()?;
        let patch = Patch::read(&diff)?;
        let entry = self.report.audit_entry(self.dir.id(), present.id(), self.options);
        let outcome = workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Backward,
            action: RestoreAction::Rollback,
            subject: self.dir.id(),
            out_of_scope: &changes.out_of_scope,
            quarantine_dir: present.quarantine_dir(),
            // The audit entry of a rollback also says what was saved and why.
            log: &AuditLog::with_entry(self.context.layout.audit(), entry),
        })?;
        if let RestoreOutcome::Done(done) = outcome {
            self.report.warnings.extend(done.losses());
            self.report.unrestored = done.lost.iter().map(|(path, _)| path.clone()).collect();
            let moved = done.set_aside.into_iter().map(|(path, to)| (path.to_string(), to));
            self.report.set_aside = moved.collect::<Vec<(String, PathBuf)>>();
            self.report.logged = Some(done.log_failure.map_or(Ok(()), Err));
        }
        self.report.evidence.push(self.context.layout.shown(&diff));
        Ok(())
    }

    /// Compares the tree with the checkpoint again, unless the user does not want that.
    pub fn finish(mut self, present: &CheckpointDir) -> Result<RollbackReport> {
        self.report.after = None;
        self.report.present = Some(present.id().to_owned());
        if self.options.verify {
            let changes = self.context.workspace.compare(self.manifest, self.context.progress)?;
            let after = hash_now(&changes, self.manifest, self.scope).to_string();
            if after != self.report.wanted {
                let in_scope = changes.list.iter().filter(|change| self.scope.covers(&change.path));
                let differ = in_scope.filter(|change| !self.report.unrestored.contains(&change.path));
                let differ: Vec<String> = differ.map(|change| change.path.to_string()).collect();
                if differ.is_empty() {
                    self.report.after = Some(after);
                    return Ok(self.report);
                }
                return Err(not_restored(self.dir.id(), "the tree", differ, present.id()));
            }
            self.report.after = Some(after);
        }
        Ok(self.report)
    }
}

/// Whether a directory is in the list of changes, but neither came nor went. Only empty directories are listed, so one that was filled
/// or emptied looks like a change.
fn is_only_listed(change: &Change, manifest: &Manifest, root: &Root) -> bool {
    change.attributes.is_none() && is_on_both_sides(change, manifest, root)
}

/// Whether the nodes of a change are the same, or a directory that has an entry on one side alone.
fn is_on_both_sides(change: &Change, manifest: &Manifest, root: &Root) -> bool {
    let is_dir = |node: &Option<Node>| node.as_ref().is_some_and(Node::is_dir);
    let there_now =
        || root.find(&change.path).is_ok_and(|found| found.is_some_and(|it| it.kind == PathKind::Dir));
    match (&change.before, &change.after) {
        (before, after) if before == after => true,
        (None, after) => is_dir(after) && manifest.tree.has_dir(change.path.as_bytes()),
        (before, None) => is_dir(before) && there_now(),
        _ => false,
    }
}

fn reverted_path(change: &Change, manifest: &Manifest, root: &Root) -> RolledBackPath {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let name = change.path.to_string();
    match &change.attributes {
        Some(attributes) if is_on_both_sides(change, manifest, root) => {
            let names = |attributes: &Attributes| match &attributes.names()[..] {
                [] => "no attributes".to_owned(),
                names => names.join(", "),
            };
            let summary = format!("{} instead of {}", names(&attributes.before), names(&attributes.after));
            RolledBackPath { name, operation: Operation::Modify, summary }
        }
        _ => RolledBackPath {
            name,
            operation: Operation::between(before, after),
            summary: format!("{} instead of {}", describe_node(before), describe_node(after)),
        },
    }
}

fn hash_now(changes: &Changes<'_>, manifest: &Manifest, scope: &Scope) -> ContentHash {
    if scope.is_everything() {
        return changes.hash_now(&manifest.tree);
    }
    combined_hash(changes.entries_now(&manifest.tree).filter(|entry| scope.covers(&entry.path())))
}

/// The hash of what a checkpoint holds within a scope, and how many paths those are.
fn hash_then(manifest: &Manifest, scope: &Scope) -> (ContentHash, usize) {
    if scope.is_everything() {
        return (manifest.tree.hash(), manifest.tree.len());
    }
    let mut held = 0;
    let within = manifest.tree.iter().filter(|entry| scope.covers(&entry.path())).inspect(|_| held += 1);
    (combined_hash(within), held)
}

/// A pattern of a scope that matches nothing in the checkpoint.
struct UnmatchedPattern {
    pattern: String,
    /// Whether something is at that path, which is ignored or left out.
    is_there: bool,
}

fn unmatched(root: &Root, manifest: &Manifest, scope: &Scope) -> Vec<UnmatchedPattern> {
    let mut list = Vec::new();
    for pattern in scope.patterns() {
        let alone = Scope::from_record(vec![pattern.clone()]);
        if !manifest.tree.iter().any(|entry| alone.covers(&entry.path())) {
            let pattern = pattern.trim_start_matches('/').to_owned();
            let is_there = match TreePath::new(pattern.as_bytes()) {
                Ok(path) => root.find(&path).is_ok_and(|found| found.is_some()),
                // git's and decree's own data is in no checkpoint.
                Err(why) => why == BadPath::Reserved,
            };
            list.push(UnmatchedPattern { pattern, is_there });
        }
    }
    list
}

/// What the checkpoint holds within the scope.
pub fn describe(root: &Root, manifest: &Manifest, scope: &Scope) -> ContentsReport {
    let within: Vec<_> = manifest
        .tree
        .iter()
        .filter(|entry| !entry.node.is_dir())
        .map(|entry| (entry.path(), entry.node.content().map_or(0, |(_, size)| size)))
        .filter(|(path, _)| scope.covers(path))
        .collect();
    let bytes: u64 = within.iter().map(|(_, size)| size).sum();
    let (hash, held) = hash_then(manifest, scope);
    let mut left_out = left_out(&manifest.coverage, scope);
    let mut assumptions = Vec::new();
    for UnmatchedPattern { pattern, is_there } in unmatched(root, manifest, scope) {
        if !is_there {
            assumptions.push(format!("nothing is at {pattern} yet"));
        } else if !left_out.contains(&pattern) {
            left_out.push(pattern);
        }
    }
    let mut ignored: Vec<String> = manifest.coverage.ignored_dirs.iter().map(TreePath::to_string).collect();
    let single = manifest.coverage.ignored_files as usize;
    ignored.extend((single > 0).then(|| humanize::count(single, "single file")));
    if !ignored.is_empty() {
        assumptions.push(format!("ignored files do not have to be restored: {}", ignored.join(", ")));
    }
    assumptions.extend(not_needed(&left_out));
    ContentsReport {
        files: within.iter().map(|(path, _)| path.to_string()).collect(),
        state_keys: Vec::new(),
        hash: hash.to_string(),
        summary: format!("{}, {}", humanize::count(within.len(), "file"), humanize::bytes(bytes)),
        held,
        left_out,
        assumptions,
        coverage: serde_json::to_value(&manifest.coverage).expect("a coverage is plain data"),
        warnings: warnings(root, manifest, scope),
    }
}

/// Secrets and special files within the scope: the checkpoint does not hold them.
fn left_out(coverage: &Coverage, scope: &Scope) -> Vec<String> {
    let lists = [&coverage.sensitive, &coverage.special];
    let within = lists.into_iter().flatten().filter(|path| scope.covers(path));
    within.map(|path| path.to_string()).collect()
}

/// What the user has to know before anything happens to the tree.
pub fn warnings(root: &Root, manifest: &Manifest, scope: &Scope) -> Vec<String> {
    let mut warnings = manifest.coverage.warnings();
    warnings.extend(unmatched(root, manifest, scope).into_iter().map(
        |UnmatchedPattern { pattern, is_there }| {
            if is_there {
                format!("'{pattern}' is not in the checkpoint: it is ignored or left out")
            } else {
                format!("'{pattern}' matches nothing now: a rollback only removes what is created there")
            }
        },
    ));
    warnings
}
