//! The directories of earlier runs while a program runs that may delete them, and the places of later ones.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::suspects::Suspects;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::project::Layout;

/// Of how many earlier runs the records are held at most.
const MAX_EARLIER_RUNS: usize = 1_000;

/// The directories of earlier runs.
pub(super) struct EarlierRuns {
    dir: PathBuf,
    /// The latest, whose records are held.
    held: BTreeSet<PathBuf>,
    others: BTreeSet<PathBuf>,
    /// Links among the runs that were there before.
    links: HashSet<PathBuf>,
    listed_at: i64,
}

impl EarlierRuns {
    /// No runs yet.
    pub fn new(layout: &Layout) -> EarlierRuns {
        EarlierRuns {
            dir: layout.runs(),
            held: BTreeSet::new(),
            others: BTreeSet::new(),
            links: HashSet::new(),
            listed_at: jiff::Timestamp::now().as_second(),
        }
    }

    /// All runs but the one that is about to begin. Each is passed to `first` before it is looked at.
    pub fn list(layout: &Layout, own: &Path, first: &mut dyn FnMut(&Path)) -> EarlierRuns {
        let mut runs = EarlierRuns::new(layout);
        let entries: Vec<(PathBuf, bool)> = fs::read_dir(&runs.dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_symlink())))
            .collect();
        entries.iter().for_each(|(path, _)| first(path));
        // A directory without records is that of a message that was not run.
        let listed = entries.par_iter().filter(|(path, _)| path != own && has_records(path));
        runs.others = listed.map(|(path, _)| path.clone()).collect();
        runs.links.extend(entries.into_iter().filter(|(_, is_link)| *is_link).map(|(path, _)| path));
        runs
    }

    /// Looks at one path among the runs again, before a program starts.
    pub fn look_again(&mut self, path: &Path) {
        if path.is_symlink() {
            self.links.insert(path.to_owned());
        } else {
            self.links.remove(path);
        }
        if !has_records(path) {
            self.held.remove(path);
            self.others.remove(path);
        } else if !self.held.contains(path) {
            self.others.insert(path.to_owned());
        }
    }

    /// Takes the next run whose records are to be held, the latest first.
    pub fn next_to_hold(&mut self) -> Option<PathBuf> {
        if self.held.len() >= MAX_EARLIER_RUNS && self.others.last() < self.held.first() {
            return None;
        }
        let next = self.others.pop_last()?;
        self.held.insert(next.clone());
        Some(next)
    }

    /// Takes a run whose records are held although those of a later one are not.
    pub fn next_to_replace(&mut self) -> Option<PathBuf> {
        if self.others.last() <= self.held.first() {
            return None;
        }
        let first = self.held.pop_first()?;
        self.others.insert(first.clone());
        Some(first)
    }

    /// The run is not an earlier one any more.
    pub fn forget(&mut self, run: &Path) {
        self.held.remove(run);
        self.others.remove(run);
    }

    /// Takes a run whose records are held and need not be any more, as there are later ones.
    pub fn next_to_release(&mut self) -> Option<PathBuf> {
        if self.held.len() <= MAX_EARLIER_RUNS {
            return None;
        }
        let first = self.held.pop_first()?;
        self.others.insert(first.clone());
        Some(first)
    }

    pub fn is_held(&self, run: &Path) -> bool {
        self.held.contains(run)
    }

    /// Forgets the runs that are gone or were emptied. Returns how many of them were not held, and how many were.
    pub fn take_gone(&mut self, suspects: &Suspects<'_>) -> (usize, usize) {
        let listed_at = self.listed_at;
        let is_gone = |run: &&PathBuf| suspects.includes_below(run) && is_gone(run, listed_at);
        let gone_of = |runs: &BTreeSet<PathBuf>| -> Vec<PathBuf> {
            match suspects.few_below(&self.dir) {
                Some(few) => {
                    few.into_iter().filter(|run| runs.contains(run)).filter(|run| is_gone(&run)).collect()
                }
                None => runs.par_iter().filter(is_gone).cloned().collect(),
            }
        };
        let (others, held) = (gone_of(&self.others), gone_of(&self.held));
        for run in &others {
            self.others.remove(run);
        }
        for run in &held {
            self.held.remove(run);
        }
        (others.len(), held.len())
    }

    /// The links that are there now. A routine knows the ids of the runs that will follow.
    pub fn new_links(&self, suspects: &Suspects<'_>) -> Result<Vec<PathBuf>> {
        let mut links = match suspects.few_below(&self.dir) {
            Some(few) => few.into_iter().filter(|path| path.is_symlink()).collect(),
            None => links_in(&self.dir).at("read", &self.dir)?,
        };
        links.retain(|link| !self.links.contains(link));
        Ok(links)
    }
}

/// Whether a run's directory is not there any more, or was emptied since `listed_at`. A directory that was not touched since costs one
/// system call.
fn is_gone(run: &Path, listed_at: i64) -> bool {
    match run.symlink_metadata() {
        Err(_) => true,
        Ok(found) if !found.is_dir() => true,
        Ok(found) if found.ctime() < listed_at - 1 => false,
        Ok(_) => !has_records(run),
    }
}

fn has_records(run: &Path) -> bool {
    let records = [CheckpointDir::MANIFEST, CheckpointDir::RESULT];
    records.iter().any(|name| run.join(name).symlink_metadata().is_ok())
}

/// Where no directory is yet, and a link would lead decree elsewhere once it creates one.
pub(super) struct AbsentDirs {
    dirs: Vec<PathBuf>,
}

impl AbsentDirs {
    pub fn list(layout: &Layout, mut dirs: Vec<PathBuf>) -> AbsentDirs {
        dirs.extend([layout.own_store(), layout.own_venv()]);
        dirs.retain(|dir| !dir.is_symlink());
        AbsentDirs { dirs }
    }

    /// The links that are there now.
    pub fn links(&self) -> impl Iterator<Item = &PathBuf> {
        self.dirs.iter().filter(|dir| dir.is_symlink())
    }
}

fn links_in(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_symlink() {
            links.push(entry.path());
        }
    }
    Ok(links)
}
