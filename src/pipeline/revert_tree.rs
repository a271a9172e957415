//! Takes the tree back to a run's checkpoint and proves it, and with the tree the settings and the follow-ups that the run wrote.
//! A run's clean slate, its end and its recovery share this.

use std::cell::OnceCell;
use std::time::Duration;

use super::active_run::ActiveRun;
use super::context::{ActiveBatch, PipelineContext};
use super::events::Event;
use super::result::{RevertRecord, RunRecord};
use super::uncaptured;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::compare::Changes;
use crate::checkpoint::deleted_database::DeletedDatabase;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::quote::json_for_people;
use crate::checkpoint::restore::{RestoreAction, RestoreOutcome, RestoreReport};
use crate::checkpoint::tree::Tree;
use crate::error::{Error, IoContext, Result};
use crate::history::audit::AuditLog;
use crate::history::own_files::SettingsSnapshot;
use crate::history::{self, CheckpointLabel, HistoryContext, RunDir};

/// How often a revert is repeated because another process goes on writing.
const MAX_RETRIES: u32 = 6;

/// Reverts the tree to `manifest`, given what was recorded of the difference, and compares the whole tree afterwards. `attempt` is the
/// one whose record that is, before a clean slate; at the end of a run, it is the run's own. If
/// another process has changed the tree since that was recorded, everything is saved as a checkpoint first, and then the tree is
/// reverted from what it is now.
pub(super) fn revert_tree(
    batch: &mut ActiveBatch<'_>,
    run: &RunDir,
    attempt: Option<u32>,
    manifest: &Manifest,
) -> Result<RevertRecord> {
    let changed = attempt.map_or_else(|| run.checkpoint(), |number| run.attempt(number));
    let deleted = deleted_databases(batch, &changed, manifest);
    let reverted = revert_recorded(batch, &changed, manifest, &deleted)
        .or_else(|error| revert_present(batch, run, manifest, &deleted, &error));
    let reverted = uncaptured::restore(batch, run, manifest, reverted)?;
    // Names come from the routine: they may contain control characters, workflow commands and secrets.
    let shown = |path: &String| batch.redactor.redact(&json_for_people(path)).into_owned();
    let record = RevertRecord { files: reverted.files.iter().map(shown).collect(), ..reverted.clone() };
    batch.event(&Event::Reverted { id: run.id(), attempt, record: &record });
    Ok(reverted)
}

fn revert_present(
    batch: &mut ActiveBatch<'_>,
    run: &RunDir,
    manifest: &Manifest,
    deleted: &[DeletedDatabase],
    first: &Error,
) -> Result<RevertRecord> {
    let id = run.id();
    let failed = |error: Error| {
        Error::integrity(format!("run {id} could not be reverted: {error}"))
            .details(error.detail_lines().to_vec(), 20)
            .detail(format!("the first failure: {first}"))
            .detail(format!("what the run changed is in {}", run.shown()))
            .hint(error.hint_text().unwrap_or("stop the process that writes to the tree, allow decree to write there (permissions, `chattr -i`), or free some space; then run the same command again: it continues from here"))
    };
    check_restorable(batch, manifest).map_err(failed)?;
    let present = run.tree_at_revert();
    let (saved, tree) = std::fs::create_dir_all(present.dir())
        .at("create", present.dir())
        .and_then(|()| save_present(batch, &format!("before run {id} was reverted"), manifest))
        .map_err(failed)?;
    let adjust = |changes: &mut Changes<'_>| drop(changes.quarantine_unsaved(&manifest.tree, &tree));
    let mut retries = 0;
    let reverted = loop {
        present
            .record_changes(batch.context.workspace, manifest, &adjust, batch.progress())
            .map_err(failed)?;
        match revert_recorded(batch, &present, manifest, deleted) {
            Ok(reverted) => break reverted,
            // Nothing is reported here: the output of decree may be the very file that keeps changing.
            Err(_) if retries < MAX_RETRIES => std::thread::sleep(Duration::from_millis(20 << retries)),
            Err(error) => return Err(failed(error)),
        }
        retries += 1;
    };
    batch.warn(&format!(
        "another process changed the tree while run {id} was reverted; the tree before that is saved: `decree revert {saved}` restores it",
    ));
    Ok(reverted)
}

fn history_context<'b>(batch: &'b ActiveBatch<'_>) -> HistoryContext<'b> {
    let PipelineContext { layout, config, workspace, .. } = &batch.context;
    HistoryContext { layout, config, workspace, progress: batch.progress(), runs: None }
}

