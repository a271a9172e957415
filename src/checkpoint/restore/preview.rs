//! What a restore would do, without doing it.

use std::collections::BTreeMap;

use super::journal::RestoreStep;
use super::plan::{inhabited, steps};
use crate::checkpoint::entry::{Node, describe};
use crate::checkpoint::live_database;
use crate::checkpoint::patch::parse::Patch;
use crate::checkpoint::patch::rebuild::Direction;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::unlocked_dirs::{UnlockedDirs, agrees};
use crate::checkpoint::workspace::Workspace;
use crate::error::{IoContext, Result};

/// What a restore would do at each path.
#[derive(Debug, Default)]
pub struct RestorePreview {
    pub paths: Vec<PathPreview>,
    /// Why it would be refused in spite of everything: something else is in the way, or a database is in use.
    pub obstacles: Vec<Obstacle>,
}

/// Why nothing would be done at a path, in spite of `--force`.
#[derive(Debug)]
pub struct Obstacle {
    pub path: TreePath,
    pub why: String,
    pub kind: ObstacleKind,
}

/// What the user can do about an obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObstacleKind {
    /// What is there can be moved away.
    InTheWay,
    /// The programs that use it can be stopped.
    InUse,
    /// The content from before the run is needed.
    NotRebuildable,
}

/// What a restore would do at one path.
#[derive(Debug)]
pub struct PathPreview {
    pub path: TreePath,
    pub effect: PathEffect,
    /// Whether something would be overwritten that is on neither side of the diff.
    pub overwrites: bool,
    /// Whether it is what it would be afterwards, although other paths are not.
    pub is_there: bool,
    /// Whether it is what the diff expects.
    is_expected: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PathEffect {
    /// It is what it would be afterwards.
    AlreadyThere,
    Create,
    Modify,
    Delete,
    /// It is not what the diff expects: what is expected, and what is there.
    Conflict(String),
}

/// What paths are after restores that were only previewed.
pub type PreviewedTree = BTreeMap<TreePath, Option<Node>>;

impl RestorePreview {
    /// Whether nothing would be done.
    pub fn is_there(&self) -> bool {
        self.paths.iter().all(|path| path.effect == PathEffect::AlreadyThere)
    }
}

impl Workspace {
    /// Says what [`Workspace::restore`] would do at each path, given what `earlier` previews left, and adds to it what this one would
    /// leave. Touches nothing.
    pub fn preview(
        &self,
        patch: &Patch,
        direction: Direction,
        earlier: &mut PreviewedTree,
    ) -> Result<RestorePreview> {
        let steps = steps(patch, direction);
        let unlocked = UnlockedDirs::above(&self.root, steps.iter().map(|step| &step.path))
            .at("read", self.root.path())?;
        let mut preview = RestorePreview::default();
        for step in &steps {
            let path = &step.path;
            let found = match earlier.get(path) {
                Some(found) => *found,
                None => unlocked.present(path).at("read", path)?,
            };
            let agrees = |expected: Option<&Node>| agrees(&self.root, path, found.as_ref(), expected);
            let is_expected = agrees(step.from.as_ref())?;
            let effect = if agrees(step.to.as_ref())? {
                PathEffect::AlreadyThere
            } else if is_expected {
                effect_of(step)
            } else {
                let expected = describe(step.from.as_ref());
                PathEffect::Conflict(format!("expected {expected}, found {}", describe(found.as_ref())))
            };
            preview.obstacles.extend(self.obstacle(&steps, step, found.as_ref(), earlier)?);
            let overwrites = matches!(effect, PathEffect::Conflict(_)) && found.is_some();
            let is_there = effect == PathEffect::AlreadyThere;
            preview.paths.push(PathPreview { path: path.clone(), effect, overwrites, is_there, is_expected });
        }
        if !preview.is_there() {
            // A path that is there already is a conflict for a restore as a whole, unless it is the same before it.
            for (previewed, step) in preview.paths.iter_mut().zip(&steps) {
                if previewed.effect == PathEffect::AlreadyThere && !previewed.is_expected {
                    let (from, to) = (describe(step.from.as_ref()), describe(step.to.as_ref()));
                    previewed.effect = PathEffect::Conflict(format!("expected {from}, found {to}"));
                }
            }
            let replaced = steps.iter().filter(|step| step.may_replace_database());
            let replaced: Vec<&TreePath> = replaced.map(|step| &step.path).collect();
            let databases = live_database::in_use(&self.root, replaced.iter().copied());
            let in_use = databases.iter().map(|it| (&it.path, format!("open in {}", it.users())));
            let deleted = self.deleted_among(replaced.into_iter());
            let deleted = deleted.iter().map(|it| (&it.path, format!("deleted, and open in {}", it.users())));
            preview.obstacles.extend(in_use.chain(deleted).map(|(path, why)| Obstacle {
                path: path.clone(),
                why,
                kind: ObstacleKind::InUse,
            }));
        }
        earlier.extend(steps.into_iter().map(|step| (step.path, step.to)));
        Ok(preview)
    }

    /// Whether the tree is what diffs leave that are applied one after the other.
    pub fn is_after_all(&self, patches: &[Patch]) -> Result<bool> {
        let records = patches.iter().flat_map(|patch| &patch.records);
        let left: PreviewedTree =
            records.map(|record| (record.change.path.clone(), record.change.after)).collect();
        let unlocked = UnlockedDirs::above(&self.root, left.keys()).at("read", self.root.path())?;
        for (path, after) in &left {
            let found = unlocked.present(path).at("read", path)?;
            if !agrees(&self.root, path, found.as_ref(), after.as_ref())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is in the way of a step and is not part of the diff.
    fn obstacle(
        &self,
        steps: &[RestoreStep],
        step: &RestoreStep,
        found: Option<&Node>,
        earlier: &PreviewedTree,
    ) -> Result<Option<Obstacle>> {
        let path = &step.path;
        let in_the_way = |why: String| Obstacle { path: path.clone(), why, kind: ObstacleKind::InTheWay };
        if step.to.is_none_or(|to| to.is_dir()) {
            return Ok(None);
        }
        if let Some(blocker) = self.root.blocker(path).at("read", path)?
            && !steps.iter().any(|step| step.path == blocker)
            && !earlier.contains_key(&blocker)
        {
            return Ok(Some(in_the_way(format!("{blocker} is not a directory"))));
        }
        let is_filled = || self.root.is_empty_dir(path).is_ok_and(|is_empty| !is_empty);
        let is_unexplained = || (step.from.is_none() || is_filled()) && !inhabited(steps, path);
        let is_there = found.is_some_and(Node::is_dir) && is_unexplained();
        Ok(is_there.then(|| in_the_way("a directory is there".to_owned())))
    }
}

fn effect_of(step: &RestoreStep) -> PathEffect {
    match (&step.from, &step.to) {
        (None, _) => PathEffect::Create,
        (_, None) => PathEffect::Delete,
        _ => PathEffect::Modify,
    }
}
