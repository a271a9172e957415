//! The journal: what a restore does to the tree, written before it begins.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::attributes::{AttributeChange, Attributes};
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::live_database::{database_of, may_be_database};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::{json, untrusted};

/// The version of the format. Version 1 had `what` instead of `id`, `action` and `subject`; it is still read.
const VERSION: u32 = 2;
const FILE: &str = "journal.json";

/// The command that a restore belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreAction {
    /// The user reverts a run, or everything since a checkpoint.
    #[default]
    Revert,
    /// The user applies a recorded change again.
    Apply,
    /// The user rolls the tree back to a checkpoint.
    Rollback,
    /// decree reverts a run that failed.
    PutBack,
}

impl fmt::Display for RestoreAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RestoreAction::Revert | RestoreAction::PutBack => "revert",
            RestoreAction::Apply => "apply",
            RestoreAction::Rollback => "rollback",
        })
    }
}

/// Everything that is needed to finish the restore, or to undo it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// Random. The audit entry of the restore carries it, so recovery never writes a second one.
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub action: RestoreAction,
    /// The run or checkpoint.
    #[serde(default)]
    pub subject: String,
    /// Version 1: `revert 2026111603100000-0`.
    #[serde(default, skip_serializing)]
    what: String,
    /// By path. Staged and saved files are named by a step's number.
    pub steps: Vec<RestoreStep>,
    /// From decree's own directory.
    #[serde(rename = "aside_dir")]
    quarantine_dir: PathBuf,
    /// What moves to the quarantine, as bytes in JSON's quoting: there may be a `.git` among it, which is no tree path.
    #[serde(rename = "set_aside")]
    out_of_scope: Vec<String>,
    /// The directories above the steps that were there before, and their modes.
    pub dirs: Vec<DirMode>,
}

/// The change of one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreStep {
    pub path: TreePath,
    /// What is there before the restore.
    pub from: Option<Node>,
    /// What is there after it.
    pub to: Option<Node>,
    /// The owner and attributes before and after the restore. `None`: they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Box<AttributeChange>>,
    /// Attributes that the staged file could not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// A directory, its mode and its attributes before the restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirMode {
    pub path: TreePath,
    mode: String,
    /// `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

impl DirMode {
    pub fn new(path: &TreePath, mode: FileMode, attributes: Option<Attributes>) -> Self {
        DirMode { path: path.clone(), mode: mode.to_string(), attributes }
    }

    pub fn mode(&self) -> FileMode {
        FileMode::parse(&self.mode).unwrap_or(FileMode::DIR)
    }
}

impl RestoreStep {
    /// Whether a file or link has to be staged: there will be one, with another content than now.
    pub fn is_staged(&self) -> bool {
        self.to.is_some_and(|to| !to.is_dir()) && !self.keeps_content()
    }

    /// Whether a file or link has to move out of the tree.
    pub fn is_saved(&self) -> bool {
        self.from.is_some_and(|from| !from.is_dir()) && !self.keeps_content()
    }

    /// Whether the file of an SQLite database, or one beside it, may be replaced or removed, by sizes and name.
    pub fn may_replace_database(&self) -> bool {
        let sizes = [&self.from, &self.to].into_iter().flatten().filter_map(Node::content);
        let is_candidate =
            || sizes.map(|(_, size)| size).any(may_be_database) || database_of(&self.path).is_some();
        (self.is_staged() || self.is_saved()) && is_candidate()
    }

    /// Whether at most the mode and the attributes change.
    pub fn keeps_content(&self) -> bool {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => from.type_name() == to.type_name() && from.content() == to.content(),
            _ => false,
        }
    }
}

impl Journal {
    /// A journal of steps that are sorted by path. The quarantine is relative to decree's own directory.
    pub fn new(
        action: RestoreAction,
        subject: &str,
        steps: Vec<RestoreStep>,
        quarantine_dir: &Path,
        out_of_scope: &[&TreePath],
        dirs: Vec<DirMode>,
    ) -> Self {
        let in_json = |path: &&TreePath| quote::in_json(path.as_bytes()).into_owned();
        Journal {
            version: VERSION,
            id: crate::fs::random_hex(),
            action,
            subject: subject.to_owned(),
            what: String::new(),
            steps,
            quarantine_dir: quarantine_dir.to_owned(),
            out_of_scope: out_of_scope.iter().map(in_json).collect(),
            dirs,
        }
    }

