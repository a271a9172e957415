//! A run from elsewhere becomes one of this project's: what it changed is not in this tree yet, and can be applied,
//! looked at and reverted as if it had been made here.

use std::fs;

use super::source::{ArtifactSource, StagedRun};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::pipeline::{RevertRecord, RunResult};
use crate::project::Layout;

/// Takes a run in. One that is here already stays as it is, if it says the same.
pub fn import(layout: &Layout, source: &mut ArtifactSource, run: &StagedRun) -> Result<CheckpointDir> {
    let runs = layout.runs();
    let (place, unfinished) = (runs.join(run.id.to_string()), runs.join(format!("{TEMPORARY}{}", run.id)));
    fs::create_dir_all(&runs).at("create", &runs)?;
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir(&unfinished).at("create", &unfinished)?;
    let taken = source.extract(run, &unfinished).and_then(|()| settle(run, &unfinished, &place));
    if taken.is_err() || place.exists() && unfinished.exists() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    taken?;
    atomic::sync_dir(&runs)?;
    Ok(CheckpointDir::new(run.id.to_string(), place))
}

fn settle(run: &StagedRun, unfinished: &std::path::Path, place: &std::path::Path) -> Result<()> {
    let taken = CheckpointDir::new(run.id.to_string(), unfinished);
    if !taken.has_change_record() {
        return Err(Error::failed(format!("the artifact does not hold the changes.diff of run {}", run.id))
            .hint("left-out.txt in the artifact says why, if it was left out"));
    }
    // It has to prove itself before it gets a name here.
    taken.patch()?;
    if place.exists() {
        let here = CheckpointDir::new(run.id.to_string(), place).diff_path();
        let same = fs::read(&here).at("read", &here)?
            == fs::read(taken.diff_path()).at("read", taken.diff_path())?;
        return match same {
            true => Ok(()),
            false => Err(Error::failed(format!("there is another run {} here already", run.id))
                .detail("its changes.diff is not the one in the artifact; nothing was touched")),
        };
    }
    let Some(mut result) = RunResult::read(&taken.result_path())? else {
        return Err(Error::project(format!("run {} has no result.json in the artifact", run.id)));
    };
    // Not in this tree until it is applied; `apply` takes this away again.
    result.story.put_back.get_or_insert_with(RevertRecord::default);
    result.write(&taken.result_path())?;
    fs::rename(unfinished, place).at("write", place)
}
