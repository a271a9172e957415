//! Deciding whether a diff can be reverted or applied, and doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rayon::prelude::*;

use super::journal::{DirMode, Journal, RestoreAction, RestoreStep};
use super::report::{RestoreLog, RestoreReport};
use super::stage::stage;
use super::transaction::Transaction;
use super::transaction_dir::TransactionDir;
use crate::checkpoint::compare::Change;
use crate::checkpoint::deleted_database;
use crate::checkpoint::entry::{Node, describe};
use crate::checkpoint::live_database;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::root::PathKind;
use crate::checkpoint::secret_stamp::{SecretFiles, SecretStamp};
use crate::checkpoint::unlocked_dirs::{UnlockedDirs, agrees};
use crate::checkpoint::workspace::Workspace;
use crate::error::{Error, FailureReason, IoContext, Result};
use crate::fs::quarantine::{free_name, numbered};

/// A restore to carry out.
pub struct RestoreRequest<'a> {
    pub patch: &'a Patch,
    pub direction: Direction,
    pub action: RestoreAction,
    /// The run or checkpoint, for messages, the journal and the log.
    pub subject: &'a str,
    /// What no diff holds, such as a nested repository: it moves to the quarantine. For the diff nothing is at these paths.
    pub out_of_scope: &'a [TreePath],
    /// Which files those of them were that are likely secrets. Another file is a conflict.
    pub secret_files: &'a SecretFiles,
    /// If this is there already, the next free one of `<dir>-2`, `<dir>-3`, … is used, so each restore has its own.
    pub quarantine_dir: PathBuf,
    /// Gets the restore before its journal is removed.
    pub log: &'a dyn RestoreLog,
}

/// What came of a restore that succeeded.
#[derive(Debug)]
pub enum RestoreOutcome {
    /// Every path was what it should be before the restore began.
    AlreadyThere,
    /// The tree is on the other side of the diff, and was verified.
    Done(RestoreReport),
}

impl Workspace {
    /// Takes the tree to the other side of a diff, or leaves it alone.
    pub fn restore(&self, request: &RestoreRequest<'_>) -> Result<RestoreOutcome> {
        let mut steps = steps(request.patch, request.direction);
        let paths = steps.iter().map(|step| &step.path).chain(request.out_of_scope);
        let mut unlocked = UnlockedDirs::above(&self.root, paths).at("read", self.root.path())?;
        let mut found: Vec<Option<Node>> = steps
            .par_iter()
            .map(|step| unlocked.present(&step.path).at("read", &step.path))
            .collect::<Result<_>>()?;
        let moves: BTreeSet<&TreePath> = request
            .out_of_scope
            .iter()
            .filter(|path| self.root.find(path).is_ok_and(|found| found.is_some()))
            .collect();
        let moves = withheld_as_absent(&mut steps, &mut found, moves);
        let mut is_there = moves.is_empty();
        let mut conflicts = self.other_secrets(&moves, request.secret_files)?;
        for (step, found) in steps.iter().zip(&found) {
            is_there = is_there && agrees(&self.root, &step.path, found.as_ref(), step.to.as_ref())?;
            if let Some(change) = &step.attributes
                && !moves.contains(&step.path)
            {
                let attributes = self.root.attributes(&step.path).at("read", &step.path)?;
                is_there = is_there && attributes == change.after;
                if attributes != change.before && attributes != change.after {
                    conflicts.push(format!("{}: its owner or attributes are others", step.path));
                }
            }
        }
        if is_there {
            return Ok(RestoreOutcome::AlreadyThere);
        }
        let RestoreRequest { action, subject, .. } = request;
        self.refuse_databases(request, &steps)?;
        let out_of_scope: Vec<&TreePath> = moves.into_iter().collect();
        conflicts.extend(self.conflicts(&steps, &found, &out_of_scope)?);
        if !conflicts.is_empty() {
            let is_step = |path: &TreePath| steps.binary_search_by(|step| step.path.cmp(path)).is_ok();
            let beside = out_of_scope.iter().filter(|path| !is_step(path));
            let (n, all) = (conflicts.len(), crate::humanize::count(steps.len() + beside.count(), "path"));
            return Err(Error::failed(format!("cannot {action} {subject}: {n} of {all} changed since"))
                .because(FailureReason::Conflict)
                .details(conflicts, 20)
                .detail("nothing was touched"));
        }
        let dir = TransactionDir::create(&self.scratch)?;
        let path = dir.path().to_owned();
        let dirs = self.dirs_above(&steps, &out_of_scope, &unlocked)?;
        let result = self.stage_and_run(request, steps, dirs, &out_of_scope, dir);
        if result.is_ok() {
            // The transaction has set the modes.
            unlocked.forget();
        } else if !Journal::path(&path).exists() {
            let _ = std::fs::remove_dir_all(&path);
        }
        result.map(RestoreOutcome::Done)
    }

