//! What no checkpoint holds, during a run: likely secrets, repositories, ignored entries in the root. Held after the checkpoint, looked at
//! after each attempt, restored with the tree, and reported with the run.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::active_run::ActiveRun;
use super::context::ActiveBatch;
use super::result::{RevertRecord, RunRecord};
use super::summary::{MessageSummary, Summary};
use super::verdict::Ending;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::error::{Error, Result};
use crate::history::RunDir;
use crate::history::uncaptured::{
    self, HeldForRun, LostRepository, NotRestored, UncapturedReport, UncapturedState, collect_leftovers,
};
use crate::interrupt;
use crate::process::ProcessMark;

/// Holds what the checkpoint does not. Nothing of the run may have started yet.
pub(super) fn hold(
    batch: &mut ActiveBatch<'_>,
    active: &ActiveRun,
    manifest: &Manifest,
    record: &mut RunRecord,
) -> Result<()> {
    let (run, layout, workspace) = (&active.dir, batch.context.layout, batch.context.workspace);
    let letters = batch.queue.letters();
    let state = UncapturedState::hold(layout, workspace, manifest, &run.id().to_string(), letters)?;
    if let Some(mark) = ProcessMark::parse(active.mark_text()) {
        let set_aside = run.checkpoint().quarantine_dir();
        state.restore_at_exit(workspace.root(), set_aside, (mark, layout.running()), |_| true);
    }
    for text in state.warnings() {
        batch.warn_in(record, text);
    }
    batch.uncaptured = Some(HeldForRun { state, report: UncapturedReport::default() });
    Ok(())
}

/// How an attempt ended, with a look at the repositories: a routine must not remove one. After a failure, what was renamed is moved back
/// before the change is recorded.
pub(super) fn check_attempt(batch: &mut ActiveBatch<'_>, run: &RunDir, ending: Ending) -> Ending {
    let Some(held) = &batch.uncaptured else { return ending };
    let lost = held.state.lost_repositories(batch.context.workspace.root());
    let ending = match ending {
        Ending::Succeeded if !lost.is_empty() => {
            Ending::Policy { violations: lost.iter().map(LostRepository::violation).collect() }
        }
        ending => ending,
    };
    if ending != Ending::Succeeded {
        move_back(batch, run);
    }
    ending
}

/// Reserves the room that likely secrets need again, before another attempt.
pub(super) fn reserve_room(batch: &ActiveBatch<'_>) {
    if let Some(held) = &batch.uncaptured {
        held.state.reserve_room(batch.context.workspace.root());
    }
}

/// Moves renamed directories back; returns whether any was.
pub(super) fn move_back(batch: &mut ActiveBatch<'_>, run: &RunDir) -> bool {
    let Some(held) = &mut batch.uncaptured else { return false };
    let set_aside = run.checkpoint().quarantine_dir();
    let moved = held.state.move_back(batch.context.workspace.root(), &set_aside, &|_| true);
    let is_any = !moved.moved_back.is_empty();
    held.report.absorb(moved);
    is_any
}

/// After decree was killed: moves entries back that had been renamed, before the tree is compared.
pub(super) fn move_left_entries(batch: &mut ActiveBatch<'_>, run: &RunDir) {
    if batch.uncaptured.is_none() {
        let (id, set_aside) = (run.id().to_string(), run.checkpoint().quarantine_dir());
        for text in uncaptured::move_left_entries(batch.context.layout, &id, &set_aside, &|_| true) {
            batch.warn(&text);
        }
    }
}

/// Notes which likely secrets an attempt left in the tree.
pub(super) fn note_present(batch: &mut ActiveBatch<'_>, manifest: &Manifest, secrets: &[TreePath]) {
    if let Some(held) = &mut batch.uncaptured {
        held.state.note_present(secrets, &manifest.tree);
    }
}

/// Restores likely secrets before anything else, after an error inside decree: whatever fails next, they are not lost. Returns what became of
/// each, for people.
pub(super) fn restore_first(batch: &mut ActiveBatch<'_>, run: &RunDir, manifest: &Manifest) -> Vec<String> {
    note_all_present(batch, manifest);
    let Some(held) = &mut batch.uncaptured else { return Vec::new() };
    let set_aside = run.checkpoint().quarantine_dir();
    let report = held.state.restore_secrets(batch.context.workspace.root(), &set_aside);
    let mut lines: Vec<String> = report.not_restored.iter().map(NotRestored::line).collect();
    held.report.absorb(report);
    lines.extend(held.report.secret_lines());
    lines
}

