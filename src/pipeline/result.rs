//! `result.json` of a run: what changed, which the engine writes, and the run's record beside it.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::budget::Usage;
use super::tree_periods::TreePeriod;
use super::verdict::{Ending, Verdict};
use crate::checkpoint::change_record::{ChangeRecord, ResultFile};
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::checkpoint::restore::{FinishedRestore, RestoreReport};
use crate::error::{ErrorKind, IoContext, Result};
use crate::history::uncaptured::{NotRestored, SecretChange};
use crate::history::{GitChange, RunDir};
use crate::message::IdStatus;
use crate::project::Layout;

/// One execution of a routine within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    pub number: u32,
    /// Whether the tree was reverted before it.
    #[serde(default)]
    pub clean_slate: bool,
    pub ending: Ending,
    /// The ending in a few words.
    pub reason: String,
    /// The exit code of the routine, or of the verification if that failed.
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// Paths that differ from the run's checkpoint after this attempt.
    pub files: u64,
    /// Lines in those files.
    pub added: u64,
    pub removed: u64,
    /// The last line of the output that is not only punctuation.
    #[serde(default)]
    pub headline: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// How the tree was reverted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertRecord {
    /// How many paths had to be changed.
    pub paths: u64,
    /// These paths, as in a manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Files in the whole tree that were compared with the checkpoint afterwards.
    pub verified: u64,
    /// New files out of scope that were moved to `set-aside/`.
    #[serde(default)]
    pub set_aside: Vec<String>,
    /// What is not as it was, and what became of databases that other programs had open; the run's warnings have it.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Repositories and ignored directories that had been renamed and are back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved_back: Vec<String>,
    /// What is not as it was: no checkpoint holds it, or its owner or an attribute could not be restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_restored: Vec<NotRestored>,
    /// Where `set_aside` is, in this process only.
    #[serde(skip)]
    pub places: Vec<(TreePath, PathBuf)>,
}

impl RevertRecord {
    /// What a restore did, after which `verified` files were compared.
    pub(super) fn new(report: &RestoreReport, verified: usize) -> Self {
        let set_aside = report.set_aside.iter().map(|(path, _)| path.to_string()).collect();
        let files = report.paths.iter().map(in_json).collect();
        let (paths, verified) = (report.verified as u64, verified as u64);
        let places = report.set_aside.clone();
        let lost = |(path, lost): &(TreePath, Vec<String>)| NotRestored {
            path: in_json(path),
            why: format!("could not restore its {}", lost.join(", ")),
        };
        let not_restored = report.lost.iter().map(lost).collect();
        RevertRecord { paths, files, verified, set_aside, places, not_restored, ..RevertRecord::default() }
    }

    /// Drops what is no longer in `set-aside/`, because it was moved back to its place.
    pub(super) fn drop_moved_back(&mut self) {
        self.places.retain(|(_, place)| place.symlink_metadata().is_ok());
        self.set_aside.retain(|path| self.places.iter().any(|(kept, _)| kept.to_string() == *path));
    }

    /// What follows "the tree is reverted to its checkpoint": nothing, or `, except for .git`.
    pub fn exceptions(&self) -> String {
        const MAX_NAMED: usize = 5;
        let names = self.not_restored.iter().take(MAX_NAMED);
        let names: Vec<_> = names.map(|lost| quote::json_for_people(&lost.path)).collect();
        match self.not_restored.len() {
            0 => String::new(),
            n if n > MAX_NAMED => format!(", except for {} and {} more", names.join(", "), n - MAX_NAMED),
            _ => format!(", except for {}", names.join(", ")),
        }
    }

    /// What a restore did whose paths were read back, and nothing else.
    pub(super) fn of(restore: &FinishedRestore<'_>) -> Self {
        let set_aside = restore.set_aside.iter().map(|(path, _)| path.to_string()).collect();
        let (paths, files) = (restore.paths.len() as u64, restore.paths.iter().map(in_json).collect());
        RevertRecord { paths, files, verified: paths, set_aside, ..RevertRecord::default() }
    }
}

fn in_json(path: &TreePath) -> String {
    quote::in_json(path.as_bytes()).into_owned()
}

/// What `result.json` and `summary.json` both say of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routine: Option<String>,
    /// Whether the change stayed in the tree.
    pub kept: bool,
    /// Why it failed, in a sentence; empty if it did not.
    #[serde(default)]
    pub reason: String,
    /// From the checkpoint to the verdict.
    pub duration_ms: u64,
    #[serde(default)]
    pub attempts: Vec<AttemptRecord>,
    /// Set while the change is not in the tree.
    #[serde(default, rename = "put_back", skip_serializing_if = "Option::is_none")]
    pub reverted: Option<RevertRecord>,
    /// What the run did to git's own state, and what became of that: one for the clean slate, one for the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git: Vec<GitChange>,
    /// The sum of what the attempts say they used.
    #[serde(default)]
    pub usage: Usage,
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Likely secrets that the run changed, deleted or made. No diff has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretChange>,
    /// What is lost since an earlier moment of the run: its last revert does not notice that. `not_restored` has it then.
    #[serde(skip)]
    pub lost_before: Vec<NotRestored>,
}

impl RunRecord {
    /// The commits that the run made itself, if it is kept and not reverted since: `2 commits: 1f0c…, 9ab1…`.
    pub fn commits(&self) -> Option<String> {
        let last = self.git.last().filter(|_| self.kept && self.reverted.is_none())?;
        last.kept_commits()
    }

