//! `decree recover` for a run that cannot be reverted, because the store lost content that the revert needs: what can be restored is
//! restored, and the run is closed, so that it does not keep the project from working.

use std::path::PathBuf;

use super::active_run::ActiveRun;
use super::context::{ActiveBatch, PipelineContext};
use super::git_state::restore_git;
use super::recovery::{self, end_processes, quarantine_routine_result, undecided};
use super::result::{RevertRecord, RunRecord};
use super::settle::settle;
use super::uncaptured;
use super::verdict::Verdict;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fs::{atomic, untrusted};
use crate::history::uncaptured::NotRestored;
use crate::history::{GitChange, HistoryContext, RunDir, TreeRecovery, recover_tree};
use crate::humanize::count;
use crate::interrupt;

/// How many lost paths a reason names.
const MAX_NAMED: usize = 20;

/// A run that was unfinished, and what became of it.
#[derive(Debug)]
pub struct RecoveredRun {
    pub id: String,
    /// `None` if the run is as it was before: its message waits, or nothing was done.
    pub verdict: Option<Verdict>,
    pub tree: TreeRecovery,
    /// What else is not as it was: likely secrets, repositories, git's own state.
    pub not_restored: Vec<String>,
    /// Why nothing is known of the tree before the run.
    pub unknown: Option<String>,
}

/// Settles the unfinished run, reverting it as far as that is possible; `None` if there is none. With `dry_run` nothing is changed.
pub(super) fn recover(batch: &mut ActiveBatch<'_>, dry_run: bool) -> Result<Option<RecoveredRun>> {
    let Some(active) = ActiveRun::read(batch.context.layout)? else { return Ok(None) };
    active.refuse_other_store(batch.context.layout)?;
    let id = active.dir.id().to_string();
    if dry_run {
        let (tree, unknown) = revert_partially(batch, &active, true)?;
        return Ok(Some(RecoveredRun { id, verdict: None, tree, not_restored: Vec::new(), unknown }));
    }
    end_processes(batch, &active);
    // All or nothing, if all is possible.
    match recovery::recover(batch) {
        Ok(()) => {
            let tree = TreeRecovery::default();
            return Ok(Some(RecoveredRun {
                id,
                verdict: None,
                tree,
                not_restored: Vec::new(),
                unknown: None,
            }));
        }
        // The run is settled, and what is missing is named.
        Err(error) if ActiveRun::read(batch.context.layout)?.is_none() => return Err(error),
        Err(error) if error.kind() == ErrorKind::Integrity => {}
        Err(error) => return Err(error),
    }
    let _shield = interrupt::shield();
    let (tree, unknown) = revert_partially(batch, &active, false)?;
    let (verdict, not_restored) = close(batch, &active, &tree, unknown.as_deref())?;
    Ok(Some(RecoveredRun { id, verdict: Some(verdict), tree, not_restored, unknown }))
}

/// Reverts what can be reverted. Without a manifest that is nothing: then the reason is returned as well.
fn revert_partially(
    batch: &ActiveBatch<'_>,
    active: &ActiveRun,
    dry_run: bool,
) -> Result<(TreeRecovery, Option<String>)> {
    let PipelineContext { layout, config, workspace, .. } = &batch.context;
    let context = HistoryContext { layout, config, workspace, progress: batch.progress(), runs: None };
    let run = &active.dir;
    let is_kept = active.read_own_result()?.is_some_and(|result| result.run.kept);
    if is_kept || !active.has_manifest()? {
        let is_lost = !is_kept && active.attempt().is_some();
        return Ok((TreeRecovery::default(), is_lost.then(|| "its manifest is gone".to_owned())));
    }
    match run.checkpoint().manifest(workspace.store()) {
        Ok(manifest) => {
            let id = run.id().to_string();
            let recovered = recover_tree(context, &id, &manifest, &diffs(run), false, dry_run)?;
            Ok((recovered, None))
        }
        Err(error) => Ok((TreeRecovery::default(), Some(error.to_string()))),
    }
}

