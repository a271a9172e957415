//! The directories of decree's own files: nobody else may read them, and no link in their place leads decree elsewhere.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::Layout;
use crate::error::{Error, IoContext, Result};
use crate::fs::beneath::InodeHandle;

/// They have copies of files that others may not be allowed to read.
const PRIVATE: u32 = 0o700;

/// Creates the directories that are missing, and takes away the permissions of others on those that are there. If they all exist before a
/// routine starts, it cannot put anything in the place of one. A link is refused, but in the queue, which a rollback can repair.
pub(super) fn prepare(layout: &Layout) -> Result<()> {
    let waiting = [layout.waiting(), layout.waiting_dead(), layout.waiting_done()];
    for dir in [layout.runs(), layout.checkpoints(), layout.scratch()].into_iter().chain(waiting) {
        refuse_other(layout, &dir)?;
        make_private(&dir)?;
    }
    for dir in queue(layout) {
        let is_other = dir.symlink_metadata().is_ok_and(|found| !found.is_dir());
        if is_other {
            break;
        }
        make_private(&dir)?;
    }
    if layout.owns_store() { make_private(&layout.store()) } else { Ok(()) }
}

/// Refuses a queue that leads elsewhere, before a message is written to it.
pub(super) fn check_queue(layout: &Layout) -> Result<()> {
    queue(layout).iter().try_for_each(|dir| refuse_other(layout, dir))
}

/// The parent first.
fn queue(layout: &Layout) -> [PathBuf; 3] {
    [layout.inbox(), layout.done(), layout.dead()]
}

fn refuse_other(layout: &Layout, dir: &Path) -> Result<()> {
    let Some(found) = dir.symlink_metadata().if_exists().at("read", dir)? else { return Ok(()) };
    if found.is_dir() {
        return Ok(());
    }
    let (dir, what) =
        (layout.shown(dir), if found.is_symlink() { "a symbolic link" } else { "not a directory" });
    Err(Error::integrity(format!("{dir} is {what}, and decree writes only to a directory there"))
        .detail("a routine may have put it there")
        .hint(format!(
            "look at what it is, then remove it and run the same command again; {} and its store may be links, what is in it may not",
            layout.shown(&layout.decree())
        )))
}

fn make_private(dir: &Path) -> Result<()> {
    match dir.symlink_metadata().if_exists().at("read", dir)? {
        None => DirBuilder::new().mode(PRIVATE).create(dir).unless_exists().at("create", dir).map(drop),
        Some(found) if found.permissions().mode() & 0o077 == 0 => Ok(()),
        Some(found) => {
            let mode = found.permissions().mode() & PRIVATE;
            // It may belong to another user, who decides about it.
            let _ = InodeHandle::open(CWD, dir.as_os_str()).and_then(|inode| inode.set_mode(mode));
            Ok(())
        }
    }
}
