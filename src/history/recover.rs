//! Going back to a checkpoint as far as the store allows: what is there is saved, what can be restored is restored, the rest is named.

use std::path::PathBuf;

use super::HistoryContext;
use super::audit::AuditLog;
use super::deleted_databases::keep_deleted;
use super::kind::tree;
use super::manifests::Manifests;
use super::writer::CheckpointLabel;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::deleted_database::DeletedDatabase;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::partial_restore::{PartialRestoreReport, PartialRestoreRequest};
use crate::checkpoint::store::PackCheck;
use crate::error::Result;
use crate::interrupt;

/// What of a reverted tree is kept beside the checkpoint of the present.
const DIFF: &str = "recover.diff";

/// What became of the tree.
#[derive(Debug, Default)]
pub struct TreeRecovery {
    /// The checkpoint of what was there before; `None` if nothing had to be changed.
    pub saved: Option<String>,
    pub report: PartialRestoreReport,
    /// What became of databases that had been deleted under the programs that have them open.
    pub notes: Vec<String>,
}

/// Takes the tree back to `manifest`, the checkpoint of `subject`, as far as that is possible. `diffs` are recorded diffs against it,
/// the latest first. Likely secrets that are newer than it stay if `leaves_secrets` is true: those of a run move away with its work. The
/// caller holds the project's lock.
pub fn recover_tree(
    context: HistoryContext<'_>,
    subject: &str,
    manifest: &Manifest,
    diffs: &[PathBuf],
    leaves_secrets: bool,
    dry_run: bool,
) -> Result<TreeRecovery> {
    recover(context, subject, manifest, diffs, leaves_secrets, dry_run).map_err(interrupt::name_unchanged)
}

fn recover(
    context: HistoryContext<'_>,
    subject: &str,
    manifest: &Manifest,
    diffs: &[PathBuf],
    leaves_secrets: bool,
    dry_run: bool,
) -> Result<TreeRecovery> {
    let plan = context.workspace.plan_partial_restore(manifest, diffs, leaves_secrets, context.progress)?;
    let is_same = plan.restored.is_empty() && plan.lost.is_empty() && plan.set_aside.is_empty();
    if dry_run || is_same {
        return Ok(TreeRecovery { saved: None, report: plan, notes: Vec::new() });
    }
    let is_restored = |database: &DeletedDatabase| plan.restored.iter().any(|path| database.owns(path));
    let deleted = context.workspace.deleted_since(manifest, is_restored);
    let label = CheckpointLabel::with_reason(format!("before {subject} was recovered"));
    let (saved, tree) = tree::save_present_once(context, &label, &manifest.tree)?;
    let present = CheckpointDir::new(&saved, context.layout.checkpoints().join(&saved));
    let request = PartialRestoreRequest {
        manifest,
        saved: &tree,
        diffs,
        diff: &present.dir().join(DIFF),
        quarantine_dir: present.quarantine_dir(),
        leaves_secrets,
        subject,
        log: &AuditLog::new(context.layout.audit()),
    };
    let report = context.workspace.restore_partially(&request, context.progress)?;
    let notes = keep_deleted(context.layout, &deleted, &present.quarantine_dir());
    Ok(TreeRecovery { saved: Some(saved), report, notes })
}

/// Stores again what the tree still has of the contents that damaged packs lost, and counts the others.
pub fn restock(context: HistoryContext<'_>, packs: &mut PackCheck) -> Result<()> {
    if packs.missing > 0 {
        context.workspace.capture(context.progress)?;
        packs.missing = packs.named.count_missing(context.workspace.store())?;
    }
    Ok(())
}

/// Finds damaged packs, before the tree is changed. With `moves`, stores what is intact in them again and moves them away.
pub fn check_packs(context: HistoryContext<'_>, moves: bool) -> Result<PackCheck> {
    let checked = context
        .workspace
        .store()
        .check_packs(moves, || Manifests::find(context.layout).contents(context.workspace.store()));
    checked.map_err(interrupt::name_unchanged)
}
