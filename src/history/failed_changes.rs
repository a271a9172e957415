//! `git-change.json`: what a failed command did to git's own state, so that `publish` knows its commits. A run has that in its result, except
//! if HEAD could not be read when it was settled.

use std::path::Path;

use super::git_change::GitChange;
use super::lookup::checkpoint_ids;
use crate::error::Result;
use crate::fs::{json, untrusted};
use crate::project::Layout;

/// In the directory of the checkpoint or the run.
const FILE: &str = "git-change.json";

/// Records changes of a failed command in the directory of its checkpoint.
pub(super) fn write(dir: &Path, changes: &[GitChange]) -> Result<()> {
    let moved: Vec<&GitChange> = changes.iter().filter(|change| change.moved()).collect();
    if moved.is_empty() {
        return Ok(());
    }
    json::write_pretty(&dir.join(FILE), &moved)
}

/// Adds one that was found later.
pub(super) fn add(dir: &Path, change: &GitChange) -> Result<()> {
    let mut all = read_failed_changes(dir);
    all.push(change.clone());
    write(dir, &all)
}

/// What failed commands did to git's own state, each with the id of its checkpoint.
pub fn failed_guards(layout: &Layout) -> Result<Vec<(String, GitChange)>> {
    let checkpoints = layout.checkpoints();
    let changes = checkpoint_ids(&checkpoints)?.into_iter().flat_map(|id| {
        let changes = read_failed_changes(&checkpoints.join(&id));
        changes.into_iter().map(move |change| (id.clone(), change))
    });
    Ok(changes.collect())
}

/// The changes in the directory of a checkpoint or a run. A record that cannot be read has nothing to say.
pub fn read_failed_changes(dir: &Path) -> Vec<GitChange> {
    let text = untrusted::read(&dir.join(FILE)).ok();
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
