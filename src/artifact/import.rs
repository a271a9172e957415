//! Imports runs of an artifact into this project, and applies them. From then on they can be shown, applied and reverted like
//! runs of this project.

use std::fs;
use std::path::Path;

use super::source::{ArtifactSource, StagedRun};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::restore::is_recovery_needed;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::fs::random_hex;
use crate::history::HistoryContext;
use crate::humanize::count;
use crate::interrupt;
use crate::pipeline::{RevertRecord, RunResult};
use crate::project::Layout;

/// How many zeros a diff may state as numbers: they take no room in the artifact and hardly any on the disk, but time.
const MOST_ZEROS: u64 = 64 << 30;

/// Imports the runs and applies them one by one, because a run can depend on the changes of the one before. A run that was not
/// kept is only imported, unless `even_reverted`. Calls `apply` for each that has to be applied, and returns how many were.
pub fn import_and_apply(
    context: HistoryContext<'_>,
    source: &mut ArtifactSource,
    runs: &[StagedRun],
    even_reverted: bool,
    apply: impl Fn(&CheckpointDir) -> Result<()>,
) -> Result<usize> {
    let HistoryContext { layout, workspace, progress, .. } = context;
    let mut applied = 0;
    for run in runs {
        let outcome = import(layout, source, run).and_then(|(dir, is_new)| {
            if !even_reverted && !RunResult::read(&dir)?.is_some_and(|result| result.run.kept) {
                return Ok(());
            }
            // To revert the run later, this project's store needs the content from before it.
            let done = workspace.capture(progress).and_then(|_| apply(&dir));
            // It would be listed as a run that was reverted here.
            if done.is_err() && is_new && !is_needed(layout, &dir) {
                let _ = fs::remove_dir_all(dir.dir());
            }
            done?;
            applied += 1;
            Ok(())
        });
        outcome.map_err(|error| match applied {
            0 => interrupt::name_unchanged(error),
            n => {
                let still = format!("still applied: {} before it", count(n, "run"));
                error.without_detail("nothing was touched").detail(still)
            }
        })?;
    }
    Ok(applied)
}

/// Whether a run that could not be applied has to stay: its restore is not over, or may be done, or has set something aside.
fn is_needed(layout: &Layout, run: &CheckpointDir) -> bool {
    let is_reverted = RunResult::read(run).is_ok_and(|it| it.is_some_and(|it| it.run.reverted.is_some()));
    !is_reverted || run.quarantine_dir().exists() || is_recovery_needed(&layout.scratch())
}

/// Calls `visit` with each run that would be applied, in a directory that is removed afterwards. Nothing is imported.
pub fn visit_extracted(
    layout: &Layout,
    source: &mut ArtifactSource,
    runs: &[StagedRun],
    even_reverted: bool,
    mut visit: impl FnMut(&CheckpointDir) -> Result<()>,
) -> Result<()> {
    let dir = layout.scratch().join(format!("{TEMPORARY}{}", random_hex()));
    let mut visit_all = || {
        for run in runs {
            let place = dir.join(run.id.to_string());
            fs::create_dir_all(&place).at("create", &place)?;
            source.extract(run, &place)?;
            let extracted = CheckpointDir::new(run.id.to_string(), place);
            check_record(run, &extracted)?;
            check_size(&extracted)?;
            if even_reverted || RunResult::read(&extracted)?.is_some_and(|result| result.run.kept) {
                visit(&extracted)?;
            }
        }
        Ok(())
    };
    let visited = visit_all();
    let _ = fs::remove_dir_all(&dir);
    visited
}

/// Imports a run, and says whether it is new here. A run that exists with the same diff stays unchanged; with another diff it is an
/// error.
fn import(layout: &Layout, source: &mut ArtifactSource, run: &StagedRun) -> Result<(CheckpointDir, bool)> {
    let runs = layout.runs();
    let (place, unfinished) = (runs.join(run.id.to_string()), runs.join(format!("{TEMPORARY}{}", run.id)));
    fs::create_dir_all(&runs).at("create", &runs)?;
    let is_new = !place.exists();
    let _ = fs::remove_dir_all(&unfinished);
    fs::create_dir(&unfinished).at("create", &unfinished)?;
    let imported = source.extract(run, &unfinished).and_then(|()| accept(run, &unfinished, &place));
    if imported.is_err() || place.exists() && unfinished.exists() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    imported?;
    atomic::sync_dir(&runs)?;
    Ok((CheckpointDir::new(run.id.to_string(), place), is_new))
}

fn check_record(run: &StagedRun, extracted: &CheckpointDir) -> Result<()> {
    if extracted.has_change_record() {
        return Ok(());
    }
    Err(Error::failed(format!("the artifact does not contain the changes.diff of run {}", run.id))
        .hint("left-out.txt in the artifact says why, if it was left out"))
}

/// Reads the diff of an extracted run, and refuses one that a few bytes would make very large.
fn check_size(extracted: &CheckpointDir) -> Result<()> {
    if extracted.patch()?.stated_zeros <= MOST_ZEROS {
        return Ok(());
    }
    Err(Error::failed(format!("the sparse files of run {} have more than 64 GiB", extracted.id()))
        .detail("nothing was touched"))
}

fn accept(run: &StagedRun, unfinished: &Path, place: &Path) -> Result<()> {
    let extracted = CheckpointDir::new(run.id.to_string(), unfinished);
    check_record(run, &extracted)?;
    // The diff has to match its hashes before the run gets its final name.
    check_size(&extracted)?;
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
    result.in_tree.clear();
    result.write(&extracted)?;
    fs::rename(unfinished, place).at("write", place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::hash::ContentHash;

    /// ART-20.
    #[test]
    fn a_diff_of_a_few_bytes_that_states_very_many_zeros_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let extracted = CheckpointDir::new("2026111603100000-0".to_owned(), dir.path().to_owned());
        for (zeros, is_accepted) in
            [(1 << 36, true), ((1 << 36) + 4096, false), ((1 << 63) - 4096, false), (u64::MAX - 4095, false)]
        {
            let hash = ContentHash::of(b"");
            let text = format!(
                "# decree-diff 1\n# decree-binary \"zeros\" old=- new={hash} size=-:{zeros} mode=-:100644\n\
                 # new\n# zeros {zeros}\n# end\n"
            );
            let end = ContentHash::of(text.as_bytes());
            let diff = format!("{text}# decree-end changes=1 sha256={end}\n");
            atomic::write(&extracted.diff_path(), diff.as_bytes()).unwrap();
            assert_eq!(extracted.patch().unwrap().stated_zeros, zeros);
            let checked = check_size(&extracted);
            assert_eq!(checked.is_ok(), is_accepted, "{zeros}");
            assert!(is_accepted || checked.unwrap_err().to_string().contains("more than 64 GiB"));
        }
    }
}
