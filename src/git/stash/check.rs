//! Whether an entry is all there.

use super::{Stash, Stashes};
use crate::error::{Error, Result};
use crate::git::{GitCall, GitOutput};

impl Stashes {
    /// Proves that an entry can be used: it has the shape of one, and all that is in it and not in the base is there and has the
    /// content its name says. Of the base, which is the repository's own, every file has to be there. Its history is not
    /// looked at.
    pub fn check(&self, stash: &Stash) -> Result<()> {
        let Stash { commit, base, .. } = stash;
        let damaged = |answer: GitOutput| -> Error {
            let lines: Vec<String> = answer.err.lines().map(str::to_owned).collect();
            damaged(commit).details(lines, 10)
        };
        let asked = |args: &[&str], input: String| -> Result<GitOutput> {
            let answer = self.plainly(args).input(input.into_bytes()).run()?;
            if answer.is_ok() { Ok(answer) } else { Err(damaged(answer)) }
        };
        let line = asked(&["rev-list", "--no-walk", "--parents", commit], String::new())?.line();
        let family: Vec<&str> = line.split(' ').collect();
        let (i, rest) = match family[..] {
            [_, first, i, ref rest @ ..] if first == base && rest.len() <= 1 => (i, rest),
            _ => return Err(not_ours(commit)),
        };
        let tree = asked(&["rev-parse", "--verify", &format!("{i}^{{tree}}")], String::new())?.line();
        if tree != stash.index_tree {
            return Err(not_ours(commit));
        }
        // Whatever is asked for by its own name is read and hashed; whatever is only come across, not always.
        let not_base = format!("^{base}");
        let list = [&["rev-list", "--objects", "--no-object-names", &not_base, commit, i], rest].concat();
        let own = asked(&list, String::new())?.line();
        let proof = ["rev-list", "--objects", "--verify-objects", "--quiet", "--stdin"];
        asked(&proof, format!("{own}\n{not_base}\n"))?;
        let base_there =
            ["rev-list", "--objects", "--no-walk", "--quiet", "--exclude-promisor-objects", base];
        asked(&base_there, String::new()).map(drop)
    }

    /// A call that reads what is there, and nothing that stands for it.
    fn plainly(&self, args: &[&str]) -> GitCall<'_> {
        let args = [&["-c", "core.commitGraph=false"], args].concat();
        self.git().call(args).variable("GIT_NO_REPLACE_OBJECTS", "1")
    }
}

fn damaged(commit: &str) -> Error {
    Error::integrity(format!("the stash entry {commit} is damaged, or parts of it are gone"))
        .hint("`git fsck` shows what is wrong with the repository; another clone may have the objects")
}

fn not_ours(commit: &str) -> Error {
    Error::integrity(format!("the stash entry {commit} is not what was recorded of it"))
        .hint("`git show` shows what it is")
}
