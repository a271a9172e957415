//! What a killed decree left: files in the tree from restoring likely secrets, and second names of git's objects.

use std::fs;
use std::path::{Path, PathBuf};

use super::held_file::move_aside;
use super::held_record::HeldRecord;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::workspace::Workspace;
use crate::error::Result;
use crate::fs::quarantine::{move_to_free_name, numbered};
use crate::fs::transfer::TEMPORARY_IN_TREE;
use crate::fs::{atomic, untrusted};
use crate::git::state::ObjectLinks;
use crate::project::Layout;

/// Moves them to the quarantine: each has the content of a likely secret, from before or after. Returns where they are now. One that cannot
/// be found or moved stays a likely secret by its name.
pub fn collect_leftovers(
    workspace: &Workspace,
    manifest: &Manifest,
    set_aside: &Path,
) -> Vec<(TreePath, PathBuf)> {
    let secrets = workspace.likely_secrets(manifest).unwrap_or_default();
    let is_leftover = |path: &TreePath| {
        path.name().starts_with(TEMPORARY_IN_TREE.as_bytes()) && !manifest.coverage.excludes(path)
    };
    let leftovers = secrets.into_iter().filter(is_leftover);
    let moved = |path: TreePath| {
        let to = move_aside(workspace.root(), &path, &path, set_aside).ok()?;
        Some((path, to))
    };
    leftovers.filter_map(moved).collect()
}

/// Moves git directories back that were renamed, and restores objects that are gone, from what a killed decree left. The second names of
/// objects stay until the run or the guarded command is settled: something of it may still run. Returns what to report.
pub fn restore_left_objects(layout: &Layout) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let Some(links) = ObjectLinks::left_by_killed(&layout.git_objects(), layout.root()) else {
        return Ok(texts);
    };
    let root = layout.root().canonicalize().unwrap_or_else(|_| layout.root().to_owned());
    for dir in links.move_back(&root) {
        let shown = dir.strip_prefix(&root).unwrap_or(&dir).display().to_string();
        texts.push(format!("decree was killed; {shown} had been renamed, and is moved back"));
    }
    let objects = links.restore();
    if objects.restored > 0 {
        let restored = objects.restored;
        texts.push(format!("decree was killed; {restored} git objects that were gone are restored"));
    }
    if objects.lost.is_empty() && links.foreign().is_empty() {
        let unsettled = [layout.running(), layout.guarding(), layout.guard_failed()];
        if unsettled.iter().all(|record| record.symlink_metadata().is_err()) {
            links.remove()?;
        }
    } else {
        let places = links.foreign().iter().map(|place| format!(" of {}", place.display()));
        let places = places.collect::<Vec<_>>().join(",");
        if let Some(kept) = links.keep()? {
            let kept = layout.shown(&kept);
            texts.push(format!("git objects{places} that could not be restored are kept in {kept}"));
        }
    }
    Ok(texts)
}

/// Restores `running.json` or `guarding.json` if the routine or the guarded command deleted or damaged it before decree was killed: without it,
/// nothing would revert the tree. Returns what to report. The caller holds the project's lock.
pub fn restore_active_record(layout: &Layout) -> Result<Option<String>> {
    let records = [layout.running(), layout.guarding(), layout.guard_failed()];
    let is_whole = |record: &PathBuf| {
        untrusted::read(record).is_ok_and(|text| serde_json::from_slice::<serde_json::Value>(&text).is_ok())
    };
    if records.iter().any(is_whole) {
        return Ok(None);
    }
    let Some(copy) = HeldRecord::read_any(layout).and_then(|record| record.active) else { return Ok(None) };
    let path = if copy.is_guard { layout.guarding() } else { layout.running() };
    let damaged = path.with_extension("json.damaged");
    let moved = move_to_free_name(&path, |number| numbered(&damaged, ".", number))?;
    atomic::write(&path, copy.text.as_bytes())?;
    let shown = layout.shown(&path);
    let what = if moved.is_some() { "damaged" } else { "deleted" };
    Ok(Some(format!("{shown} was {what} while decree worked, before it was killed; it is restored")))
}

/// The run or the guarded command is settled: drops the record, and the second names of objects. What is left of either is not believed for
/// another one, so a failure is none.
pub fn forget_record(layout: &Layout) {
    if let Some(links) = ObjectLinks::left_by_killed(&layout.git_objects(), layout.root()) {
        // They may be the only names.
        let is_whole = links.foreign().is_empty() && links.restore().lost.is_empty();
        let _ = if is_whole { links.remove() } else { links.keep().map(drop) };
    }
    let _ = fs::remove_file(layout.held());
}
