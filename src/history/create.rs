//! Creates a checkpoint, and deletes one that does not verify.

use super::HistoryContext;
use super::contents_report::{ContentsReport, FileList};
use super::kind::{self, tree_report};
use super::payload::CheckpointKind;
use super::remove::{SetAsideRule, remove};
use super::scope::ScopeWords;
use super::writer::{CheckpointLabel, SavedCheckpoint};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::verify::Verification;
use crate::error::Result;

/// How often a checkpoint is made that does not verify because the store was damaged before.
const MAX_TRIES: u32 = 4;

/// A checkpoint that was made, and verified unless that was not wanted.
pub struct CompletedCheckpoint {
    pub saved: SavedCheckpoint,
    /// What it holds of what it was made for.
    pub report: ContentsReport,
    pub verification: Verification,
    manifest: Option<Manifest>,
}

impl CompletedCheckpoint {
    /// The names of the files within the scope, as the manifest spells them.
    pub fn file_names(&self) -> Vec<String> {
        let scope = self.saved.record.payload.tree_scope();
        match (&self.report.files, &self.manifest, scope) {
            (FileList::Names(names), ..) => names.clone(),
            (FileList::InManifest(_), Some(manifest), Some(scope)) => {
                tree_report::file_names(manifest, scope)
            }
            (FileList::InManifest(_), ..) => Vec::new(),
        }
    }
}

/// Makes a checkpoint. With `read_back`, it is then verified, and deleted if it does not verify. The caller holds the project's lock.
pub fn create(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
    read_back: bool,
) -> Result<CompletedCheckpoint> {
    let mut tries = 0;
    loop {
        let created = create_once(context, kind, words, label, read_back);
        tries += 1;
        // What was damaged in the store is known now, so the next capture reads those files again. The parts of a manifest are found to
        // be damaged level by level.
        let is_over = created.is_ok() || !read_back || !context.workspace.store().has_damaged_contents();
        if is_over || tries == MAX_TRIES {
            return created;
        }
    }
}

fn create_once(
    context: HistoryContext<'_>,
    kind: CheckpointKind,
    words: &ScopeWords,
    label: &CheckpointLabel,
    read_back: bool,
) -> Result<CompletedCheckpoint> {
    let created = kind::create(context, kind, words, label)?;
    let mut verification = Verification::Unverified;
    if read_back {
        verification = kind::verify_new(context, &created).inspect_err(|_| {
            let (dir, why) = (&created.saved.dir, "it did not verify".to_owned());
            let _ = remove(context.layout, dir, Some(why), SetAsideRule::Keep);
        })?;
    }
    let kind::CreatedCheckpoint { saved, report, manifest } = created;
    Ok(CompletedCheckpoint { saved, report, verification, manifest })
}
