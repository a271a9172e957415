//! Where decree keeps what it finds in the way of its own files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{IoContext, Result};
use crate::fs::atomic::TEMPORARY;
use crate::fs::quarantine::{free_name, move_to_free_name};
use crate::fs::random_hex;

/// What was found in the way, until it can be moved to `set-aside/`.
///
/// It waits beside where it was found: `set-aside/` itself may be among the directories that have to be repaired first.
#[derive(Default)]
pub(super) struct Quarantine {
    waiting: Vec<(PathBuf, String)>,
}

impl Quarantine {
    /// Moves what is at `path` out of the way, if anything is.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        let (waiting, name) = waiting_place(path);
        if fs::rename(path, &waiting).if_exists().at("move", path)?.is_some() {
            self.waiting.push((waiting, name));
        }
        Ok(())
    }

    /// Keeps what is at `path` under a second name, for a caller that replaces it in one step. A process that is killed in between
    /// leaves the old file or the new one, never none.
    pub fn keep_copy(&mut self, path: &Path) -> Result<()> {
        let (waiting, name) = waiting_place(path);
        second_name(path, &waiting)?;
        self.waiting.push((waiting, name));
        Ok(())
    }

    /// Moves everything that waits into `dir`. Returns how much that was.
    pub fn finish(self, dir: &Path) -> Result<usize> {
        for (from, name) in &self.waiting {
            move_to_free_name(from, |number| place(dir, name, number))?;
        }
        Ok(self.waiting.len())
    }
}

fn waiting_place(path: &Path) -> (PathBuf, String) {
    let name = name_of(path);
    // Hidden: no message in the inbox, whatever its name. It may be the only copy, so nothing may sweep it away.
    (path.with_file_name(format!(".{TEMPORARY}{}-{name}", random_hex())), name)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn place(dir: &Path, name: &str, number: u64) -> PathBuf {
    dir.join(format!(".decree-{number}-{}", name.trim_start_matches('.')))
}

/// A free place in `dir` for another version of the file at `path`.
pub(super) fn free_place(path: &Path, dir: &Path) -> PathBuf {
    let name = name_of(path);
    free_name(|number| place(dir, &name, number))
}

/// Moves what is at `path` straight into `dir`; with `is_replaced`, a second name of it, so that the caller can replace it in one step.
pub(super) fn set_aside(path: &Path, dir: &Path, is_replaced: bool) -> Result<()> {
    let name = name_of(path);
    if is_replaced && path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        fs::create_dir_all(dir).at("create", dir)?;
        return second_name(path, &free_name(|number| place(dir, &name, number)));
    }
    move_to_free_name(path, |number| place(dir, &name, number)).map(drop)
}

/// A hard link; a copy, where the file system has none.
fn second_name(path: &Path, to: &Path) -> Result<()> {
    fs::hard_link(path, to).or_else(|_| fs::copy(path, to).map(drop)).at("copy", path)
}