/// The recorded diffs of a run's attempts, the latest first.
fn diffs(run: &RunDir) -> Vec<PathBuf> {
    let attempts = (1..=run.last_attempt().unwrap_or(0)).rev().map(|number| run.attempt(number));
    [run.tree_at_revert(), run.checkpoint()].into_iter().chain(attempts).map(|dir| dir.diff_path()).collect()
}

/// Writes the verdict and settles the run.
fn close(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    tree: &TreeRecovery,
    unknown: Option<&str>,
) -> Result<(Verdict, Vec<String>)> {
    let lost = &tree.report.lost;
    let reason = match unknown {
        Some(why) => format!("the state before the run is lost, and the tree is as the run left it: {why}"),
        None if lost.is_empty() => {
            "decree was killed, or could not revert it; the tree was restored by `decree recover`".to_owned()
        }
        None => {
            let mut named: Vec<String> =
                lost.iter().take(MAX_NAMED).map(|lost| lost.path.to_string()).collect();
            if lost.len() > MAX_NAMED {
                named.push(format!("and {} more", lost.len() - MAX_NAMED));
            }
            format!("{} could not be restored: {}", count(lost.len(), "file"), named.join(", "))
        }
    };
    restore_run_dir(batch, active)?;
    let mut result = match active.read_own_result()? {
        Some(result) => result,
        None => {
            quarantine_routine_result(&active.dir)?;
            undecided(active, String::new())
        }
    };
    let not_restored =
        if result.run.kept { Vec::new() } else { restore_beside_tree(batch, active, &mut result.run)? };
    let is_lost = unknown.is_some() || !lost.is_empty();
    result.verdict = if is_lost { Verdict::FailedUnrestored } else { Verdict::FailedReverted };
    (result.run.kept, result.run.reason) = (false, reason);
    let verdict = result.verdict;
    let summary = settle(batch, active, None, result)?;
    batch.record(summary);
    Ok((verdict, not_restored))
}

/// Restores what no checkpoint holds, and git's own state, of a run that is not kept. Returns what is not as it was.
fn restore_beside_tree(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    record: &mut RunRecord,
) -> Result<Vec<String>> {
    let Ok(manifest) = active.dir.checkpoint().manifest(batch.context.workspace.store()) else {
        return Ok(Vec::new());
    };
    let reverted = uncaptured::restore(batch, &active.dir, &manifest, Ok(RevertRecord::default()))?;
    uncaptured::report_reverted(batch, record);
    restore_git(batch, &active.dir, None, &manifest, record);
    let mut not_restored: Vec<String> = reverted.not_restored.iter().map(NotRestored::line).collect();
    not_restored.extend(record.git.iter().flat_map(GitChange::unrestored_lines));
    Ok(not_restored)
}

/// Makes the run's directory again if the routine deleted it, with the message, which is in the inbox, too.
fn restore_run_dir(batch: &ActiveBatch<'_>, active: &ActiveRun) -> Result<()> {
    let (dir, message) = (active.dir.path(), active.dir.message());
    std::fs::create_dir_all(dir).at("create", dir)?;
    if message.try_exists().at("read", &message)? {
        return Ok(());
    }
    let waiting = batch.context.inbox.path(&active.file());
    let text = untrusted::read(&waiting).if_exists().at("read", &waiting)?;
    atomic::write(&message, &text.unwrap_or_default())
}

/// Moves a `running.json` that cannot be read out of the way. Which run it named is unknown, so the tree stays as it is.
pub fn quarantine_damaged_record(layout: &crate::project::Layout, error: Error) -> Result<PathBuf> {
    if error.kind() != ErrorKind::Integrity {
        return Err(error);
    }
    let path = layout.running();
    let damaged = path.with_extension("json.damaged");
    let moved = crate::fs::quarantine::move_to_free_name(&path, |number| {
        crate::fs::quarantine::numbered(&damaged, ".", number)
    })?;
    crate::history::uncaptured::forget_record(layout);
    moved.ok_or(error)
}
