//! The tree, in decree's own store: the manifest has the paths, the store has the content.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use super::tree_report::{
    add_line_counts, hash_then, in_manifest, is_only_listed, left_out, moved_head, rolled_back_path,
    still_set_aside,
};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::{Change, Changes};
use crate::checkpoint::deleted_database::{self, DeletedDatabase};
use crate::checkpoint::hash::ContentHash;
use crate::checkpoint::live_database::DatabaseInUse;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreRequest};
use crate::checkpoint::secret_stamp::SecretFiles;
use crate::checkpoint::tree::{Tree, combined_hash};
use crate::error::Result;
use crate::fs::atomic::AtomicFile;
use crate::history::HistoryContext;
use crate::history::audit::{AuditLog, RollbackLog};
use crate::history::beside_scope::created_beside;
use crate::history::deleted_databases::keep_deleted;
use crate::history::live_databases::write_back;
use crate::history::lookup::list;
use crate::history::payload::{CheckpointKind, CheckpointPayload};
use crate::history::record::CheckpointRecord;
use crate::history::rollback_report::{RollbackOptions, RollbackReport, not_restored, present_label};
use crate::history::scope::Scope;
use crate::history::unmatched::{self};
use crate::history::writer::{CheckpointLabel, SavedCheckpoint, SavedContents, write_checkpoint};

/// Saves the whole tree; `scope` is what a rollback restores.
pub fn save(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    scope: &Scope,
) -> Result<(SavedCheckpoint, Manifest)> {
    // What takes long and fails most often comes first: nothing is left of it.
    let manifest = context.workspace.capture(context.progress)?;
    unmatched::check_new(context.workspace.root(), &manifest, scope)?;
    let payload = CheckpointPayload::Tree(scope.clone());
    let saved = write_checkpoint(context.layout, label, |dir, _| write(context, dir, &manifest, payload))?;
    Ok((saved, manifest))
}

/// Saves the whole tree before it is restored, with what this user may read only by force, and with every path of `touched`, which the
/// restore may overwrite or remove, except for likely secrets.
pub fn save_present(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    touched: &Tree,
) -> Result<(SavedCheckpoint, Manifest)> {
    let manifest = context.workspace.capture_present(touched, context.progress)?;
    let payload = CheckpointPayload::Tree(Scope::default());
    let saved = write_checkpoint(context.layout, label, |dir, _| write(context, dir, &manifest, payload))?;
    Ok((saved, manifest))
}

/// The same, unless a checkpoint that was made for the same reason has the same tree: a command that fails again and again
/// must not add one each time. Returns its id, and what it holds.
pub fn save_present_once(
    context: HistoryContext<'_>,
    label: &CheckpointLabel,
    touched: &Tree,
) -> Result<(String, Tree)> {
    let manifest = context.workspace.capture_present(touched, context.progress)?;
    let hash = manifest.tree.hash().to_string();
    let is_same = |record: &CheckpointRecord| {
        let dir = CheckpointDir::new(&record.id, context.layout.checkpoints().join(&record.id));
        record.tree == hash
            && record.reason == label.reason
            && dir.manifest(context.workspace.store()).is_ok()
    };
    if let Some(same) = list(&context.layout.checkpoints())?.0.into_iter().find(is_same) {
        return Ok((same.id, manifest.tree));
    }
    let payload = CheckpointPayload::Tree(Scope::default());
    let saved = write_checkpoint(context.layout, label, |dir, _| write(context, dir, &manifest, payload))?;
    Ok((saved.record.id, manifest.tree))
}

/// Writes the manifest of a tree whose content is in the store.
pub(super) fn write(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    manifest: &Manifest,
    payload: CheckpointPayload,
) -> Result<SavedContents> {
    context.workspace.write_manifest(manifest, &dir.manifest_path())?;
    let (files, bytes) = manifest.tree.count();
    Ok(SavedContents { files: files as u64, bytes, hash: manifest.tree.hash(), payload })
}

/// Reads back all content.
pub fn verify(context: HistoryContext<'_>, dir: &CheckpointDir, record: &CheckpointRecord) -> Result<usize> {
    let manifest = dir.manifest(context.workspace.store())?;
    record.check_manifest(&manifest)?;
    dir.verify(context.workspace.store(), &manifest)
}

