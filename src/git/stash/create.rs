//! Creates an entry.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Covers, Stash, Stashes};
use crate::error::{Error, Result};
use crate::git::{Differences, GitIndex, IndexChange};
use crate::interrupt;
use crate::sanitize::one_line;

/// How the work tree differs from the index.
struct WorkTreeEdits {
    /// Paths to read from the work tree.
    present: Vec<Vec<u8>>,
    /// Paths that the work tree no longer has.
    gone: Vec<Vec<u8>>,
}

impl Stashes {
    /// Creates an entry of the work tree and the index as they are. Neither is touched, the index is not locked, and no hook
    /// runs. A kill leaves unreachable objects, or a complete entry. `message` is the text in the stash list after the branch;
    /// it becomes one line.
    pub fn create(&self, message: &str, covers: &Covers<'_>) -> Result<Stash> {
        let Some(base) = self.git().commit_of("HEAD")? else {
            return Err(Error::failed(format!("{} has no commit yet", self.work_tree.top.display()))
                .detail("a stash entry records the changes since a commit")
                .hint("`git commit --allow-empty -m first` creates one; a checkpoint of the type file_backup needs none"));
        };
        let branch = self.work_tree.branch()?;
        let scratch = self.scratch()?;
        let found = self.copy_index(&scratch)?.index;
        self.refuse_unmerged(&found, covers)?;

        let tracked = GitIndex::at(self.git(), scratch.path("tracked"));
        tracked.read_tree(&base)?;
        let staged = self.covered(found.changes_since(&base)?, covers);
        tracked.put(
            &staged.iter().map(|change| (change.path.clone(), change.after.clone())).collect::<Differences>(),
        )?;
        let index_tree = tracked.write_tree()?;

        let edits = self.edits(&found, &staged, covers)?;
        tracked.remove(&edits.gone)?;
        tracked.update(&edits.present).map_err(unreadable)?;
        let tree = tracked.write_tree()?;

        let untracked_index = GitIndex::at(self.git(), scratch.path("untracked"));
        let untracked = self.untracked(&found, &edits, covers)?;
        untracked_index.update(&untracked).map_err(unreadable)?;
        interrupt::check()?;

        let on = branch.as_deref().unwrap_or("(no branch)");
        let about = format!("{on}: {}", self.headline(&base)?);
        let i = self.commit(&index_tree, &[&base], &format!("index on {about}"))?;
        let mut parents = vec![base.as_str(), &i];
        let u = if untracked.is_empty() {
            None
        } else {
            let tree = untracked_index.write_tree()?;
            Some(self.commit(&tree, &[], &format!("untracked files on {about}"))?)
        };
        parents.extend(u.as_deref());
        let message = format!("On {on}: {}", one_line(&self.git().printable(message)));
        let commit = self.commit(&tree, &parents, &message)?;
        interrupt::check()?;
        self.store(&commit, &message)?;
        Ok(Stash { commit, base, branch, index_tree })
    }

    /// Fails if there are conflicts: a tree cannot represent their three versions.
    fn refuse_unmerged(&self, found: &GitIndex<'_>, covers: &Covers<'_>) -> Result<()> {
        let mut paths = found.unmerged()?;
        paths.retain(|path| self.is_covered(covers, path));
        if paths.is_empty() {
            return Ok(());
        }
        Err(Error::failed("there are unresolved conflicts, which git cannot stash")
            .details(self.printable(&paths), 20)
            .detail("nothing was done")
            .hint("resolve them and `git add` them, or abort the merge; a checkpoint of the type file_backup takes them as they are"))
    }

    /// How tracked files differ from the index. `staged` is how the index differs from the base.
    fn edits(
        &self,
        found: &GitIndex<'_>,
        staged: &[IndexChange],
        covers: &Covers<'_>,
    ) -> Result<WorkTreeEdits> {
        let mut edits = WorkTreeEdits { present: Vec::new(), gone: Vec::new() };
        for change in found.changes_of_work_tree()? {
            if !self.is_covered(covers, &change.path) {
                continue;
            }
            // A nested repository in place of a file is not saved; the file counts as gone.
            let replaced = change.after.is_repository() && !change.before.is_repository();
            let paths = if change.after.exists() && !replaced { &mut edits.present } else { &mut edits.gone };
            paths.push(change.path);
        }
        // Removed from the index but not from the work tree: the base has it, so when the entry is applied it is no untracked file.
        let unstaged = staged.iter().filter(|change| !change.after.exists());
        edits
            .present
            .extend(unstaged.filter(|change| self.is_file(&change.path)).map(|change| change.path.clone()));
        Ok(edits)
    }

    /// Whether the path is a file or a link, with no link among its parent directories.
    pub(super) fn is_file(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let mut parents = path.ancestors().skip(1).map(|dir| self.work_tree.top.join(dir));
        let kind = |path: &Path| path.symlink_metadata().map(|metadata| metadata.file_type());
        parents.all(|dir| kind(&dir).is_ok_and(|kind| kind.is_dir()))
            && kind(&self.work_tree.top.join(path)).is_ok_and(|kind| kind.is_file() || kind.is_symlink())
    }

    /// Covered files that git neither tracks nor ignores, without decree's own temporary files.
    fn untracked(
        &self,
        found: &GitIndex<'_>,
        edits: &WorkTreeEdits,
        covers: &Covers<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let known: BTreeSet<&[u8]> = edits.present.iter().map(Vec::as_slice).collect();
        let own = self.scratch.strip_prefix(&self.root).ok();
        let mut paths = found.untracked(&self.root)?;
        paths.retain(|path| {
            let is_own = own.is_some_and(|own| Path::new(OsStr::from_bytes(path)).starts_with(own));
            !path.ends_with(b"/") && !is_own && covers(path)
        });
        let paths = paths.iter().map(|path| self.work_tree.to_repository(path));
        Ok(paths.filter(|path| !known.contains(path.as_slice())).collect())
    }

    /// A commit's abbreviated hash and subject.
    fn headline(&self, commit: &str) -> Result<String> {
        let output = self.git().call(["rev-list", "--max-count=1", "--format=%h %s", commit]).ok()?;
        let text = output.line();
        Ok(text.split_once('\n').map_or("", |(_, line)| line).to_owned())
    }

    fn commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let args: Vec<&str> = ["commit-tree", tree, "-F", "-"].into_iter().chain(parents).collect();
        self.with_identity(self.git().call(args))?.input(message.as_bytes().to_vec()).line()
    }
}

fn unreadable(error: Error) -> Error {
    error
        .detail("no stash entry was created; nothing was changed")
        .hint("git must be able to read every file: make it readable, or exclude it from the scope")
}
