//! The directories of earlier runs while a program runs that may delete them, and the places of later ones.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::project::Layout;

/// Of how many earlier runs the records are held at most: every message reads them.
const MAX_EARLIER_RUNS: usize = 1_000;

/// The directories of earlier runs.
pub(super) struct EarlierRuns {
    /// The latest last; those are held.
    list: Vec<PathBuf>,
    /// How many are held.
    held: usize,
    listed_at: i64,
}

impl EarlierRuns {
    /// All runs but the one that is about to begin.
    pub fn list(layout: &Layout, own: &Path) -> EarlierRuns {
        let entries = fs::read_dir(layout.runs()).into_iter().flatten().flatten();
        let mut list: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // A directory without records is that of a message that was not run.
        list.retain(|path| path != own && has_records(path));
        list.sort();
        EarlierRuns { held: 0, list, listed_at: jiff::Timestamp::now().as_second() }
    }

    /// Takes the next run whose records are to be held, the latest first.
    pub fn next_to_hold(&mut self) -> Option<PathBuf> {
        let older = self.list.len().checked_sub(self.held + 1)?;
        if self.held == MAX_EARLIER_RUNS {
            return None;
        }
        self.held += 1;
        Some(self.list[older].clone())
    }

    /// Forgets the runs that are gone or were emptied. Returns how many of them were not held, and how many were.
    pub fn take_gone(&mut self) -> (usize, usize) {
        let (listed_at, others) = (self.listed_at, self.list.len() - self.held);
        let held = self.list.split_off(others);
        let still_there = |runs: Vec<PathBuf>| -> Vec<PathBuf> {
            runs.into_iter().filter(|run| !is_gone(run, listed_at)).collect()
        };
        let (others_now, held_now) = (still_there(std::mem::take(&mut self.list)), still_there(held));
        let gone = (others - others_now.len(), self.held - held_now.len());
        self.held = held_now.len();
        self.list = others_now;
        self.list.extend(held_now);
        gone
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
    runs: PathBuf,
    /// Links among the runs that were there before.
    known: HashSet<PathBuf>,
}

impl AbsentDirs {
    pub fn list(layout: &Layout, mut dirs: Vec<PathBuf>) -> AbsentDirs {
        dirs.extend([layout.own_store(), layout.own_venv()]);
        dirs.retain(|dir| !dir.is_symlink());
        let runs = layout.runs();
        let known = links_in(&runs).unwrap_or_default().into_iter().collect();
        AbsentDirs { dirs, runs, known }
    }

    /// The links that are there now. A routine knows the ids of the runs that will follow.
    pub fn links(&self) -> Result<Vec<PathBuf>> {
        let mut links = links_in(&self.runs).at("read", &self.runs)?;
        links.retain(|link| !self.known.contains(link));
        links.extend(self.dirs.iter().filter(|dir| dir.is_symlink()).cloned());
        Ok(links)
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
