//! Making an entry.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Covers, Stash, Stashes};
use crate::error::{Error, Result};
use crate::git::{Differences, GitIndex, IndexChange};
use crate::interrupt;
use crate::sanitize::one_line;

/// An entry that somebody asks for.
pub struct StashRequest<'r> {
    /// What it says in the list, behind the branch: one line.
    pub message: String,
    /// What it is about.
    pub covers: &'r Covers<'r>,
}

/// What the work tree has that the index has not.
struct Edits {
    /// Paths to be read from it.
    there: Vec<Vec<u8>>,
    /// Paths that are not in it any more.
    gone: Vec<Vec<u8>>,
}

impl Stashes {
    /// Makes an entry of the work tree and the index as they are. Neither is touched, no lock of the index is taken, no hook
    /// runs. Whoever is killed leaves objects that nothing leads to, or an entry.
    pub fn create(&self, request: &StashRequest<'_>) -> Result<Stash> {
        let Some(base) = self.git().commit_of("HEAD")? else {
            return Err(Error::failed(format!("there is no commit yet in {}", self.place.top.display()))
                .detail("a stash entry is what is changed since a commit")
                .hint("`git commit --allow-empty -m first` makes one; a checkpoint of the type file_backup needs none"));
        };
        let branch = self.place.branch()?;
        let scratch = self.scratch()?;
        let found = self.copy_of_index(&scratch)?.index;
        self.refuse_unmerged(&found, request.covers)?;

        let tracked = GitIndex::at(self.git(), scratch.path("tracked"));
        tracked.read_tree(&base)?;
        let staged: Vec<IndexChange> = found.changes_since(&base)?;
        let staged: Vec<IndexChange> =
            staged.into_iter().filter(|change| self.is_covered(request.covers, &change.path)).collect();
        tracked.put(
            &staged.iter().map(|change| (change.path.clone(), change.after.clone())).collect::<Differences>(),
        )?;
        let index_tree = tracked.write_tree()?;

        let edits = self.edits(&found, &staged, request.covers)?;
        tracked.remove(&edits.gone)?;
        tracked.take(&edits.there).map_err(unreadable)?;
        let tree = tracked.write_tree()?;

        let others = GitIndex::at(self.git(), scratch.path("untracked"));
        let untracked = self.untracked(&found, &edits, request.covers)?;
        others.take(&untracked).map_err(unreadable)?;
        interrupt::check()?;

        let on = branch.as_deref().unwrap_or("(no branch)");
        let about = format!("{on}: {}", self.headline(&base)?);
        let i = self.commit(&index_tree, &[&base], &format!("index on {about}"))?;
        let mut parents = vec![base.as_str(), &i];
        let u = match untracked.is_empty() {
            true => None,
            false => Some(self.commit(&others.write_tree()?, &[], &format!("untracked files on {about}"))?),
        };
        parents.extend(u.as_deref());
        let message = format!("On {on}: {}", one_line(&self.git().shown(&request.message)));
        let commit = self.commit(&tree, &parents, &message)?;
        interrupt::check()?;
        self.store(&commit, &message)?;
        Ok(Stash { commit, base, branch, index_tree })
    }

    /// The three sides of a conflict fit into no tree.
    fn refuse_unmerged(&self, found: &GitIndex<'_>, covers: &Covers<'_>) -> Result<()> {
        let mut paths = found.unmerged()?;
        paths.retain(|path| self.is_covered(covers, path));
        if paths.is_empty() {
            return Ok(());
        }
        Err(Error::failed("there are conflicts that nobody has resolved yet, and git can stash none")
            .details(self.shown(&paths), 20)
            .detail("nothing was done")
            .hint("resolve them and `git add` them, or abort the merge; a checkpoint of the type file_backup takes them as they are"))
    }

    /// Where tracked files are not as the index has them. `staged` is where that is not as the base.
    fn edits(&self, found: &GitIndex<'_>, staged: &[IndexChange], covers: &Covers<'_>) -> Result<Edits> {
        let mut edits = Edits { there: Vec::new(), gone: Vec::new() };
        for change in found.changes_of_work_tree()? {
            if !self.is_covered(covers, &change.path) {
                continue;
            }
            // A repository that somebody put in a file's place is none of ours; the file is gone.
            let replaced = change.after.is_repository() && !change.before.is_repository();
            match change.after.exists() && !replaced {
                true => edits.there.push(change.path),
                false => edits.gone.push(change.path),
            }
        }
        // Taken out of the index, and still there: the base has it, so it is no untracked file to whoever applies this.
        let out = staged.iter().filter(|change| !change.after.exists());
        edits.there.extend(out.filter(|change| self.is_file(&change.path)).map(|change| change.path.clone()));
        Ok(edits)
    }

    /// Whether there is a file or a link at a path, and not behind one.
    pub(super) fn is_file(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let mut above = path.ancestors().skip(1).map(|dir| self.place.top.join(dir));
        let kind = |path: &Path| path.symlink_metadata().map(|metadata| metadata.file_type());
        above.all(|dir| kind(&dir).is_ok_and(|kind| kind.is_dir()))
            && kind(&self.place.top.join(path)).is_ok_and(|kind| kind.is_file() || kind.is_symlink())
    }

    /// Files that git neither tracks nor ignores.
    fn untracked(&self, found: &GitIndex<'_>, edits: &Edits, covers: &Covers<'_>) -> Result<Vec<Vec<u8>>> {
        let known: BTreeSet<&[u8]> = edits.there.iter().map(Vec::as_slice).collect();
        let own = self.scratch.strip_prefix(&self.root).ok();
        let mut others = found.others(&self.root)?;
        others.retain(|path| {
            let is_own = own.is_some_and(|own| Path::new(OsStr::from_bytes(path)).starts_with(own));
            !path.ends_with(b"/") && !is_own && covers(path)
        });
        let others = others.iter().map(|path| self.place.below(path));
        Ok(others.filter(|path| !known.contains(path.as_slice())).collect())
    }

    /// A commit's short name and the first line of what it says.
    fn headline(&self, commit: &str) -> Result<String> {
        let answer = self.git().call(["rev-list", "--max-count=1", "--format=%h %s", commit]).ok()?;
        let text = answer.line();
        Ok(text.split_once('\n').map_or("", |(_, line)| line).to_owned())
    }

    fn commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String> {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        let args: Vec<&str> = ["commit-tree", tree, "-F", "-"].into_iter().chain(parents).collect();
        self.by_somebody(self.git().call(args))?.input(message.as_bytes().to_vec()).line()
    }
}

fn unreadable(error: Error) -> Error {
    error
        .detail("there is no stash entry; nothing was changed")
        .hint("git has to be able to read every file: make it readable, or leave it out of the scope")
}
