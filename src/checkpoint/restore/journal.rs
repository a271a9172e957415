//! The journal: what a move into the tree is about, written before it begins.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::coverage::PathText;
use crate::checkpoint::entry::{FileMode, Node};
use crate::checkpoint::path::TreePath;
use crate::checkpoint::quote;
use crate::error::{Error, IoContext, Result};
use crate::fs::json;

/// The version of the format.
const VERSION: u32 = 1;
/// Its name in the transaction's directory. While it is there, the move is not over.
pub const FILE: &str = "journal.json";

/// Everything that is needed to finish the move, or to undo it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Journal {
    version: u32,
    /// For people: `revert 2026111603100000-0`.
    pub what: String,
    /// By path. Staged and saved files are named by a step's number.
    pub steps: Vec<RestoreStep>,
    /// Where things go that have to make way, from decree's own directory.
    aside_dir: PathBuf,
    /// What they are, as bytes in JSON's quoting: there may be a `.git` among them, which is no tree path.
    set_aside: Vec<String>,
    /// The directories above the steps that were there before, and their modes.
    pub dirs: Vec<DirMode>,
}

/// One path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreStep {
    /// Where.
    pub path: PathText,
    /// What is there.
    pub from: Option<Node>,
    /// What shall be there.
    pub to: Option<Node>,
}

/// A directory's mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DirMode {
    /// Where.
    pub path: PathText,
    /// In octal.
    pub mode: String,
}

impl DirMode {
    /// As a mode.
    pub fn mode(&self) -> FileMode {
        FileMode::parse(&self.mode).unwrap_or(FileMode::DIR)
    }
}

impl RestoreStep {
    /// Whether a file or link has to be staged for it: there shall be one, with another content than now.
    pub fn is_staged(&self) -> bool {
        self.to.is_some_and(|to| !to.is_dir()) && !self.keeps_content()
    }

    /// Whether a file or link has to move out of the way.
    pub fn is_saved(&self) -> bool {
        self.from.is_some_and(|from| !from.is_dir()) && !self.keeps_content()
    }

    /// Whether at most the mode changes.
    pub fn keeps_content(&self) -> bool {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => from.type_name() == to.type_name() && from.content() == to.content(),
            _ => false,
        }
    }
}

impl Journal {
    /// For steps that are sorted by path.
    pub fn new(
        what: String,
        steps: Vec<RestoreStep>,
        aside_dir: PathBuf,
        set_aside: Vec<String>,
        dirs: Vec<DirMode>,
    ) -> Self {
        Journal { version: VERSION, what, steps, aside_dir, set_aside, dirs }
    }

    /// What makes way, and where it goes, given decree's own directory. Nothing leads out of either.
    pub fn set_aside(&self, decree_dir: &Path) -> Vec<(TreePath, PathBuf)> {
        let Some(place) = self.aside_dir(decree_dir) else { return Vec::new() };
        let paths =
            self.set_aside.iter().filter_map(|text| TreePath::outside_scope(&quote::from_json(text)?));
        paths.map(|path| (path.clone(), place.join(path.as_path()))).collect()
    }

    /// Where things go that have to make way, given decree's own directory: a place in that, or nowhere.
    pub fn aside_dir(&self, decree_dir: &Path) -> Option<PathBuf> {
        let inside = self.aside_dir.components().all(|part| matches!(part, Component::Normal(_)));
        inside.then(|| decree_dir.join(&self.aside_dir))
    }

    /// Makes it durable. From now on the move happens, or is undone.
    pub fn write(&self, dir: &Path) -> Result<()> {
        json::write(&dir.join(FILE), self)
    }

    /// Reads it back.
    pub fn read(dir: &Path) -> Result<Journal> {
        let path = dir.join(FILE);
        let file = File::open(&path).at("read", &path)?;
        let journal: Journal = json::parse(file).at("read", &path)?.map_err(|error| {
            Error::integrity(format!("{} is damaged", path.display()))
                .caused_by(error)
                .detail("an unfinished revert or apply cannot be completed; its files are beside the journal")
        })?;
        if journal.version != VERSION {
            return Err(Error::integrity(format!("{} is of another version", path.display()))
                .hint("finish the work with the version of decree that began it"));
        }
        Ok(journal)
    }
}