/// Restores what differs, in one transaction. `record` is `None` for the checkpoint of a run.
pub fn restore(
    context: HistoryContext<'_>,
    dir: &CheckpointDir,
    record: Option<&CheckpointRecord>,
    made_for: &Scope,
    options: &RollbackOptions,
) -> Result<RollbackReport> {
    let manifest = dir.manifest(context.workspace.store())?;
    if let Some(record) = record {
        record.check_manifest(&manifest)?;
    }
    let scope = rollback_scope(context, &manifest, made_for, options)?;
    let mut rollback = TreeRollback::compare(context, dir, &manifest, &scope, options)?;
    if !options.restores_git || options.dry_run {
        let root = context.workspace.root().path();
        let moved = manifest.git_records().filter_map(|git| moved_head(root, git, options.restores_git));
        rollback.report.untouched.extend(moved);
    }
    if options.dry_run || rollback.is_same() {
        return Ok(rollback.report);
    }
    rollback.check_restorable()?;
    let (present, saved) = rollback.save_present(&present_label(dir.id()))?;
    options.note_present(&present);
    rollback.restore_tree(&present.dir, &saved.tree)?;
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

/// What a rollback would set aside: the checkpoint that saves the present leaves it out.
fn unsaved(context: HistoryContext<'_>, changes: &Changes<'_>, manifest: &Manifest) -> Result<Vec<String>> {
    let secrets = context.workspace.secrets_left_out(&manifest.tree)?;
    let overwritten = changes.list.iter().filter(|change| change.after.is_some()).map(|change| &change.path);
    let overwritten = overwritten.filter(|path| secrets.binary_search(path).is_ok());
    let paths: BTreeSet<&TreePath> = overwritten.chain(&changes.out_of_scope).collect();
    Ok(paths.into_iter().map(TreePath::to_string).collect())
}

/// The directories that are new, spelled as in a manifest.
fn created_dirs(changes: &Changes<'_>) -> Vec<String> {
    let is_created =
        |change: &&Change| change.before.is_none() && change.after.is_some_and(|node| node.is_dir());
    changes.list.iter().filter(is_created).map(|change| in_manifest(&change.path)).collect()
}

/// The databases within the scope that were deleted under programs that have them open: those that a rollback brings back, and, if decree
/// rolls back by itself, also those that are back already.
fn deleted(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    scope: &Scope,
    changes: &Changes<'_>,
    automatic: bool,
) -> Vec<DeletedDatabase> {
    let mut found = if automatic {
        let is_changed =
            |database: &DeletedDatabase| changes.list.iter().any(|change| database.owns(&change.path));
        context.workspace.deleted_since(manifest, is_changed)
    } else {
        context.workspace.deleted_databases(&changes.list)
    };
    found.retain(|database| scope.covers(&database.path));
    found
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
    /// Databases that differ, and that other programs have open.
    live_databases: Vec<DatabaseInUse>,
    /// Databases that other programs have open, and that are not at their paths any more.
    deleted_databases: Vec<DeletedDatabase>,
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
        let secrets_left = if options.moves_secrets { Vec::new() } else { changes.leave_secrets(manifest) };
        let root = context.workspace.root();
        // The scope that the checkpoint was made for may have been empty then, and may be empty still.
        let not_held = if options.scope.list.is_empty() {
            Vec::new()
        } else {
            unmatched::check_rollback(root, manifest, scope, &changes, dir.id())?
        };
        let orphans = created_beside(scope, manifest, &changes.list);
        let before = hash_now(&changes, manifest, scope);
        let (wanted, held) = hash_then(manifest, scope);
        changes.list.retain(|change| scope.covers(&change.path));
        changes.out_of_scope.retain(|path| scope.covers(path));
        let mut live_databases = std::mem::take(&mut changes.live_databases);
        live_databases.retain(|database| scope.covers(&database.path));
        let deleted_databases = deleted(context, manifest, scope, &changes, options.automatic);
        let what = format!("roll back to {}", dir.id());
        let refusal = || deleted_database::refuse(&what, &live_databases, &deleted_databases);
        if !options.automatic
            && !options.dry_run
            && let Some(error) = refusal()
        {
            return Err(error);
        }
        let journals = context.workspace.foreign_journals(changes.list.iter(), manifest);
        changes.out_of_scope.extend(journals);
        let (before, wanted) = (before.to_string(), wanted.to_string());
        let mut report = RollbackReport::new(CheckpointKind::FileBackup, before, wanted, held);
        let came_or_went = changes.list.iter().filter(|change| !is_only_listed(change, manifest, root));
        report.changes = came_or_went.map(|change| rolled_back_path(change, None, manifest, root)).collect();
        report.created_dirs = created_dirs(&changes);
        if options.dry_run {
            let counts = context.workspace.write_diff(&changes, &mut io::sink())?;
            add_line_counts(&mut report, changes.list.iter().zip(&counts), manifest, root);
            report.would_set_aside = unsaved(context, &changes, manifest)?;
        }
        report.scope = scope.clone();
        report.left_out = left_out(&manifest.coverage, scope);
        report.orphans = orphans.iter().map(in_manifest).collect();
        let warning =
            |word: &String| format!("'{word}' is ignored or left out: the checkpoint does not hold it");
        report.warnings = not_held.iter().map(warning).collect();
        let left = secrets_left.iter().filter(|path| scope.covers(path));
        report.secrets_left = left.map(TreePath::to_string).collect();
        report.warnings.extend(still_set_aside(context, dir));
        report.evidence.push(context.layout.shown(&dir.manifest_path()));
        if options.dry_run {
            report.refusal = refusal();
        }
        Ok(TreeRollback {
            context,
            dir,
            manifest,
            scope,
            options,
            changes: Some(changes),
            live_databases,
            deleted_databases,
            report,
        })
    }

    /// Whether nothing has to be restored.
    pub fn is_same(&self) -> bool {
        let is_same = |changes: &Changes<'_>| changes.list.is_empty() && changes.out_of_scope.is_empty();
        self.changes.as_ref().is_none_or(is_same)
            && self.live_databases.is_empty()
            && self.deleted_databases.is_empty()
    }

    /// Saves the present, with the modes that directories have.
    pub fn save_present(&mut self, label: &CheckpointLabel) -> Result<(SavedCheckpoint, Manifest)> {
        let (context, touched) = (self.context, &self.manifest.tree);
        match &mut self.changes {
            Some(changes) => changes.while_locked(|| save_present(context, label, touched)),
            None => save_present(context, label, touched),
        }
    }

    /// Fails if the store lost content that is needed, before the present is saved.
    fn check_restorable(&self) -> Result<()> {
        let changes =
            self.changes.iter().flat_map(|changes| self.context.workspace.unrestorable_error(&changes.list));
        let recover =
            format!("`decree recover {}` restores what can be restored, and names the rest", self.dir.id());
        changes.last().map_or(Ok(()), |error| Err(error.detail("nothing was touched").hint(recover)))
    }

    /// Reverts the changes. Their diff is kept beside the checkpoint of the present, which holds `saved`; what that lacks is set aside.
    pub fn restore_tree(&mut self, present: &CheckpointDir, saved: &Tree) -> Result<()> {
        let set_aside = present.quarantine_dir();
        self.report.warnings.extend(keep_deleted(self.context.layout, &self.deleted_databases, &set_aside));
        let notes = write_back(self.context, self.manifest, &self.live_databases, &set_aside);
        self.report.warnings.extend(notes);
        let Some(mut changes) =
            self.changes.take().filter(|it| !it.list.is_empty() || !it.out_of_scope.is_empty())
        else {
            return Ok(());
        };
        let moved = changes.quarantine_unsaved(&self.manifest.tree, saved);
        let (workspace, diff) = (self.context.workspace, present.dir().join("rollback.diff"));
        let mut file = AtomicFile::create(&diff)?;
        let counts = workspace.write_diff(&changes, &mut file)?;
        file.commit()?;
        let root = self.context.workspace.root();
        // A diff does not know what was set aside.
        let counts: Vec<_> =
            changes.list.iter().zip(&counts).filter(|(change, _)| !moved.contains(&change.path)).collect();
        add_line_counts(&mut self.report, counts, self.manifest, root);
        let out_of_scope = std::mem::take(&mut changes.out_of_scope);
        // Directories that cannot be listed have their own modes again, which the restore expects.
        drop(changes);
        let patch = Patch::read(&diff)?;
        let entry = self.report.audit_entry(self.dir.id(), present.id(), self.options);
        let outcome = workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Backward,
            action: RestoreAction::Rollback,
            subject: self.dir.id(),
            out_of_scope: &out_of_scope,
            secret_files: &SecretFiles::new(),
            quarantine_dir: present.quarantine_dir(),
            // The audit entry of a rollback also says what was saved and why.
            log: &RollbackLog {
                audit: AuditLog::with_entry(self.context.layout.audit(), entry),
                runs: self.context.runs,
            },
        })?;
        if let RestoreOutcome::Done(mut done) = outcome {
            done.note_separated(root, &self.manifest.coverage.hard_links);
            self.report.warnings.extend(done.losses());
            self.report.unrestored.clone_from(&done.lost);
            let moved = done.set_aside.into_iter().map(|(path, to)| (path.to_string(), to));
            self.report.set_aside = moved.collect::<Vec<(String, PathBuf)>>();
            self.report.logged = Some(done.log_failure.map_or(Ok(()), Err));
            self.report.shield = done.shield;
        }
        self.report.evidence.push(self.context.layout.shown(&diff));
        Ok(())
    }

    /// Compares the tree with the checkpoint again, unless the user does not want that.
    pub fn finish(mut self, present: &CheckpointDir) -> Result<RollbackReport> {
        self.report.after = None;
        self.report.present = Some(present.id().to_owned());
        if self.options.verify {
            let mut changes = self.context.workspace.compare(self.manifest, self.context.progress)?;
            changes.leave_secrets(self.manifest);
            let after = hash_now(&changes, self.manifest, self.scope).to_string();
            if after != self.report.wanted {
                let in_scope = changes.list.iter().filter(|change| self.scope.covers(&change.path));
                let differ = in_scope.filter(|change| !self.report.is_unrestored(&change.path));
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

fn hash_now(changes: &Changes<'_>, manifest: &Manifest, scope: &Scope) -> ContentHash {
    if scope.is_everything() {
        return changes.hash_now(&manifest.tree);
    }
    combined_hash(changes.entries_now(&manifest.tree).filter(|entry| scope.covers(&entry.path())))
}
