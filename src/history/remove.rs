//! Deleting a checkpoint: it is there whole or not at all, and never deleted without an audit entry.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::audit::{self, AuditAction, AuditEntry};
use super::kind;
use super::record::CheckpointRecord;
use super::set_aside::refuse_if_set_aside;
use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{IoContext, Result};
use crate::fs::atomic::{self, TEMPORARY};
use crate::project::Layout;

/// What happens to a checkpoint that has files in `set-aside/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAsideRule {
    /// It is not deleted: they may be the only copy.
    Keep,
    /// The user was shown them and wants them deleted.
    Delete,
}

/// Deletes a checkpoint. Its content stays in the store until `gc` drops it. The caller holds the project's lock.
pub fn remove(
    layout: &Layout,
    checkpoint: &CheckpointDir,
    reason: Option<String>,
    rule: SetAsideRule,
) -> Result<()> {
    let (id, dir) = (checkpoint.id(), checkpoint.dir());
    if rule == SetAsideRule::Keep {
        refuse_if_set_aside(checkpoint)?;
    }
    // A record that cannot be read does not name an entry of git's, so none is dropped.
    let record = CheckpointRecord::read(dir).ok();
    // The audit entry comes first: nothing is deleted without one.
    let entry = AuditEntry { reason, ..AuditEntry::new(AuditAction::Delete, id, 0) };
    audit::record(&layout.audit(), entry)?;
    // One rename deletes it. If decree is killed after that, the next command that takes the lock removes the rest.
    let deleted = layout.checkpoints().join(format!("{TEMPORARY}{id}"));
    fs::rename(dir, &deleted).at("delete", dir)?;
    atomic::sync_dir(&layout.checkpoints())?;
    remove_all(&deleted).at("delete", &deleted)?;
    record.map_or(Ok(()), |record| kind::forget(layout, &record)).map_err(|error| {
        error.detail(format!("{id} is deleted; only its entry in `git stash list` is still there"))
    })
}

/// Removes a directory, also with directories in it that are read-only, as those in `set-aside/` may be.
fn remove_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(dir)?;
            fs::remove_dir_all(dir)
        }
        result => result,
    }
}

fn make_writable(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}
