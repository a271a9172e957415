//! A checkpoint on disk: `manifest.json`, and, once it is recorded what changed since, `changes.diff` and
//! `result.json`. Runs and users' checkpoints are both such directories.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::attributes::Attributes;
use super::change_record::{ChangeRecord, ResultFile};
use super::compare::{Change, Changes};
use super::entry::describe;
use super::manifest::Manifest;
use super::patch::parse::Patch;
use super::patch::rebuild::Direction;
use super::patch::write::{ChangeCount, PatchWriter};
use super::progress::Progress;
use super::quote;
use super::restore::{
    PreviewedTree, RestoreAction, RestoreLog, RestoreOutcome, RestorePreview, RestoreRequest,
};
use super::secret_stamp::SecretFiles;
use super::store::Store;
use super::tree::{Entry, Tree, TreeBuilder};
use super::workspace::Workspace;
use crate::error::{Error, ErrorKind, FailureReason, IoContext, Result};
use crate::fs::atomic::AtomicFile;
use crate::fs::quarantine::take_free_name;
use crate::fs::untrusted;

/// How many times a diff is written before a tree that keeps changing is an error.
const MAX_TRIES: u32 = 3;

/// The directory of a checkpoint, and the names in it.
#[derive(Clone, Debug)]
pub struct CheckpointDir {
    id: String,
    dir: PathBuf,
}

impl CheckpointDir {
    /// The tree at the checkpoint.
    pub const MANIFEST: &str = "manifest.json";
    /// What changed since the checkpoint.
    pub const DIFF: &str = "changes.diff";
    /// The same in numbers and hashes.
    pub const RESULT: &str = "result.json";
    /// What made way for a restore.
    pub const SET_ASIDE: &str = "set-aside";
    /// Earlier records, in numbered directories.
    pub const PREVIOUS: &str = "previous";

