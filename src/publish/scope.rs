//! Paths of a run that cannot be committed here: ignored ones, and those in another repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::repository::Repository;
use crate::checkpoint::path::{TreePath, dirs_above};
use crate::checkpoint::quote::for_people;
use crate::checkpoint::root::Root;
use crate::error::{Error, IoContext, Result};
use crate::git::{Git, GitIndex, nul_separated};

/// Refuses paths in a submodule or in a nested repository.
pub fn refuse_other_repositories(
    repository: &Repository,
    root: &Root,
    index: &GitIndex<'_>,
    paths: &BTreeSet<&TreePath>,
) -> Result<()> {
    let submodules = index.submodules()?;
    let in_submodule = |path: &&TreePath| {
        let path = repository.inside(path.as_bytes());
        submodules
            .iter()
            .any(|module| path.starts_with(module) && matches!(path.get(module.len()), None | Some(b'/')))
    };
    let nested: Vec<TreePath> = dirs_above(paths.iter().copied())
        .into_iter()
        .filter(|dir| dir.below(root.path()).join(".git").symlink_metadata().is_ok())
        .collect();
    let is_nested = |path: &TreePath| nested.iter().any(|dir| path.is_in(dir));
    let inside: Vec<String> =
        paths.iter().filter(|path| in_submodule(path) || is_nested(path)).map(ToString::to_string).collect();
    let why = "some files belong to another repository: a submodule, or one nested in this one";
    refuse(inside, why, "commit them there first, then the submodule here")
}

/// Refuses to publish these paths, if there are any.
pub fn refuse(paths: Vec<String>, why: &str, hint: &str) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    Err(Error::failed(why).details(paths, 20).detail("nothing was done").hint(hint))
}

/// The paths that git ignores and does not track: they stay out of commits, as with `git add`. Rules that a published run
/// itself wrote to a `.gitignore` do not count: a run must not hide its own files from its commit.
pub fn ignored<'p>(
    repository: &Repository,
    root: &Root,
    index_file: &Path,
    paths: &BTreeSet<&'p TreePath>,
) -> Result<BTreeSet<&'p TreePath>> {
    let mut candidates: BTreeMap<Vec<u8>, &'p TreePath> = BTreeMap::new();
    for path in paths {
        // git refuses paths behind a symbolic link, and nothing there can be ignored.
        if root.blocker(path).at("look for", path.as_path())?.is_none() {
            candidates.insert(repository.inside(path.as_bytes()), path);
        }
    }
    let changed: BTreeSet<Vec<u8>> = paths.iter().map(|path| repository.inside(path.as_bytes())).collect();
    let names: Vec<&[u8]> = candidates.keys().map(Vec::as_slice).collect();
    let found = check_ignore(&repository.git, index_file, &names)?;
    let found = found.into_iter().filter(|(_, source)| !changed.contains(source));
    Ok(found.filter_map(|(path, _)| candidates.get(&path).copied()).collect())
}

/// Whether git ignores one path that is not in its index.
pub fn is_ignored(repository: &Repository, index_file: &Path, path: &[u8]) -> Result<bool> {
    check_ignore(&repository.git, index_file, &[path]).map(|found| !found.is_empty())
}

/// Each ignored path, with the file that contains the rule.
fn check_ignore(git: &Git, index_file: &Path, names: &[&[u8]]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // Without `./`, a name could be read as a pathspec with magic, such as `:top`.
    let names: Vec<Vec<u8>> = names.iter().map(|name| [b"./", *name].concat()).collect();
    let answer = git
        .call(["check-ignore", "-v", "-z", "--stdin"])
        .variable("GIT_INDEX_FILE", index_file)
        .input(nul_separated(&names))
        .run()?;
    if !answer.is_ok() && !answer.is_code(1) {
        return Err(answer.into_error());
    }
    let pieces: Vec<&[u8]> = answer.records().collect();
    let entries = pieces.as_chunks::<4>().0.iter().filter(|entry| !entry[2].starts_with(b"!"));
    Ok(entries.map(|entry| (entry[3][2..].to_vec(), entry[0].to_vec())).collect())
}

pub fn shown(paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<String> {
    paths.into_iter().map(|path| for_people(path.as_ref()).into_owned()).collect()
}
