//! Imports a run of an artifact into this project. Its changes are not in the tree yet; from then on it can be shown, applied
//! and reverted like a run of this project.

use std::fs;
use std::path::Path;

use super::source::{ArtifactSource, StagedRun};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::pipeline::{RevertRecord, RunResult};
use crate::project::Layout;

/// Imports a run. A run that exists with the same diff stays unchanged; with another diff it is an error.
pub fn import(layout: &Layout, source: &mut ArtifactSource, run: &StagedRun) -> Result<CheckpointDir> {
    let runs = layout.runs();
    let (place, unfinished) = (runs.join(run.id.to_string()), runs.join(format!("{TEMPORARY}{}", run.id)));
    fs::create_dir_all(&runs).at("create", &runs)?;
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir(&unfinished).at("create", &unfinished)?;
    let imported = source.extract(run, &unfinished).and_then(|()| accept(run, &unfinished, &place));
    if imported.is_err() || place.exists() && unfinished.exists() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    imported?;
    atomic::sync_dir(&runs)?;
    Ok(CheckpointDir::new(run.id.to_string(), place))
}

fn accept(run: &StagedRun, unfinished: &Path, place: &Path) -> Result<()> {
    let extracted = CheckpointDir::new(run.id.to_string(), unfinished);
    if !extracted.has_change_record() {
        return Err(Error::failed(format!(
            "the artifact does not contain the changes.diff of run {}",
            run.id
        ))
        .hint("left-out.txt in the artifact says why, if it was left out"));
    }
    // The diff has to match its hashes before the run gets its final name.
    extracted.patch()?;
    if place.exists() {
        let here = CheckpointDir::new(run.id.to_string(), place).diff_path();
        let same = fs::read(&here).at("read", &here)?
            == fs::read(extracted.diff_path()).at("read", extracted.diff_path())?;
        if same {
            return Ok(());
        }
        return Err(Error::failed(format!("another run {} exists here already", run.id))
            .detail("its changes.diff differs from the one in the artifact; nothing was touched"));
    }
    let Some(mut result) = RunResult::read(&extracted)? else {
        return Err(Error::project(format!("run {} has no result.json in the artifact", run.id)));
    };
    // A reverted run: its changes are not in this tree until `apply` removes the mark.
    result.run.reverted.get_or_insert_with(RevertRecord::default);
    result.write(&extracted)?;
    fs::rename(unfinished, place).at("write", place)
}