    /// Fails if other programs have databases open that would be replaced or brought back.
    fn refuse_databases(&self, request: &RestoreRequest<'_>, steps: &[RestoreStep]) -> Result<()> {
        let RestoreRequest { action, subject, .. } = request;
        let replaced = steps.iter().filter(|step| step.may_replace_database());
        let replaced: Vec<&TreePath> = replaced.map(|step| &step.path).collect();
        let live = live_database::in_use(&self.root, replaced.iter().copied());
        // Where decree reverts by itself, its callers keep what deleted databases hold; `rollback` has looked before.
        let is_asked_for = matches!(action, RestoreAction::Revert | RestoreAction::Apply);
        let deleted = self.deleted_among(replaced.into_iter().filter(|_| is_asked_for));
        deleted_database::refuse(&format!("{action} {subject}"), &live, &deleted).map_or(Ok(()), Err)
    }

    /// A line for each likely secret that is to move to the quarantine and is not the file that was recorded: the diff does not have its
    /// content, by which an edit would be seen.
    fn other_secrets(&self, moves: &BTreeSet<&TreePath>, secret_files: &SecretFiles) -> Result<Vec<String>> {
        let mut conflicts = Vec::new();
        for path in moves {
            let why = match secret_files.get(path) {
                None => continue,
                Some(None) => "the record does not say which file it was",
                Some(recorded) if *recorded == SecretStamp::of(&self.root, path)? => continue,
                Some(_) => "it is no longer the file that was recorded",
            };
            conflicts
                .push(format!("{path}: it was a likely secret, and {why}; if it may go, move it away first"));
        }
        Ok(conflicts)
    }

    fn stage_and_run(
        &self,
        request: &RestoreRequest<'_>,
        mut steps: Vec<RestoreStep>,
        dirs: Vec<DirMode>,
        out_of_scope: &[&TreePath],
        dir: TransactionDir,
    ) -> Result<RestoreReport> {
        let given = stage(&self.root, request.patch, request.direction, &steps, &dir)
            .map_err(|error| error.detail("nothing was touched"))?;
        for (n, given) in given {
            steps[n].lost = given.lost;
            if let Some(Node::File { mode, .. }) = &mut steps[n].to {
                *mode = given.mode;
            }
        }
        let broken_links = self.broken_links(&steps)?;
        let quarantine = free_name(|number| numbered(&request.quarantine_dir, "-", number));
        let inside = quarantine.strip_prefix(dir.decree_dir()).unwrap_or(&quarantine);
        let journal = Journal::new(request.action, request.subject, steps, inside, out_of_scope, dirs);
        let report = Transaction::new(&self.root, dir, journal).run(request.log)?;
        Ok(RestoreReport { broken_links, ..report })
    }

    /// Files that have other names, which the restore does not change: it puts another file in the place of one name.
    fn broken_links(&self, steps: &[RestoreStep]) -> Result<Vec<TreePath>> {
        let mut broken = Vec::new();
        for step in steps.iter().filter(|step| step.is_saved() && step.is_staged()) {
            let found = self.root.find(&step.path).at("read", &step.path)?;
            if found.is_some_and(|found| found.kind == PathKind::File && found.links > 1) {
                broken.push(step.path.clone());
            }
        }
        Ok(broken)
    }

    /// A line for each path that is not what the diff expects.
    fn conflicts(
        &self,
        steps: &[RestoreStep],
        found: &[Option<Node>],
        out_of_scope: &[&TreePath],
    ) -> Result<Vec<String>> {
        let mut conflicts = Vec::new();
        for (step, found) in steps.iter().zip(found) {
            let path = &step.path;
            let unexplained = step.from.is_none()
                && found.as_ref().is_some_and(Node::is_dir)
                && !step.to.is_some_and(|to| to.is_dir())
                && !inhabited(steps, path);
            if unexplained || !agrees(&self.root, path, found.as_ref(), step.from.as_ref())? {
                let expected = describe(step.from.as_ref());
                conflicts.push(format!("{path}: expected {expected}, found {}", describe(found.as_ref())));
                continue;
            }
            if step.to.is_none() {
                continue;
            }
            if let Some(blocker) = self.root.blocker(path).at("read", path)?
                && !moves_away(steps, &blocker)
                && !out_of_scope.contains(&&blocker)
            {
                conflicts.push(format!(
                    "{path}: {blocker} is not a directory, and nothing is written through a link"
                ));
            } else if found.as_ref().is_some_and(Node::is_dir) && !step.to.is_some_and(|to| to.is_dir()) {
                self.find_unaccounted(steps, out_of_scope, path, &mut conflicts)?;
            }
        }
        Ok(conflicts)
    }

