//! Files that a failed operation left beside what its checkpoint was made for: backups, temporary and rejected files.
//!
//! A rollback does not touch what is outside of its scope. But `production.yaml.bak` beside `production.yaml`, created since the checkpoint,
//! is hardly ever meant to stay, so the answer names it.

use std::collections::{BTreeMap, BTreeSet};

use super::scope::Scope;
use crate::checkpoint::compare::Change;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::path::TreePath;

/// The created files outside of the scope whose name, or the name of a directory above them, is made from that of a path within the
/// scope, in the same directory.
pub fn created_beside(scope: &Scope, manifest: &Manifest, changes: &[Change]) -> Vec<TreePath> {
    if scope.is_everything() {
        return Vec::new();
    }
    let created: Vec<&Change> = changes
        .iter()
        .filter(|change| change.before.is_none() && change.after.is_some_and(|node| !node.is_dir()))
        .filter(|change| !scope.covers(&change.path))
        .collect();
    if created.is_empty() {
        return Vec::new();
    }
    let known = stems_by_dir(scope, manifest);
    let is_beside = |path: &TreePath| {
        let (dir, name) = path.split();
        known.get(dir).is_some_and(|stems| stems.iter().any(|stem| is_made_from(name, stem)))
    };
    let beside = created.into_iter().filter(|change| {
        let dirs = change.path.ancestors().filter(|dir| !manifest.tree.has_dir(dir.as_bytes()));
        dirs.chain([change.path.clone()]).any(|path| is_beside(&path))
    });
    beside.map(|change| change.path.clone()).collect()
}

/// The stems of the names within the scope, by directory.
fn stems_by_dir(scope: &Scope, manifest: &Manifest) -> BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> {
    let mut stems: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for entry in manifest.tree.iter() {
        let path = entry.path();
        if !scope.covers(&path) {
            continue;
        }
        let dirs = path.ancestors().filter(|dir| scope.covers(dir));
        for path in dirs.chain([path.clone()]) {
            let (dir, name) = path.split();
            stems.entry(dir.to_vec()).or_default().insert(stem(name).to_vec());
        }
    }
    stems
}

/// A name without its last extension. A leading dot begins no extension.
fn stem(name: &[u8]) -> &[u8] {
    match memchr::memrchr(b'.', name) {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

/// Whether a name is the stem with something before or after it, as editors and tools write it: `a.yaml.bak`, `a.orig`, `.a.yaml.swp`,
/// `#a.yaml#`, `a~`, `a_old.yaml`.
fn is_made_from(name: &[u8], stem: &[u8]) -> bool {
    let bare = |name: &[u8]| -> usize {
        name.iter().take_while(|byte| matches!(byte, b'.' | b'#' | b'~' | b'_')).count()
    };
    let (name, stem) = (&name[bare(name)..], &stem[bare(stem)..]);
    let Some(rest) = name.strip_prefix(stem).filter(|_| !stem.is_empty()) else { return false };
    rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && byte.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_recognised_by_its_stem() {
        let stem = stem(b"production.yaml");
        for name in [
            "production.yaml.bak",
            "production.orig",
            ".production.yaml.swp",
            "#production.yaml#",
            "production~",
            "production_old.yaml",
        ] {
            assert!(is_made_from(name.as_bytes(), stem), "{name}");
        }
        for name in ["productions.yaml", "reproduction.yaml", "other.bak", "prod", ""] {
            assert!(!is_made_from(name.as_bytes(), stem), "{name}");
        }
        assert!(is_made_from(b".env.bak", super::stem(b".env")) && !is_made_from(b"x", b"."));
    }
}
