//! Verifies that an entry is complete.

use super::{Stash, Stashes};
use crate::error::{Error, Result};
use crate::git::{GitCall, GitOutput};

impl Stashes {
    /// Verifies that an entry can be applied: it has the right parents, and every object that is in it and not in the base exists
    /// and matches its hash. Of the base, every object must exist; its history is not checked.
    pub fn check(&self, stash: &Stash) -> Result<()> {
        let Stash { commit, base, .. } = stash;
        let damaged = |output: GitOutput| -> Error {
            let lines: Vec<String> = output.err.lines().map(str::to_owned).collect();
            damaged(commit).details(lines, 10)
        };
        let run = |args: &[&str], input: String| -> Result<GitOutput> {
            let output = self.call_on_real_objects(args).input(input.into_bytes()).run()?;
            if output.is_ok() { Ok(output) } else { Err(damaged(output)) }
        };
        let line = run(&["rev-list", "--no-walk", "--parents", commit], String::new())?.line();
        let ids: Vec<&str> = line.split(' ').collect();
        let (i, rest) = match ids[..] {
            [_, first, i, ref rest @ ..] if first == base && rest.len() <= 1 => (i, rest),
            _ => return Err(not_as_recorded(commit)),
        };
        let tree = run(&["rev-parse", "--verify", &format!("{i}^{{tree}}")], String::new())?.line();
        if tree != stash.index_tree {
            return Err(not_as_recorded(commit));
        }
        // rev-list hashes the objects that are named in its input; not all of those that it only reaches.
        let not_base = format!("^{base}");
        let list = [&["rev-list", "--objects", "--no-object-names", &not_base, commit, i], rest].concat();
        let own = run(&list, String::new())?.line();
        let proof = ["rev-list", "--objects", "--verify-objects", "--quiet", "--stdin"];
        run(&proof, format!("{own}\n{not_base}\n"))?;
        let base_objects =
            ["rev-list", "--objects", "--no-walk", "--quiet", "--exclude-promisor-objects", base];
        run(&base_objects, String::new()).map(drop)
    }

    /// A call that ignores replacement objects and the commit graph, which would hide missing objects.
    fn call_on_real_objects(&self, args: &[&str]) -> GitCall<'_> {
        let args = [&["-c", "core.commitGraph=false"], args].concat();
        self.git().call(args).variable("GIT_NO_REPLACE_OBJECTS", "1")
    }
}

fn damaged(commit: &str) -> Error {
    Error::integrity(format!("the stash entry {commit} is damaged or incomplete"))
        .hint("`git fsck` shows what is wrong with the repository; another clone may have the objects")
}

fn not_as_recorded(commit: &str) -> Error {
    Error::integrity(format!("the stash entry {commit} does not match its record"))
        .hint("`git show` shows what it is")
}