    /// Finds what is in a directory that a file replaces, and that is not part of the diff.
    fn find_unaccounted(
        &self,
        steps: &[RestoreStep],
        out_of_scope: &[&TreePath],
        dir: &TreePath,
        conflicts: &mut Vec<String>,
    ) -> Result<()> {
        for path in self.root.list(dir).at("read", dir)? {
            let is_dir =
                self.root.find(&path).at("read", &path)?.is_some_and(|found| found.kind == PathKind::Dir);
            if out_of_scope.contains(&&path) || moves_away(steps, &path) {
                continue;
            }
            if is_dir && inhabited(steps, &path) {
                self.find_unaccounted(steps, out_of_scope, &path, conflicts)?;
            } else {
                conflicts.push(format!("{path}: not part of this change, but {dir} has to be removed"));
            }
        }
        Ok(())
    }

    /// The directories above the steps and their modes now.
    fn dirs_above(
        &self,
        steps: &[RestoreStep],
        out_of_scope: &[&TreePath],
        unlocked: &UnlockedDirs<'_>,
    ) -> Result<Vec<DirMode>> {
        let above = dirs_above(steps.iter().map(|step| &step.path).chain(out_of_scope.iter().copied()));
        let mut dirs = BTreeMap::new();
        for path in above.iter().chain(steps.iter().map(|step| &step.path)) {
            if let Some(found) = self.root.find(path).at("read", path)?
                && found.kind == PathKind::Dir
            {
                // Those of a directory that another user closed are not needed: this one cannot remove it.
                let attributes = self.root.attributes(path).ok();
                dirs.insert(path, (unlocked.real_mode(path).unwrap_or(found.mode), attributes));
            }
        }
        Ok(dirs.into_iter().map(|(path, (mode, attributes))| DirMode::new(path, mode, attributes)).collect())
    }
}

/// What became a likely secret is absent in the diff and out of scope: it moves to the quarantine before the old file is restored. A
/// path that has the old file already is left alone.
fn withheld_as_absent<'p>(
    steps: &mut Vec<RestoreStep>,
    found: &mut Vec<Option<Node>>,
    mut out_of_scope: BTreeSet<&'p TreePath>,
) -> BTreeSet<&'p TreePath> {
    let both = std::mem::take(steps).into_iter().zip(std::mem::take(found));
    for (step, found_there) in both {
        let is_withheld = step.from.is_none() && step.to.is_some() && out_of_scope.contains(&step.path);
        if is_withheld && found_there == step.to {
            out_of_scope.remove(&step.path);
        } else {
            steps.push(step);
            found.push(found_there.filter(|_| !is_withheld));
        }
    }
    out_of_scope
}

pub(super) fn steps(patch: &Patch, direction: Direction) -> Vec<RestoreStep> {
    patch
        .records
        .iter()
        .map(|record| {
            let Change { path, before, after, attributes } = &record.change;
            let (from, to) = match direction {
                Direction::Forward => (before, after),
                Direction::Backward => (after, before),
            };
            let attributes = attributes.as_ref().map(|change| match direction {
                Direction::Forward => change.clone(),
                Direction::Backward => Box::new(change.swapped()),
            });
            RestoreStep { path: path.clone(), from: *from, to: *to, attributes, lost: Vec::new() }
        })
        .collect()
}

/// Whether the diff accounts for something below `dir` on the side that the restore starts from.
pub(super) fn inhabited(steps: &[RestoreStep], dir: &TreePath) -> bool {
    let start = steps.partition_point(|step| step.path <= *dir);
    steps[start..]
        .iter()
        .take_while(|step| step.path.as_bytes().starts_with(dir.as_bytes()))
        .any(|step| step.path.is_in(dir) && step.from.is_some())
}

/// Whether the restore moves away what is at `path` now.
fn moves_away(steps: &[RestoreStep], path: &TreePath) -> bool {
    steps
        .binary_search_by(|step| step.path.cmp(path))
        .is_ok_and(|at| steps[at].from.is_some() && !steps[at].keeps_content())
}
