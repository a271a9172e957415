//! Which of the held files a program may have changed, so that only they are compared.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::fs::change_watch::Changed;

/// What a program may have changed.
pub(super) struct Suspects<'s>(&'s Changed);

impl<'s> Suspects<'s> {
    pub fn of(changed: &'s Changed) -> Self {
        Suspects(changed)
    }

    /// Those of the known paths that may have changed, as they are in a directory that may have, sorted.
    pub fn among<T>(&self, known: &BTreeMap<PathBuf, T>) -> Vec<PathBuf> {
        match self.0 {
            Changed::All => known.keys().cloned().collect(),
            Changed::Paths(paths) => {
                let below = paths.iter().flat_map(|path| at_or_below(known, path));
                below.cloned().collect::<BTreeSet<_>>().into_iter().collect()
            }
        }
    }

    /// Whether something at a path or directly in it may have changed.
    pub fn includes_below(&self, path: &Path) -> bool {
        match self.0 {
            Changed::All => true,
            Changed::Paths(paths) => {
                paths.iter().any(|changed| changed == path || changed.parent() == Some(path))
            }
        }
    }

    /// The entries of a directory in which something may have changed, or `None` for all of them.
    pub fn few_below(&self, dir: &Path) -> Option<HashSet<PathBuf>> {
        let Changed::Paths(paths) = self.0 else { return None };
        let entry =
            |path: &PathBuf| path.ancestors().find(|above| above.parent() == Some(dir)).map(Path::to_owned);
        (!paths.contains(dir)).then(|| paths.iter().filter_map(entry).collect())
    }
}

/// The known paths that are `path` or below it.
pub(super) fn at_or_below<'k, T>(
    known: &'k BTreeMap<PathBuf, T>,
    path: &'k Path,
) -> impl Iterator<Item = &'k PathBuf> {
    let from = (Bound::Included(path), Bound::Unbounded);
    known.range::<Path, _>(from).map(|(known, _)| known).take_while(move |known| known.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths<C: FromIterator<PathBuf>>(list: &[&str]) -> C {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_is_below_a_changed_directory_is_suspected_too() {
        let known: BTreeMap<PathBuf, ()> =
            ["a/b", "a/b/c", "a/b-2", "a/bc", "x"].iter().map(|path| (PathBuf::from(path), ())).collect();
        let changed = Changed::Paths(paths(&["a/b", "unknown"]));
        assert_eq!(Suspects::of(&changed).among(&known), paths::<Vec<_>>(&["a/b", "a/b/c"]));
        assert_eq!(Suspects::of(&Changed::All).among(&known).len(), 5);
    }

    #[test]
    fn a_change_in_a_run_is_one_of_its_directory() {
        let changed = Changed::Paths(paths(&["runs/1/result.json", "runs/2", "inbox/a.md"]));
        let suspects = Suspects::of(&changed);
        assert_eq!(suspects.few_below(Path::new("runs")), Some(paths(&["runs/1", "runs/2"])));
        assert!(suspects.includes_below(Path::new("runs/1")) && suspects.includes_below(Path::new("runs/2")));
        assert!(!suspects.includes_below(Path::new("runs/3")));
        assert_eq!(Suspects::of(&Changed::Paths(paths(&["runs"]))).few_below(Path::new("runs")), None);
    }
}
