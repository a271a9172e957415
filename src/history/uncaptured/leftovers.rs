//! Files that a decree left in the tree that was killed while it restored likely secrets.

use std::path::{Path, PathBuf};

use super::held_file::move_aside;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;
use crate::checkpoint::workspace::Workspace;
use crate::fs::transfer::TEMPORARY_IN_TREE;

/// Moves them to the quarantine: each has the content of a likely secret, from before or after. Returns where they are now. One that cannot
/// be found or moved stays a likely secret by its name.
pub fn collect_leftovers(
    workspace: &Workspace,
    manifest: &Manifest,
    set_aside: &Path,
) -> Vec<(TreePath, PathBuf)> {
    let secrets = workspace.likely_secrets(manifest).unwrap_or_default();
    let is_leftover = |path: &TreePath| {
        path.name().starts_with(TEMPORARY_IN_TREE.as_bytes()) && !manifest.coverage.excludes(path)
    };
    let leftovers = secrets.into_iter().filter(is_leftover);
    let moved = |path: TreePath| {
        let to = move_aside(workspace.root(), &path, &path, set_aside).ok()?;
        Some((path, to))
    };
    leftovers.filter_map(moved).collect()
}
