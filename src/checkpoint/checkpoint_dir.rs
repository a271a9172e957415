//! A checkpoint on disk: `manifest.json`, and, once it is known what happened since, `changes.diff` and
//! `result.json`. Runs and users' checkpoints are both such directories.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::change_record::{ChangeRecord, ResultFile, damaged};
use super::compare::Changes;
use super::coverage::PathText;
use super::entry::describe;
use super::manifest::Manifest;
use super::patch::parse::Patch;
use super::patch::rebuild::Direction;
use super::patch::write::{ChangeCount, PatchWriter};
use super::progress::Progress;
use super::quote;
use super::restore::{RestoreOutcome, RestoreRequest};
use super::tree::Part;
use super::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::json;
use crate::fs::quarantine::free_name;

/// How often a diff is begun anew because a file changed under it.
const TRIES: u32 = 3;

/// How many entries a thread verifies at a time.
const VERIFY_AT_ONCE: usize = 64;

/// A checkpoint's directory.
#[derive(Clone, Debug)]
pub struct CheckpointDir {
    id: String,
    dir: PathBuf,
}

impl CheckpointDir {
    pub const MANIFEST: &str = "manifest.json";
    pub const DIFF: &str = "changes.diff";
    pub const RESULT: &str = "result.json";
    /// Where a revert moves files that are in its way and that no checkpoint holds.
    pub const SET_ASIDE: &str = "set-aside";
    /// What was recorded before, by number.
    pub const PREVIOUS: &str = "previous";

