//! SQLite databases in the tree that other programs have open while decree puts the tree back by itself, after a run or a guarded
//! command that failed. Their files cannot be replaced, and there may be no user to stop the programs: so their content is written
//! back through SQLite, in one transaction. What they held before is kept.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::HistoryContext;
use crate::checkpoint::live_database::{DatabaseInUse, parts};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::database::sqlite;
use crate::error::{IoContext, Result};
use crate::fs::{atomic, random_hex};

/// Writes the content that a checkpoint has back to databases that are open in other programs. What they held before is kept in
/// `set_aside`. Returns a sentence for each that differed, also for those that could not be written.
pub fn write_back(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    databases: &[DatabaseInUse],
    set_aside: &Path,
) -> Vec<String> {
    let note = |database: &DatabaseInUse| {
        let (path, users) = (&database.path, database.users());
        if !manifest.tree.has(path) {
            return Some(format!("{path} is new, but open in {users}: it was not removed"));
        }
        match write_back_one(context, manifest, path, set_aside) {
            Ok(None) => None,
            Ok(Some(kept)) => Some(format!(
                "{path} is open in {users}: its content was restored through SQLite; what it held before, with what that program committed, is in {kept}",
            )),
            Err(error) => Some(format!("{path} is open in {users} and was not restored: {error}")),
        }
    };
    databases.iter().filter_map(note).collect()
}

/// Returns where the previous content is kept; `None` if it is the same.
fn write_back_one(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    path: &TreePath,
    set_aside: &Path,
) -> Result<Option<String>> {
    let scratch = context.layout.scratch();
    let dir = scratch.join(format!("{}{}", atomic::TEMPORARY, random_hex()));
    fs::create_dir_all(&dir).at("create", &dir)?;
    let restored = restore_from(context, manifest, path, set_aside, &dir);
    let _ = fs::remove_dir_all(&dir);
    restored
}

fn restore_from(
    context: HistoryContext<'_>,
    manifest: &Manifest,
    path: &TreePath,
    set_aside: &Path,
    dir: &Path,
) -> Result<Option<String>> {
    let files = dir.join("files");
    fs::create_dir(&files).at("create", &files)?;
    for part in parts(path) {
        let Some((hash, _)) = manifest.tree.get(&part).and_then(|node| node.content()) else { continue };
        let to = files.join(OsStr::from_bytes(part.name()));
        let mut out = atomic::create_new(&to).at("create", &to)?;
        io::copy(&mut context.workspace.store().reader(&hash)?, &mut out).at("write", &to)?;
    }
    let copy = dir.join("copy");
    let saved = sqlite::save(&files.join(OsStr::from_bytes(path.name())), &copy)?;
    let live = path.below(context.workspace.root().path());
    if sqlite::content_now(&live, dir)? == Some(saved.content) {
        return Ok(None);
    }
    let kept = sqlite::restore(&copy, &saved, &live, set_aside, None)?;
    let kept: Vec<String> = kept.iter().map(|path| context.layout.shown(path)).collect();
    Ok(Some(kept.join(", ")))
}