    /// The name of the run's spec in the tracker, if it has a spec that is tracked.
    pub(super) fn tracked_name(&self, layout: &Layout) -> Option<String> {
        self.spec.as_deref().and_then(|spec| tracked_name(layout, spec))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// What changed. A run that never came to an attempt has none.
    #[serde(skip)]
    pub changes: Option<ChangeRecord>,
    #[serde(rename = "status")]
    pub verdict: Verdict,
    #[serde(flatten)]
    pub run: RunRecord,
    /// The time in UTC.
    pub started_at: String,
    /// The same with nanoseconds; `None` in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_time: Option<String>,
    /// When its change was in the tree, and is, if the last of these has no end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_tree: Vec<TreePeriod>,
    /// The mark in `running.json` of the process that decided: a routine may write a `result.json` of its own.
    #[serde(default)]
    pub mark: String,
    /// The store that has the content of the checkpoint, if `DECREE_STORE` named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

impl RunResult {
    /// The result of a run that began and has no verdict yet.
    pub(super) fn undecided(run: RunRecord, started_at: String) -> Self {
        RunResult {
            changes: None,
            verdict: Verdict::Skipped,
            run,
            started_at,
            exact_time: None,
            in_tree: Vec::new(),
            mark: String::new(),
            store: None,
        }
    }

    /// Whether the change of the run is in the tree, as far as decree knows.
    pub fn is_in_tree(&self) -> bool {
        let is_applied = self.in_tree.last().is_some_and(TreePeriod::is_open);
        self.run.reverted.is_none() && (self.run.kept || is_applied)
    }

    /// Whether it was, at a time.
    pub(super) fn was_in_tree(&self, time: Timestamp) -> bool {
        if self.in_tree.is_empty() {
            return self.is_in_tree() && self.start().is_some_and(|start| start < time);
        }
        self.in_tree.iter().any(|period| period.contains(time))
    }

    /// Whether its change was in this tree at any time: that of a run from an artifact was not.
    pub(super) fn was_ever_in_tree(&self) -> bool {
        self.run.reverted.is_none() || !self.in_tree.is_empty()
    }

    /// Since when its change is in the tree, if it is.
    pub(super) fn in_tree_since(&self) -> Option<Timestamp> {
        let open = self.in_tree.last().filter(|period| period.is_open());
        open.and_then(TreePeriod::start).or_else(|| self.start())
    }

    /// When its checkpoint was made.
    pub(super) fn start(&self) -> Option<Timestamp> {
        self.exact_time.as_ref().unwrap_or(&self.started_at).parse().ok()
    }

    /// Reads a run's result. `None` if there is none, or only the engine's part of one.
    pub fn read(dir: &CheckpointDir) -> Result<Option<RunResult>> {
        let path = dir.result_path();
        let Some(mut file) = ResultFile::read(&path)? else {
            return Ok(None);
        };
        let result = file.extra::<RunResult>(&path)?;
        Ok(result.map(|result| RunResult { changes: file.changes, ..result }))
    }

    /// The same; also `None` if a routine made what is there. decree writes a regular file that it can read, in one step. An I/O
    /// error is an error here, too.
    pub(super) fn read_if_valid(dir: &CheckpointDir) -> Result<Option<RunResult>> {
        let path = dir.result_path();
        let found = path.symlink_metadata().if_exists().at("read", &path)?;
        if !found.is_some_and(|found| found.is_file()) {
            return Ok(None);
        }
        match Self::read(dir) {
            Err(error) if error.kind() == ErrorKind::Integrity => Ok(None),
            Err(error) if error.io_kind() == Some(io::ErrorKind::PermissionDenied) => Ok(None),
            result => result,
        }
    }

    /// The run's state in a word: its verdict, unless a user has reverted a kept run or applied a failed one since.
    pub fn state(&self) -> &'static str {
        let changed = self.changes.as_ref().is_some_and(|changes| !changes.is_empty());
        match (self.run.kept, &self.run.reverted) {
            (true, Some(_)) => "reverted",
            (false, None) if changed => "applied",
            _ => self.verdict.word(),
        }
    }

    pub fn write(&self, dir: &CheckpointDir) -> Result<()> {
        ResultFile::write(&dir.result_path(), self.changes.as_ref(), self)
    }
}

/// The name of a spec in the tracker: only specs directly in `specs/` are tracked. A routine may have deleted the spec, or all of them:
/// it is processed all the same.
pub fn tracked_name(layout: &Layout, spec: &str) -> Option<String> {
    let path = layout.root().join(spec);
    let dir = match path.canonicalize() {
        Ok(found) => found.parent()?.to_owned(),
        Err(_) => canonical_or_same(path.parent()?),
    };
    let inside = dir == canonical_or_same(&layout.specs());
    inside.then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
}

fn canonical_or_same(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// Whether the id of a run is in use.
pub(super) fn id_status(run: &RunDir) -> IdStatus {
    let checkpoint = run.checkpoint();
    match RunResult::read(&checkpoint) {
        Ok(Some(result)) if result.run.kept => IdStatus::Taken,
        // The directory of a message that never ran has at most its dead letter, and that has the id.
        Ok(None) if run.is_empty() => IdStatus::Free,
        // A run whose result is damaged is not overwritten either: it moves to `previous/`.
        Ok(_) | Err(_) => IdStatus::Begun,
    }
}

/// Why the last runs of a message were interrupted, one after the other, the latest first.
pub(super) fn interruptions_in_a_row(run: &RunDir) -> Result<Vec<String>> {
    let mut interrupted = Vec::new();
    // A run without a checkpoint was given up for this very reason, and then requeued by the user.
    for previous in run.previous()?.iter().take_while(|previous| previous.manifest_path().exists()) {
        match RunResult::read(previous) {
            Ok(Some(result)) if result.verdict == Verdict::Interrupted => interrupted.push(result.run.reason),
            // One that cannot be read ends the row. A routine may have made it, and must not block the queue with it.
            Ok(_) | Err(_) => break,
        }
    }
    Ok(interrupted)
}
