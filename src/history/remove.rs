//! A checkpoint deleted, so that it is there whole or not at all, and never without a line that says so.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::audit::{self, AuditAction, AuditEntry};
use super::kind::stash;
use super::record::CheckpointRecord;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::project::Layout;

/// Deletes a checkpoint. Its content stays in the store until that is tidied up. Who calls this holds the project's lock.
pub fn remove(layout: &Layout, saved: &CheckpointDir, reason: Option<String>) -> Result<()> {
    // One that cannot be read says of no entry in git's list that it is its own.
    let record = CheckpointRecord::read(saved.dir()).ok();
    // First the line: nothing is deleted without one.
    let deed = AuditEntry { reason, ..AuditEntry::new(AuditAction::Delete, saved.id(), 0) };
    audit::record(&layout.audit(), deed)?;
    // Gone with one rename; the rest is tidying up, and whoever takes the lock next finishes it.
    let going = layout.checkpoints().join(format!("{TEMPORARY}{}", saved.id()));
    fs::rename(saved.dir(), &going).at("delete", saved.dir())?;
    atomic::sync_dir(&layout.checkpoints())?;
    remove_all(&going).at("delete", &going)?;
    record.map_or(Ok(()), |record| stash::forget(layout, &record)).map_err(|error| {
        error.detail(format!("{} is deleted; only its entry in `git stash list` is still there", saved.id()))
    })
}

/// What was set aside may have directories that let nobody write in them.
fn remove_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir)?;
            fs::remove_dir_all(dir)
        }
        result => result,
    }
}

fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
