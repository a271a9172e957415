//! git's own state at the end of a run: restored with the tree, or recorded with the change that is kept.

use super::context::ActiveBatch;
use super::result::RunRecord;
use crate::checkpoint::manifest::Manifest;
use crate::error::{Error, Result};
use crate::history::{GitChange, GitRestore, PendingGitRestore, RunDir, git_change_since};

/// Restores HEAD, its branch and the index to the checkpoint, in every repository. `attempt` is the last one before a clean slate. What cannot be restored
/// is a warning, and part of the record: the tree is reverted all the same, and the next command tries again.
pub(super) fn restore_git(
    batch: &mut ActiveBatch<'_>,
    run: &RunDir,
    attempt: Option<u32>,
    manifest: &Manifest,
    record: &mut RunRecord,
) {
    let id = run.id();
    let restore = GitRestore {
        workspace: batch.context.workspace,
        keep_as: attempt.map_or_else(|| id.to_string(), |number| format!("{id}.{number}")),
        reason: format!("decree: run {id} is reverted"),
        dir: run.path(),
    };
    let changes = restore.run(manifest.git_records());
    let noted = PendingGitRestore::note(batch.context.layout, &restore, &format!("run {id}"), &changes);
    if let Err(error) = noted {
        batch.warn(&format!("the next command cannot restore git's own state: {error}"));
    }
    for (_, mut change) in changes {
        change.attempt = attempt;
        for line in change.restored_lines() {
            batch.warn_in(record, line);
        }
        record.git.push(change);
    }
}

/// Refuses the last attempt if git has no clean slate: it would commit on top of what is to be taken back.
pub(super) fn check_clean_slate(run: &RunDir, record: &RunRecord) -> Result<()> {
    let unrestored: Vec<&GitChange> =
        record.git.iter().filter(|change| change.is_unrestored() && !change.restored).collect();
    if unrestored.is_empty() {
        return Ok(());
    }
    let lines = unrestored.iter().flat_map(|change| change.unrestored_lines()).collect();
    Err(Error::integrity(format!(
        "run {} has no clean slate for its last attempt: git's own state is not restored",
        run.id()
    ))
    .details(lines, 20)
    .hint("remove the cause, then run the same command again"))
}

/// Records what a kept run did to git's own state.
pub(super) fn record_git(batch: &mut ActiveBatch<'_>, manifest: &Manifest, record: &mut RunRecord) {
    let Some(before) = &manifest.git else { return };
    let Some(mut change) = git_change_since(batch.context.workspace, before) else { return };
    // Nothing was to be restored here; that the state cannot be read is only worth a warning.
    for why in std::mem::take(&mut change.not_restored) {
        batch.warn_in(record, format!("git's own state is not recorded: {why}"));
    }
    for line in change.kept_lines() {
        batch.note(&format!("  {line}"));
    }
    record.git.push(change);
}
