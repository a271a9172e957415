//! Applying a recorded diff to a tree that is not what the diff expects: afterwards every path of the diff is what the run left, whatever
//! was there. The caller saves the present tree first.
//!
//! The difference between the present and what the run left is written as a diff of its own, and restored like any other: staged,
//! verified, all or nothing.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::Path;

use super::attributes::AttributeChange;
use super::checkpoint_dir::CheckpointDir;
use super::compare::Change;
use super::content_source::ContentSource;
use super::entry::Node;
use super::patch::parse::{Patch, Recipe};
use super::patch::rebuild::{Direction, rebuild};
use super::patch::write::PatchWriter;
use super::path::TreePath;
use super::restore::{
    Obstacle, ObstacleKind, PathEffect, RestoreAction, RestoreLog, RestoreOutcome, RestorePreview,
    RestoreRequest,
};
use super::secret_stamp::SecretFiles;
use super::store::Store;
use super::unlocked_dirs::{UnlockedDirs, agrees};
use super::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::{AtomicFile, TEMPORARY};
use crate::fs::random_hex;
use crate::fs::sparse::SparseWriter;
use crate::interrupt::Interruptible;

impl CheckpointDir {
    /// Applies the recorded diff, and overwrites what is at its paths.
    pub fn apply_forced(&self, workspace: &Workspace, log: &dyn RestoreLog) -> Result<RestoreOutcome> {
        let diff = workspace.scratch.join(format!("{TEMPORARY}{}.diff", random_hex()));
        let applied = self.apply_through(workspace, &diff, log);
        let _ = fs::remove_file(&diff);
        applied
    }

    /// Why [`CheckpointDir::apply_forced`] would fail, by path: what is there cannot be saved, or what the run left cannot be rebuilt.
    pub fn forced_obstacles(&self, workspace: &Workspace, preview: &RestorePreview) -> Result<Vec<Obstacle>> {
        let mut obstacles = Vec::new();
        let mut secrets = Vec::new();
        if preview.paths.iter().any(|path| path.overwrites) {
            secrets = workspace.secrets_left_out(&self.touched()?)?;
        }
        for (record, previewed) in self.patch()?.records.iter().zip(&preview.paths) {
            let path = &previewed.path;
            if previewed.overwrites && secrets.binary_search(path).is_ok() {
                let why = "a likely secret is there, which no checkpoint holds".to_owned();
                obstacles.push(Obstacle { path: path.clone(), why, kind: ObstacleKind::InTheWay });
            }
            // What the diff expects is in the tree, and is saved with it.
            let differs = matches!(previewed.effect, PathEffect::Conflict(_)) && !previewed.is_there;
            let Change { before: Some(before), after: Some(after), .. } = &record.change else { continue };
            let has = |node: &Node| ContentSource::open(&workspace.store, path, node).is_ok();
            if differs
                && matches!(record.forward, Recipe::Hunks(_) | Recipe::Same)
                && !has(after)
                && !has(before)
            {
                let why = "cannot be rebuilt, because the store does not have what it was before the run";
                let kind = ObstacleKind::NotRebuildable;
                obstacles.push(Obstacle { path: path.clone(), why: why.to_owned(), kind });
            }
        }
        Ok(obstacles)
    }

    fn apply_through(
        &self,
        workspace: &Workspace,
        diff: &Path,
        log: &dyn RestoreLog,
    ) -> Result<RestoreOutcome> {
        let patch = self.patch()?;
        let changes = changes_now(workspace, &patch)?;
        if changes.is_empty() {
            return Ok(RestoreOutcome::AlreadyThere);
        }
        let recorded = File::open(&patch.path).at("read", &patch.path)?;
        let new = RecordedContent {
            patch: &patch,
            diff: &recorded,
            store: &workspace.store,
            scratch: &workspace.scratch,
        };
        fs::create_dir_all(&workspace.scratch).at("create", &workspace.scratch)?;
        let mut file = AtomicFile::create(diff)?;
        PatchWriter { old: &workspace.root, new: &new, scratch: &workspace.scratch }
            .write(&mut file, &changes)
            .map_err(|error| error.detail("nothing was touched"))?;
        file.commit()?;
        workspace.restore(&RestoreRequest {
            patch: &Patch::read(diff)?,
            direction: Direction::Forward,
            action: RestoreAction::Apply,
            subject: self.id(),
            out_of_scope: &[],
            secret_files: &SecretFiles::new(),
            quarantine_dir: self.quarantine_dir(),
            log,
        })
    }
}

/// What has to change so that every path of a diff is what it is after it.
fn changes_now(workspace: &Workspace, patch: &Patch) -> Result<Vec<Change>> {
    let root = &workspace.root;
    let paths = patch.records.iter().map(|record| &record.change.path);
    let unlocked = UnlockedDirs::above(root, paths).at("read", root.path())?;
    let mut changes = Vec::new();
    for Change { path, after, attributes, .. } in patch.records.iter().map(|record| &record.change) {
        let mut before = unlocked.present(path).at("read", path)?;
        // A directory that is there only because of what is in it: the diff has no entry for it, and may empty it.
        if agrees(root, path, before.as_ref(), None)? {
            before = None;
        }
        let mut given = None;
        if let Some(change) = attributes {
            let now = root.attributes(path).at("read", path)?;
            given = AttributeChange::between(now, change.after.clone());
        }
        if before != *after || given.is_some() || after.is_some_and(|after| after.is_dir()) {
            changes.push(Change { path: path.clone(), before, after: *after, attributes: given });
        }
    }
    Ok(changes)
}

/// What a run left, from the store or rebuilt from the run's diff.
struct RecordedContent<'r> {
    patch: &'r Patch,
    diff: &'r File,
    store: &'r Store,
    scratch: &'r Path,
}

impl ContentSource for RecordedContent<'_> {
    fn open(&self, path: &TreePath, node: &Node) -> Result<Box<dyn Read + '_>> {
        let record = self.patch.find(path);
        let record = record.ok_or_else(|| Error::integrity(format!("{path} is not in the diff")))?;
        let mut before: Box<dyn Read> = match (&record.forward, &record.change.before) {
            (Recipe::Hunks(_) | Recipe::Same, Some(before)) => {
                if let Ok(content) = ContentSource::open(self.store, path, node) {
                    return Ok(content);
                }
                ContentSource::open(self.store, path, before).map_err(|error| {
                    Error::failed(format!(
                        "{path} cannot be rebuilt: the store does not have what it was before the run"
                    ))
                    .detail(error.to_string())
                })?
            }
            _ => Box::new(io::empty()),
        };
        let spool = self.scratch.join(format!("{TEMPORARY}{}", random_hex()));
        let file =
            File::options().read(true).write(true).create_new(true).open(&spool).at("create", &spool)?;
        fs::remove_file(&spool).at("remove", &spool)?;
        let mut file = SparseWriter::new(file);
        rebuild(&record.forward, Direction::Forward, self.diff, &mut before, &mut file)
            .map_err(|error| error.into_error("rebuild", path))?;
        let (mut file, _) = file.finish().at("write", &spool)?;
        file.rewind().at("read", &spool)?;
        Ok(Box::new(Interruptible(file)))
    }
}