    /// The checkpoint `id` in `dir`.
    pub fn new(id: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        CheckpointDir { id: id.into(), dir: dir.into() }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The tree as it was.
    pub fn manifest_path(&self) -> PathBuf {
        self.dir.join(Self::MANIFEST)
    }

    /// What happened since.
    pub fn diff_path(&self) -> PathBuf {
        self.dir.join(Self::DIFF)
    }

    /// The same in numbers.
    pub fn result_path(&self) -> PathBuf {
        self.dir.join(Self::RESULT)
    }

    pub fn set_aside_dir(&self) -> PathBuf {
        self.dir.join(Self::SET_ASIDE)
    }

    /// Whether it is recorded what happened since.
    pub fn is_sealed(&self) -> bool {
        self.diff_path().exists()
    }

    /// Reads the manifest.
    pub fn manifest(&self) -> Result<Manifest> {
        Manifest::read(&self.manifest_path()).map_err(|error| match self.dir.symlink_metadata() {
            Err(_) => Error::project(format!("{} was deleted meanwhile", self.id)),
            Ok(_) => error,
        })
    }

    /// Compares the tree with the checkpoint and records what changed: the diff first, then the result.
    /// Returns `None`, and writes nothing, if nothing changed and `even_if_empty` is not set.
    pub fn seal(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
        even_if_empty: bool,
        progress: &dyn Progress,
    ) -> Result<Option<ChangeRecord>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let changes = workspace.compare(manifest, progress)?;
            if changes.list.is_empty() && changes.beside.is_empty() && !even_if_empty {
                return Ok(None);
            }
            let mut file = AtomicFile::create(self.diff_path())?;
            match workspace.write_diff(&changes, &mut file) {
                Ok(counts) => {
                    if !file.is_same_as_target()? {
                        self.keep_previous()?;
                        file.commit()?;
                    }
                    let seal = ChangeRecord::new(&self.id, manifest, &changes, &counts);
                    json::write_pretty(&self.result_path(), &seal)?;
                    return Ok(Some(seal));
                }
                // Something changed the tree meanwhile; look again.
                Err(error) if tries < TRIES && error.io_kind() == Some(std::io::ErrorKind::InvalidData) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What was recorded before moves to `previous/<k>/`; nothing is lost.
    fn keep_previous(&self) -> Result<()> {
        if !self.is_sealed() {
            return Ok(());
        }
        let previous = self.dir.join(Self::PREVIOUS);
        let place = free_name(|number| previous.join(number.to_string()));
        fs::create_dir_all(&place).at("create", &place)?;
        // The result first: a diff without one is still whole.
        for path in [self.result_path(), self.diff_path()] {
            let name = path.file_name().expect("they are files");
            match fs::rename(&path, place.join(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => result.at("move", &path)?,
            }
        }
        Ok(())
    }

    /// Puts back what the recorded diff changed.
    pub fn revert(&self, workspace: &Workspace, manifest: &Manifest) -> Result<RestoreOutcome> {
        let patch = Patch::read(&self.diff_path())?;
        let wrong = patch
            .records
            .iter()
            .filter(|record| manifest.tree.get(&record.change.path) != record.change.before)
            .map(|record| {
                let path = &record.change.path;
                let held = manifest.tree.get(path);
                format!(
                    "{path}: the diff has {}, the checkpoint {}",
                    describe(record.change.before.as_ref()),
                    describe(held.as_ref())
                )
            })
            .collect();
        self.refuse("does not belong to its manifest", wrong)?;
        let beside = match self.result()? {
            Some(seal) => {
                self.check_result(&seal, &patch)?;
                seal.beside_paths()
            }
            None => Vec::new(),
        };
        workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Back,
            what: format!("revert {}", self.id),
            beside: &beside,
            aside_dir: self.set_aside_dir(),
        })
    }

    /// The recorded diff, if it and the result tell the same story.
    pub fn patch(&self) -> Result<Patch> {
        let patch = Patch::read(&self.diff_path())?;
        if let Some(seal) = self.result()? {
            self.check_result(&seal, &patch)?;
        }
        Ok(patch)
    }

    /// Does again what the recorded diff says.
    pub fn apply(&self, workspace: &Workspace) -> Result<RestoreOutcome> {
        let patch = self.patch()?;
        workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Forth,
            what: format!("apply {}", self.id),
            beside: &[],
            aside_dir: self.set_aside_dir(),
        })
    }

    /// The change record in `result.json`; `None` only if there is no such file. A file without one is damaged.
    pub fn result(&self) -> Result<Option<ChangeRecord>> {
        let path = self.result_path();
        match ResultFile::read(&path)? {
            None => Ok(None),
            Some(ResultFile { changes: Some(changes), .. }) => Ok(Some(changes)),
            Some(_) => Err(damaged(&path, "it does not say what changed")),
        }
    }

    /// The result and the diff have to tell the same story.
    fn check_result(&self, seal: &ChangeRecord, patch: &Patch) -> Result<()> {
        let mut wrong: Vec<String> = patch
            .records
            .iter()
            .filter(|record| {
                let known = seal.changes.get(&*quote::in_json(record.change.path.as_bytes()));
                known.is_none_or(|known| known.after != record.change.after)
            })
            .map(|record| record.change.path.to_string())
            .collect();
        if wrong.is_empty() && seal.changes.len() != patch.records.len() {
            wrong.push(format!(
                "{} paths in result.json, {} in changes.diff",
                seal.changes.len(),
                patch.records.len()
            ));
        }
        self.refuse("does not belong to its result.json", wrong)
    }

    fn refuse(&self, why: &str, wrong: Vec<String>) -> Result<()> {
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::integrity(format!("{} {why}", self.diff_path().display()))
            .details(wrong, 20)
            .detail("nothing was touched"))
    }

    /// Reads every content the checkpoint names out of the store, and says how many there are.
    pub fn verify(&self, workspace: &Workspace, manifest: &Manifest) -> Result<usize> {
        let entries = manifest.tree.len();
        let damaged: Vec<(String, Option<String>)> = manifest
            .tree
            .parts(VERIFY_AT_ONCE)
            .into_par_iter()
            .flat_map_iter(Part::iter)
            .filter_map(|entry| {
                let (hash, _) = entry.node.content()?;
                let result = workspace.store.reader(&hash).and_then(|mut reader| {
                    std::io::copy(&mut reader, &mut std::io::sink()).at("read", workspace.store.dir())
                });
                let error = result.err()?;
                Some((format!("{}: {error}", entry.path()), error.hint_text().map(str::to_owned)))
            })
            .collect();
        if damaged.is_empty() {
            return Ok(entries);
        }
        let count = crate::humanize::count(damaged.len(), "file");
        let (lines, hints): (Vec<String>, Vec<Option<String>>) = damaged.into_iter().unzip();
        let error = Error::integrity(format!("checkpoint {} does not verify: {count} of {entries}", self.id))
            .details(lines, 20);
        // One damaged pack is behind most of them, if not all.
        Err(match hints.into_iter().flatten().next() {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

impl Workspace {
    /// Writes what changed as a diff.
    pub fn write_diff(&self, changes: &Changes<'_>, out: &mut impl Write) -> Result<Vec<ChangeCount>> {
        fs::create_dir_all(&self.scratch).at("create", &self.scratch)?;
        let writer = PatchWriter { old: &self.store, new: &self.root, scratch: &self.scratch };
        writer.write(out, &changes.list).map_err(|error| {
            match error.io_kind() == Some(std::io::ErrorKind::InvalidData) && error.hint_text().is_none() {
                true => error.hint("stop what writes to it, then run the same command again"),
                false => error,
            }
        })
    }
}

/// The paths in a list, as text.
pub fn path_texts(paths: &[PathText]) -> Vec<String> {
    paths.iter().map(|path| path.0.to_string()).collect()
}