/// Fails, naming every path, if the store lost content that a revert needs: before anything is saved or said.
pub(super) fn check_restorable(batch: &ActiveBatch<'_>, manifest: &Manifest) -> Result<()> {
    let changes = batch.context.workspace.compare(manifest, batch.progress())?;
    let Some(error) = batch.context.workspace.unrestorable_error(&changes.list) else { return Ok(()) };
    ActiveRun::note_content_lost(batch.context.layout);
    Err(error)
}

/// Saves the whole tree as a checkpoint, with everything that the run and the user changed; once, however often that is repeated.
/// `manifest` is what the tree is taken back to. Returns the checkpoint's id, and what it holds.
pub(super) fn save_present(
    batch: &ActiveBatch<'_>,
    reason: &str,
    manifest: &Manifest,
) -> Result<(String, Tree)> {
    let label = CheckpointLabel::with_reason(reason);
    history::save_present_once(history_context(batch), &label, &manifest.tree)
}

/// The databases that the run, or what ran beside it, deleted under programs that have them open.
fn deleted_databases(
    batch: &ActiveBatch<'_>,
    changed: &CheckpointDir,
    manifest: &Manifest,
) -> Vec<DeletedDatabase> {
    // Read only if there is one. A diff that cannot be read is an error of the revert.
    let patch = OnceCell::new();
    let is_changed = |database: &DeletedDatabase| {
        let patch = patch.get_or_init(|| Patch::read(&changed.diff_path()).ok());
        let mut paths = patch.iter().flat_map(|patch| &patch.records).map(|record| &record.change.path);
        paths.any(|path| database.owns(path))
    };
    batch.context.workspace.deleted_since(manifest, is_changed)
}

/// Reverts the paths of a recorded diff, then compares the whole tree. What `deleted` databases hold is kept.
fn revert_recorded(
    batch: &mut ActiveBatch<'_>,
    changed: &CheckpointDir,
    manifest: &Manifest,
    deleted: &[DeletedDatabase],
) -> Result<RevertRecord> {
    let log = AuditLog::new(batch.context.layout.audit());
    let report = match changed.revert(batch.context.workspace, manifest, RestoreAction::PutBack, &log)? {
        RestoreOutcome::AlreadyThere => RestoreReport::default(),
        RestoreOutcome::Done(report) => report,
    };
    if let Some(error) = &report.log_failure {
        batch.warn(&format!("the audit trail has no entry for this revert: {error}"));
    }
    let losses = report.losses();
    for loss in &losses {
        batch.warn(loss);
    }
    let changes = batch.context.workspace.compare(manifest, batch.progress())?;
    let mut differ = changes.list.iter().filter(|change| !report.is_incomplete(&change.path)).peekable();
    if differ.peek().is_some() {
        let paths = differ.map(|change| change.path.to_string()).collect();
        let what = format!("{} was reverted, but the tree differs from its checkpoint", changed.id());
        return Err(Error::integrity(what).details(paths, 20));
    }
    let set_aside = changed.quarantine_dir();
    let mut notes = history::keep_deleted(batch.context.layout, deleted, &set_aside);
    notes.extend(history::write_back(history_context(batch), manifest, &changes.live_databases, &set_aside));
    drop(changes);
    for note in &notes {
        batch.warn(note);
    }
    let (files, _) = manifest.tree.count();
    let notes = losses.into_iter().chain(notes).collect();
    Ok(RevertRecord { notes, ..RevertRecord::new(&report, files) })
}

/// Reverts settings and routines: no checkpoint holds them.
pub(super) fn restore_settings(
    batch: &mut ActiveBatch<'_>,
    settings: &SettingsSnapshot<'_>,
    run: &RunDir,
    record: &mut RunRecord,
) -> Result<()> {
    let set_aside = run.checkpoint().quarantine_dir();
    for path in settings.restore(&set_aside)? {
        let (path, set_aside) = (batch.context.layout.shown(&path), batch.context.layout.shown(&set_aside));
        batch.warn_in(record, format!("{path} was restored; the routine's version is in {set_aside}"));
    }
    Ok(())
}

/// Moves the follow-up messages that a reverted run wrote out of the inbox: they are about work that is gone. Messages that
/// waited before the run stay.
pub(super) fn withdraw_follow_ups(
    context: &PipelineContext<'_>,
    run: &ActiveRun,
    attempt: Option<u32>,
) -> Result<()> {
    for pending in context.inbox.pending_except(&run.inbox(context.layout))? {
        let of_this_chain = pending.id.as_ref().is_some_and(|id| id.chain == run.dir.id().chain);
        if of_this_chain && pending.file != run.file() {
            context.inbox.withdraw(&pending.file, &run.dir.follow_ups(attempt))?;
        }
    }
    Ok(())
}
