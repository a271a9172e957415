//! A checkpoint on disk: `manifest.json`, and, once it is known what happened since, `changes.diff` and
//! `result.json`. Runs and users' checkpoints are both such directories.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::compare::{Change, Changes};
use super::coverage::{Coverage, PathText};
use super::entry::{Node, describe};
use super::hash::Hasher;
use super::manifest::Manifest;
use super::patch::parse::Patch;
use super::patch::rebuild::Direction;
use super::patch::write::{ChangeCount, PatchWriter};
use super::path::TreePath;
use super::progress::Progress;
use super::quote;
use super::restore::{RestoreOutcome, RestoreRequest};
use super::tree::Part;
use super::workspace::Workspace;
use crate::error::{Error, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::json;
use crate::fs::quarantine::free_name;

/// The version of `result.json`.
const VERSION: u32 = 1;
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

/// What happened since a checkpoint, in numbers and hashes: `result.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeRecord {
    version: u32,
    /// The checkpoint it belongs to.
    pub id: String,
    /// The combined hash of the tree, before and after.
    pub tree: BeforeAfter,
    /// Lines added in all text files.
    pub added: u64,
    /// Lines removed in all text files.
    pub removed: u64,
    /// Every path in the diff.
    pub changes: BTreeMap<String, PathChange>,
    /// New things that are not in the diff; a revert moves them into `set-aside/`.
    #[serde(default)]
    pub beside: Vec<String>,
    /// What the checkpoint does not hold.
    pub coverage: Coverage,
    /// Of everything above.
    check: Option<String>,
}

/// Two hashes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeforeAfter {
    /// At the checkpoint.
    pub before: String,
    /// Now.
    pub after: String,
}

/// One path in the diff.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathChange {
    /// What was there.
    pub before: Option<Node>,
    /// What the run left there.
    pub after: Option<Node>,
    /// Lines.
    pub added: u64,
    /// Lines.
    pub removed: u64,
    /// Whether the content is binary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

impl ChangeRecord {
    fn new(id: &str, manifest: &Manifest, changes: &Changes<'_>, counts: &[ChangeCount]) -> Self {
        let lines = |pick: fn(&ChangeCount) -> u64| counts.iter().map(pick).sum();
        let mut seal = ChangeRecord {
            version: VERSION,
            id: id.to_owned(),
            tree: BeforeAfter {
                before: manifest.tree.hash().to_string(),
                after: changes.hash_now(&manifest.tree).to_string(),
            },
            added: lines(|count| count.lines.added),
            removed: lines(|count| count.lines.removed),
            changes: changes
                .list
                .iter()
                .zip(counts)
                .map(|(change, count)| path_result(change, count))
                .collect(),
            beside: changes.beside.iter().map(|path| quote::in_json(path.as_bytes()).into_owned()).collect(),
            coverage: manifest.coverage.clone(),
            check: None,
        };
        seal.check = Some(seal.work_out_check());
        seal
    }

    /// Of everything but the check itself. There may be too much of it to write it down for that.
    /// Whether nothing happened at all, not even out of scope.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.beside.is_empty()
    }

    fn work_out_check(&mut self) -> String {
        let check = self.check.take();
        let mut text = BufWriter::new(Hasher::new());
        serde_json::to_writer(&mut text, self).expect("a result is plain data");
        self.check = check;
        let hasher = text.into_inner().map_err(|_| ()).expect("a hash takes everything");
        hasher.finish().0.to_string()
    }

    /// The new things that are not in the diff.
    fn beside_paths(&self) -> Vec<TreePath> {
        self.beside.iter().filter_map(|text| TreePath::beside(&quote::from_json(text)?)).collect()
    }
}

fn path_result(change: &Change, count: &ChangeCount) -> (String, PathChange) {
    let result = PathChange {
        before: change.before,
        after: change.after,
        added: count.lines.added,
        removed: count.lines.removed,
        binary: count.binary,
    };
    (quote::in_json(change.path.as_bytes()).into_owned(), result)
}

impl CheckpointDir {
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
        self.dir.join("manifest.json")
    }

    /// What happened since.
    pub fn diff_path(&self) -> PathBuf {
        self.dir.join("changes.diff")
    }

    /// The same in numbers.
    pub fn result_path(&self) -> PathBuf {
        self.dir.join("result.json")
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
        let previous = self.dir.join("previous");
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
            aside_dir: self.dir.join("set-aside"),
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
            aside_dir: self.dir.join("set-aside"),
        })
    }

    /// Reads `result.json`, if there is one.
    pub fn result(&self) -> Result<Option<ChangeRecord>> {
        let path = self.result_path();
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.at("read", &path)?,
        };
        let damaged = |error: Error| error.detail("nothing was touched");
        let mut seal: ChangeRecord = json::parse(file).at("read", &path)?.map_err(|error| {
            damaged(Error::integrity(format!("{} is damaged", path.display())).caused_by(error))
        })?;
        let check = seal.work_out_check();
        if seal.version != VERSION || seal.check != Some(check) {
            let why = "it is of another version, or was edited";
            return Err(damaged(Error::integrity(format!("{} is damaged: {why}", path.display()))));
        }
        Ok(Some(seal))
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