    /// The checkpoint `id` in `dir`.
    pub fn new(id: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        CheckpointDir { id: id.into(), dir: dir.into() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn manifest_path(&self) -> PathBuf {
        self.dir.join(Self::MANIFEST)
    }

    pub fn diff_path(&self) -> PathBuf {
        self.dir.join(Self::DIFF)
    }

    pub fn result_path(&self) -> PathBuf {
        self.dir.join(Self::RESULT)
    }

    /// The quarantine of restores from this checkpoint.
    pub fn quarantine_dir(&self) -> PathBuf {
        self.dir.join(Self::SET_ASIDE)
    }

    /// Whether it is recorded what changed since the checkpoint.
    pub fn has_change_record(&self) -> bool {
        self.diff_path().exists()
    }

    pub fn manifest(&self, store: &Store) -> Result<Manifest> {
        Manifest::read(&self.manifest_path(), store).map_err(|error| match self.dir.symlink_metadata() {
            Err(_) => Error::project(format!("{} was deleted by another process", self.id)),
            Ok(_) => error,
        })
    }

    /// Compares the tree with the checkpoint and records what changed: the diff first, then the result.
    /// `adjust` may take paths out of the changes first.
    pub fn record_changes(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
        adjust: &dyn Fn(&mut Changes<'_>),
        progress: &dyn Progress,
    ) -> Result<ChangeRecord> {
        self.record_found(None, workspace, manifest, adjust, progress)
    }

    /// The same, if what changed was `found` just now: the tree is compared again only if a file has changed since.
    pub fn record_found<'w>(
        &self,
        mut found: Option<Changes<'w>>,
        workspace: &'w Workspace,
        manifest: &Manifest,
        adjust: &dyn Fn(&mut Changes<'_>),
        progress: &dyn Progress,
    ) -> Result<ChangeRecord> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut changes = match found.take() {
                Some(changes) => changes,
                None => workspace.compare(manifest, progress)?,
            };
            adjust(&mut changes);
            let mut file = AtomicFile::create(self.diff_path())?;
            match workspace.write_diff(&changes, &mut file) {
                Ok(counts) => {
                    if !file.is_same_as_target()? {
                        self.keep_previous()?;
                        file.commit()?;
                    }
                    let secret_files = workspace.secret_files(&changes)?;
                    let record = ChangeRecord::new(&self.id, manifest, &changes, &counts, secret_files);
                    ResultFile::write(&self.result_path(), Some(&record), &serde_json::Map::new())?;
                    return Ok(record);
                }
                // Another process changed the tree after it was compared.
                Err(error) if tries < MAX_TRIES && error.is(FailureReason::ChangedWhileRead) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves the earlier record to `previous/<k>/`, so that nothing is lost.
    fn keep_previous(&self) -> Result<()> {
        if !self.has_change_record() {
            return Ok(());
        }
        let dir = self.create_previous()?;
        // The result first: a diff without a result is still complete.
        for name in [Self::RESULT, Self::DIFF] {
            let path = self.dir.join(name);
            fs::rename(&path, dir.join(name)).if_exists().at("move", &path)?;
        }
        Ok(())
    }

    /// Creates the next `previous/<k>/`.
    pub fn create_previous(&self) -> Result<PathBuf> {
        let dir = self.dir.join(Self::PREVIOUS);
        fs::create_dir_all(&dir).at("create", &dir)?;
        let last = self.previous_numbers()?.last().copied().unwrap_or(0);
        take_free_name(
            |number| dir.join((last + number).to_string()),
            |path| fs::create_dir(path).unless_exists().at("create", path),
        )
    }

    /// The numbers of the directories in `previous/`, the latest last.
    pub fn previous_numbers(&self) -> Result<Vec<u64>> {
        let dir = self.dir.join(Self::PREVIOUS);
        let names = untrusted::names_in(&dir).at("read", &dir)?;
        // A routine may have made others; a number that has 32 bits leaves room for the next ones.
        let number = |name: &OsString| name.to_str()?.parse::<u32>().ok().map(u64::from);
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reverts what the recorded diff changed.
    pub fn revert(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
        action: RestoreAction,
        log: &dyn RestoreLog,
    ) -> Result<RestoreOutcome> {
        let patch = Patch::read(&self.diff_path())?;
        let wrong = patch
            .records
            .iter()
            .filter(|record| !holds_before(manifest, &record.change))
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
        self.reject_mismatches("does not belong to its manifest", wrong)?;
        let (mut out_of_scope, mut secret_files) = (Vec::new(), SecretFiles::new());
        if let Some(record) = self.result()? {
            self.check_result(&record, &patch)?;
            out_of_scope = record.out_of_scope_paths();
            // What is written while a run is reverted at once counts as the run's.
            if action != RestoreAction::PutBack {
                secret_files = record.secret_files();
            }
        }
        let changes = patch.records.iter().map(|record| &record.change);
        out_of_scope.extend(workspace.foreign_journals(changes, manifest));
        let mut outcome = workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Backward,
            action,
            subject: &self.id,
            out_of_scope: &out_of_scope,
            secret_files: &secret_files,
            quarantine_dir: self.quarantine_dir(),
            log,
        })?;
        if let RestoreOutcome::Done(report) = &mut outcome {
            report.note_separated(workspace.root(), &manifest.coverage.hard_links);
        }
        Ok(outcome)
    }

    /// The recorded diff, if it agrees with the result, to apply or to publish: without the paths whose new content it does not have.
    pub fn patch(&self) -> Result<Patch> {
        let mut patch = Patch::read(&self.diff_path())?;
        if let Some(record) = self.result()? {
            self.check_result(&record, &patch)?;
            let withheld = &record.withheld;
            patch.records.retain(|record| {
                let path = &record.change.path;
                !withheld.iter().any(|withheld| *withheld == *quote::in_json(path.as_bytes()))
            });
        }
        Ok(patch)
    }

    /// The paths of the recorded diff.
    pub fn touched(&self) -> Result<Tree> {
        let mut tree = TreeBuilder::default();
        for record in &self.patch()?.records {
            if let Some(node) = record.change.after.or(record.change.before) {
                // A diff whose paths are not sorted is not decree's; a path that is left out is not overwritten.
                let _ = tree.push(Entry::at(&record.change.path, node, Attributes::none()));
            }
        }
        Ok(tree.finish())
    }

    /// What applying the recorded diff would do, after what `earlier` previews left.
    pub fn preview_apply(
        &self,
        workspace: &Workspace,
        earlier: &mut PreviewedTree,
    ) -> Result<RestorePreview> {
        workspace.preview(&self.patch()?, Direction::Forward, earlier)
    }

    /// Applies the recorded diff again.
    pub fn apply(&self, workspace: &Workspace, log: &dyn RestoreLog) -> Result<RestoreOutcome> {
        let patch = self.patch()?;
        workspace.restore(&RestoreRequest {
            patch: &patch,
            direction: Direction::Forward,
            action: RestoreAction::Apply,
            subject: &self.id,
            out_of_scope: &[],
            secret_files: &SecretFiles::new(),
            quarantine_dir: self.quarantine_dir(),
            log,
        })
    }

    /// The change record in `result.json`; `None` only if there is no such file. A file without one is damaged.
    pub fn result(&self) -> Result<Option<ChangeRecord>> {
        let path = self.result_path();
        match ResultFile::read(&path)? {
            None => Ok(None),
            Some(ResultFile { changes: Some(changes), .. }) => Ok(Some(changes)),
            Some(_) => Err(Error::damaged(&path, "it does not say what changed")),
        }
    }

    /// Checks that the result and the diff have the same paths, and leave the same at each.
    fn check_result(&self, record: &ChangeRecord, patch: &Patch) -> Result<()> {
        let mut wrong: Vec<String> = patch
            .records
            .iter()
            .map(|record| &record.change)
            .filter(|change| {
                let known = record.changes.get(&*quote::in_json(change.path.as_bytes()));
                known.is_none_or(|known| known.after != change.after || known.attributes != change.attributes)
            })
            .map(|change| change.path.to_string())
            .collect();
        let (in_result, in_diff) = (record.changes.len(), patch.records.len());
        if wrong.is_empty() && in_result != in_diff {
            wrong.push(format!("{in_result} paths in {}, {in_diff} in {}", Self::RESULT, Self::DIFF));
        }
        self.reject_mismatches(&format!("does not belong to its {}", Self::RESULT), wrong)
    }

    fn reject_mismatches(&self, why: &str, wrong: Vec<String>) -> Result<()> {
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::integrity(format!("{} {why}", self.diff_path().display()))
            .details(wrong, 20)
            .detail("nothing was touched"))
    }
}

/// Whether a checkpoint has what a change says was there before.
fn holds_before(manifest: &Manifest, change: &Change) -> bool {
    let held = manifest.tree.entry(&change.path);
    let attributes = held.map_or(Attributes::none(), |held| held.attributes);
    held.map(|held| held.node) == change.before
        && change.attributes.as_ref().is_none_or(|changed| changed.before == *attributes)
}

impl Workspace {
    /// Writes what changed as a diff.
    pub fn write_diff(&self, changes: &Changes<'_>, out: &mut impl Write) -> Result<Vec<ChangeCount>> {
        fs::create_dir_all(&self.scratch).at("create", &self.scratch)?;
        let writer = PatchWriter { old: &self.store, new: &self.root, scratch: &self.scratch };
        writer.write(out, &changes.list).map_err(|error| {
            if error.kind() == ErrorKind::Integrity {
                // A content is named by its hash, which tells the user nothing.
                self.unrestorable_error(&changes.list).unwrap_or(error)
            } else if error.is(FailureReason::ChangedWhileRead) {
                error.hint("stop the process that writes to it, then run the same command again")
            } else {
                error
            }
        })
    }
}