/// Looks which likely secrets are in the tree. If that fails, those that were last seen count.
fn note_all_present(batch: &mut ActiveBatch<'_>, manifest: &Manifest) {
    if let Ok(secrets) = batch.context.workspace.likely_secrets(manifest) {
        note_present(batch, manifest, &secrets);
    }
}

/// Restores what is held after the tree was reverted, also if that failed.
pub(super) fn restore(
    batch: &mut ActiveBatch<'_>,
    run: &RunDir,
    manifest: &Manifest,
    reverted: Result<RevertRecord>,
) -> Result<RevertRecord> {
    let (layout, root) = (batch.context.layout, batch.context.workspace.root());
    let id = run.id().to_string();
    let after_kill = || HeldForRun {
        state: UncapturedState::after_kill(layout, root, &manifest.coverage, &id),
        report: UncapturedReport::default(),
    };
    let was_killed = batch.uncaptured.is_none();
    let held = batch.uncaptured.take().unwrap_or_else(after_kill);
    batch.uncaptured = Some(held);
    if was_killed {
        let set_aside = run.checkpoint().quarantine_dir();
        for (path, to) in collect_leftovers(batch.context.workspace, manifest, &set_aside) {
            let to = batch.context.layout.shown(&to);
            batch.warn(&format!(
                "{path} is what a killed decree left of restoring a likely secret; it is now {to}"
            ));
        }
        note_all_present(batch, manifest);
    }
    let mut held = batch.uncaptured.take().expect("it was set above");
    let places = reverted.as_ref().map_or(&[][..], |record| &record.places);
    let shown = |place: PathBuf| batch.context.layout.shown(&place);
    let set_aside = run.checkpoint().quarantine_dir();
    let mut report =
        held.state.restore(root, &set_aside, &|_| true, &|path| place_of(places, path).map(shown));
    for change in &mut report.secrets {
        change.set_aside = change.set_aside.take().map(|place| batch.context.layout.shown(place.as_ref()));
    }
    let not_restored = report.not_restored.clone();
    held.report.absorb(report);
    let moved_back = held.report.moved_back.clone();
    batch.uncaptured = Some(held);
    match reverted {
        Ok(mut reverted) => {
            reverted.drop_moved_back();
            reverted.not_restored.extend(not_restored);
            Ok(RevertRecord { moved_back, ..reverted })
        }
        Err(error) => {
            let lost = not_restored.iter().map(NotRestored::line).collect();
            Err(error.details(lost, 20))
        }
    }
}

/// Where a revert moved a path, or the directory that it was in.
fn place_of(places: &[(TreePath, PathBuf)], path: &TreePath) -> Option<PathBuf> {
    places.iter().find_map(|(moved, to)| {
        if moved == path {
            return Some(to.clone());
        }
        let rest = path.as_path().strip_prefix(moved.as_path()).ok()?;
        Some(to.join(rest))
    })
}

/// Adds what was restored, and what was not, to the record of a run that was reverted.
pub(super) fn report_reverted(batch: &mut ActiveBatch<'_>, record: &mut RunRecord) {
    interrupt::set_last_act(None);
    let Some(mut held) = batch.uncaptured.take() else { return };
    held.state.release();
    for text in held.report.reverted_warnings() {
        batch.warn_in(record, text);
    }
    record.secrets = held.report.secrets;
}

/// Adds what is not as it was to the record of a run that is kept.
pub(super) fn report_kept(batch: &mut ActiveBatch<'_>, record: &mut RunRecord) {
    interrupt::set_last_act(None);
    let Some(mut held) = batch.uncaptured.take() else { return };
    let (report, warnings) = held.state.kept(batch.context.workspace.root());
    held.state.release();
    for text in warnings {
        batch.warn_in(record, text);
    }
    record.secrets = report.secrets;
}

/// The likely secrets that a run's record reports, spelled as in `result.json`.
pub(super) fn reported(record: &RunRecord) -> BTreeSet<String> {
    record.secrets.iter().map(|change| change.path.clone()).collect()
}

/// The error of a batch after which something is not as it was.
pub fn not_restored_error(summary: &Summary) -> Option<Error> {
    not_restored(&summary.messages)
}

pub(super) fn not_restored(messages: &[MessageSummary]) -> Option<Error> {
    let mut lines = Vec::new();
    for message in messages {
        for lost in message.run.reverted.iter().flat_map(|record| &record.not_restored) {
            lines.push(format!("{} (run {})", lost.line(), message.id.as_deref().unwrap_or("–")));
        }
    }
    (!lines.is_empty()).then(|| {
        Error::integrity("a failed run left something that is not restored").details(lines, 20).hint(
            "restore it from a backup or from where it came from, or as root; every other file of the checkpoint is as it was",
        )
    })
}