    /// What the restore is called in messages: `revert 2026111603100000-0`.
    pub fn name(&self) -> String {
        format!("{} {}", self.action, self.subject)
    }

    /// What moves to the quarantine, and to which path there. Nothing leads out of the tree or out of decree's own directory.
    pub fn quarantine_moves(&self, decree_dir: &Path) -> Vec<(TreePath, PathBuf)> {
        let Some(dir) = self.quarantine_dir(decree_dir) else { return Vec::new() };
        let paths =
            self.out_of_scope.iter().filter_map(|text| TreePath::out_of_scope(&quote::from_json(text)?));
        paths.map(|path| (path.clone(), dir.join(path.as_path()))).collect()
    }

    /// The quarantine's directory, if it is inside decree's own directory.
    pub fn quarantine_dir(&self, decree_dir: &Path) -> Option<PathBuf> {
        let inside = self.quarantine_dir.components().all(|part| matches!(part, Component::Normal(_)));
        inside.then(|| decree_dir.join(&self.quarantine_dir))
    }

    /// Where the journal of a restore is, in the restore's directory. While it is there, the restore is not over.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Makes the journal durable. From now on the restore is finished, or undone.
    pub fn write(&self, dir: &Path) -> Result<()> {
        json::write(&Journal::path(dir), self)
    }

    pub fn read(dir: &Path) -> Result<Journal> {
        let path = Journal::path(dir);
        let damaged = || {
            Error::integrity(format!("{} is damaged", path.display()))
                .detail("an interrupted revert or apply cannot be finished; its files are beside the journal")
        };
        let file = untrusted::open(&path).at("read", &path)?;
        let mut journal: Journal = json::parse(file, &path, |error| damaged().caused_by(error))?;
        match journal.version {
            VERSION => {}
            1 => journal.upgrade(dir).ok_or_else(damaged)?,
            _ => {
                return Err(Error::integrity(format!("{} has an unsupported version", path.display()))
                    .hint("finish the work with the version of decree that began it"));
            }
        }
        Ok(journal)
    }

    /// Fills in the fields that version 1 did not have.
    fn upgrade(&mut self, dir: &Path) -> Option<()> {
        let (action, subject) = self.what.split_once(' ')?;
        let actions = [RestoreAction::Revert, RestoreAction::Apply, RestoreAction::Rollback];
        self.action = actions.into_iter().find(|known| known.to_string() == action)?;
        self.subject = subject.to_owned();
        // As random as the id of version 2.
        self.id = dir.file_name()?.to_str()?.to_owned();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_version_1_is_read_with_its_action_and_subject() {
        let dir = tempfile::tempdir().unwrap();
        let text = |version: u32, what: &str| {
            format!(
                r#"{{"version":{version},"what":"{what}","steps":[],"aside_dir":"x","set_aside":[],"dirs":[]}}"#
            )
        };
        std::fs::write(Journal::path(dir.path()), text(1, "apply 2026111603100000-0")).unwrap();
        let journal = Journal::read(dir.path()).unwrap();
        assert_eq!(
            (journal.action, &journal.subject[..]),
            (RestoreAction::Apply, "2026111603100000-0"),
            "{journal:?}"
        );
        assert_eq!(journal.name(), "apply 2026111603100000-0");
        for damaged in [text(1, "something"), text(1, "mow lawn"), text(3, "")] {
            std::fs::write(Journal::path(dir.path()), damaged).unwrap();
            assert_eq!(Journal::read(dir.path()).unwrap_err().kind(), crate::error::ErrorKind::Integrity);
        }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let quarantine = Path::new("runs/1/set-aside");
        let written = Journal::new(RestoreAction::PutBack, "1", Vec::new(), quarantine, &[], Vec::new());
        written.write(dir.path()).unwrap();
        let read = Journal::read(dir.path()).unwrap();
        assert_eq!(
            (read.id, read.action, read.subject),
            (written.id, RestoreAction::PutBack, "1".to_owned())
        );
        assert_eq!(read.quarantine_dir, quarantine);
    }
}
