//! What restores moved to `set-aside/` of a checkpoint: nothing else may hold it, so it is never deleted unnamed.

use std::path::PathBuf;

use walkdir::WalkDir;

use crate::checkpoint::checkpoint_dir::CheckpointDir;
use crate::error::{Error, Result};
use crate::fs::untrusted;
use crate::humanize::count;

/// How many paths an error names.
const MAX_NAMED: usize = 20;

/// The files in the quarantine directories of a checkpoint, relative to its directory, sorted.
pub fn set_aside_files(checkpoint: &CheckpointDir) -> Vec<PathBuf> {
    let dir = checkpoint.dir();
    let mut files = Vec::new();
    for name in untrusted::names_in(dir).unwrap_or_default() {
        if name.as_encoded_bytes().starts_with(CheckpointDir::SET_ASIDE.as_bytes()) {
            let below = WalkDir::new(dir.join(name)).into_iter().flatten();
            let found = below.filter(|entry| !entry.file_type().is_dir());
            files.extend(found.filter_map(|entry| entry.path().strip_prefix(dir).ok().map(PathBuf::from)));
        }
    }
    files.sort();
    files
}

/// Fails if a checkpoint has such files, and names them.
pub fn refuse_if_set_aside(checkpoint: &CheckpointDir) -> Result<()> {
    let files = set_aside_files(checkpoint);
    if files.is_empty() { Ok(()) } else { Err(only_copy(checkpoint, &files)) }
}

/// The error of a command that would delete them.
fn only_copy(checkpoint: &CheckpointDir, files: &[PathBuf]) -> Error {
    let id = checkpoint.id();
    let lines = files.iter().map(|file| checkpoint.dir().join(file).display().to_string()).collect();
    Error::failed(format!("{id} holds {} that nothing else may hold", count(files.len(), "file")))
        .details(lines, MAX_NAMED)
        .detail("a restore set them aside; nothing was deleted")
        .hint(format!("move them away, or delete them too: `decree checkpoint delete --with-set-aside {id}`"))
}
