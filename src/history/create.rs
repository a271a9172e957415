//! Creates a checkpoint, and deletes one that does not verify.

use super::HistoryContext;
use super::contents_report::ContentsReport;
use super::kind;
use super::lookup::RunOrCheckpoint;
use super::payload::CheckpointKind;
use super::remove::{SetAsideRule, remove};
use super::scope::ScopeWords;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::error::Result;

/// Makes a checkpoint, and reports what it holds of what it was made for. With `read_back`, it is then read from disk as a later
/// rollback reads it, and deleted if it does not verify. The caller holds the project's lock.
pub fn create(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
    read_back: bool,
) -> Result<(SavedCheckpoint, ContentsReport)> {
    let saved = create_once(context, kind, words, label, read_back);
    // The content of a file that is in the tree was damaged in the store. It is known now, so a second capture reads the file again.
    if saved.is_err() && read_back && context.workspace.store().has_damaged_contents() {
        return create_once(context, kind, words, label, read_back);
    }
    saved
}

fn create_once(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
    read_back: bool,
) -> Result<(SavedCheckpoint, ContentsReport)> {
    let (saved, report) = kind::create(context, kind, words, label)?;
    if read_back {
        kind::verify(context, &RunOrCheckpoint::Checkpoint(saved.dir.clone())).inspect_err(|_| {
            let _ =
                remove(context.layout, &saved.dir, Some("it did not verify".to_owned()), SetAsideRule::Keep);
        })?;
    }
    Ok((saved, report))
}
