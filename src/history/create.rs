//! Making a checkpoint of any type.

use super::HistoryContext;
use super::contents_report::ContentsReport;
use super::kind::{database, stash, state, tree};
use super::payload::CheckpointTarget;
use super::record::CheckpointRecord;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::Result;

/// A new checkpoint, and what it holds of what it was made for.
pub struct CreatedCheckpoint {
    pub record: CheckpointRecord,
    pub dir: CheckpointDir,
    pub report: ContentsReport,
    /// What the user has to know before anything happens to what is not protected.
    pub warnings: Vec<String>,
}

/// Makes a checkpoint. The caller holds the project's lock.
pub fn create(
    context: HistoryContext<'_>,
    target: &CheckpointTarget,
    label: &CheckpointLabel,
) -> Result<CreatedCheckpoint> {
    let layout = context.layout;
    let (SavedCheckpoint { record, dir }, report, warnings) = match target {
        CheckpointTarget::Tree(scope) => {
            let (saved, manifest) = tree::save(context, label, scope)?;
            (saved, tree::describe(layout, &manifest, scope), tree::warnings(layout, &manifest, scope))
        }
        CheckpointTarget::Stash(scope) => {
            let (saved, manifest) = stash::save(context, label, scope)?;
            let (report, warnings) = stash::describe(layout, &manifest, scope)?;
            (saved, report, warnings)
        }
        CheckpointTarget::State(keys) => {
            let (saved, state) = state::save(context, label, keys)?;
            let warning = |name: &String| format!("not in the checkpoint: {name}");
            let warnings = state.left_out.iter().map(warning).collect();
            (saved, state.describe(), warnings)
        }
        CheckpointTarget::Databases(targets) => {
            let saved = database::save(context, label, targets, false)?;
            let (report, warnings) = database::describe(&saved.record);
            (saved, report, warnings)
        }
    };
    Ok(CreatedCheckpoint { record, dir, report, warnings })
}
